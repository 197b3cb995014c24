package box

import (
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/services/sandbox-supervisor/internal/disk"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// measureEvery is how often it is measured what a box has written.
const measureEvery = 100 * time.Millisecond

// diskWatch ends a box that has written more than its limit. Its goroutine ends with the box.
type diskWatch struct{ quit, done chan struct{} }

// watchDisk watches the folders that a box may write on the host; home is what it keeps, empty for nothing.
func (b *Box) watchDisk(limit int64, grants []cage.Grant, home string) *diskWatch {
	folders, full := writable(grants), map[string]bool{}
	if home != "" {
		folders = append(folders, home)
		full[home] = true // what was kept before counts too: it would only ever grow
	}
	if limit <= 0 || len(folders) == 0 {
		return nil
	}
	w := &diskWatch{quit: make(chan struct{}), done: make(chan struct{})}
	since := time.Now()
	go func() {
		defer close(w.done)
		// Reading a large tree gives way to everything else. The thread ends with the goroutine, as it is not unlocked.
		runtime.LockOSThread()
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 10)
		b.measure(w, limit, disk.New(since, folders, full, w.quit))
	}()
	return w
}

func (b *Box) measure(w *diskWatch, limit int64, m *disk.Meter) {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	held := func() []int { return proc.Descendants(b.process.pid) }
	for {
		if m.Growth(limit, held) > limit {
			b.end(contract.ReasonDisk)
			return
		}
		select {
		case <-w.quit:
			return
		case <-tick.C:
		}
	}
}

// stop returns when nothing is measured any more.
func (w *diskWatch) stop() {
	if w != nil {
		close(w.quit)
		<-w.done
	}
}

// writable are the paths that can be written, without those in others.
func writable(grants []cage.Grant) (paths []string) {
	for _, g := range grants { // those above come before those in them
		inside := !g.Writable || g.Protected
		for _, p := range paths {
			inside = inside || strings.HasPrefix(g.Path, p+string(filepath.Separator))
		}
		if !inside {
			paths = append(paths, g.Path)
		}
	}
	return paths
}
