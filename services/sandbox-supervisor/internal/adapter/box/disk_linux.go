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

// measureEvery is the interval between two measurements of a cage's disk usage.
const measureEvery = 100 * time.Millisecond

// diskWatch ends a cage when its files grow past limits.disk. Its goroutine ends at stop.
type diskWatch struct{ quit, done chan struct{} }

// watchDisk measures the writable folders of a cage on the host. home is its persistent home, if any. It
// returns nil if there is no limit or no writable folder.
func (b *Box) watchDisk(limit int64, grants []cage.Grant, home string) *diskWatch {
	folders, full := writable(grants), map[string]bool{}
	if home != "" {
		folders = append(folders, home)
		full[home] = true // measured from zero, not as growth: a persistent home would otherwise grow with every cage
	}
	if limit <= 0 || len(folders) == 0 {
		return nil
	}
	w := &diskWatch{quit: make(chan struct{}), done: make(chan struct{})}
	since := time.Now()
	go func() {
		defer close(w.done)
		// Low priority for reading large trees. The thread stays locked and ends with the goroutine.
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

// stop ends the measurement and waits for its goroutine.
func (w *diskWatch) stop() {
	if w != nil {
		close(w.quit)
		<-w.done
	}
}

// writable returns the writable grants, except those inside another writable grant.
func writable(grants []cage.Grant) (paths []string) {
	for _, g := range grants { // parents precede their children
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
