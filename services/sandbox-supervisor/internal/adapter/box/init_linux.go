package box

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// cageInit is the init of a cage or of a spare.
type cageInit struct {
	conn    *frame.Conn
	process *process
	said    *logWriter
	errors  *os.File      // the init's stderr
	silent  chan struct{} // closed at the end of the init's stderr
}

// kind is the tier and the user of an init: a spare serves only cages of its own kind.
type kind struct {
	tier tier
	user ids // on the host
}

// inside returns the ids of the cage's user inside the cage.
func (k kind) inside() ids {
	if k.tier.userns {
		return ids{blueprint.UID, blueprint.GID}
	}
	return k.user
}

// tmpInodes returns the inode limit of private folders of a size in bytes: one per 4 KiB, at least 1024.
func tmpInodes(bytes int64) int64 { return max(1024, bytes/4096) }

// launch starts an init in its own namespaces and sends it the base of every cage. cgroup is the descriptor of the
// cgroup to start in, -1 if absent.
func (b *Boxes) launch(k kind, cgroup int) (*cageInit, error) {
	i, err := b.tryLaunch(k, cgroup)
	if lost := (*lostError)(nil); errors.As(err, &lost) { // once more: the idle launcher may have been killed
		i, err = b.tryLaunch(k, cgroup)
	}
	if err != nil {
		return nil, b.refusedStart(k, err)
	}
	return i, nil
}

// tryLaunch is one attempt of launch. It fails as launcher.launch does.
func (b *Boxes) tryLaunch(k kind, cgroup int) (*cageInit, error) {
	base, err := json.Marshal(blueprint.Base{
		Mark: proc.Mark(b.opts.Name, b.count.Add(1)), Userns: k.tier.userns, GID: k.inside().gid,
		System: b.opts.System, Etc: etc, Texts: texts(k.inside()),
		TmpBytes: b.opts.TmpBytes, TmpInodes: tmpInodes(b.opts.TmpBytes),
	})
	if err != nil {
		return nil, err
	}
	conn, theirs, err := frame.Pair()
	if err != nil {
		return nil, unavailable(layerInit, err.Error(), "")
	}
	defer theirs.Close()
	r, w, err := os.Pipe()
	if err != nil {
		conn.Close()
		return nil, unavailable(layerInit, reasonOf(err), "")
	}
	defer w.Close()
	files := []int{int(theirs.Fd()), int(w.Fd())}
	if cgroup >= 0 {
		files = append(files, cgroup)
	}
	process, err := b.launcher.launch(blueprint.Launch{
		Userns: k.tier.userns, UID: k.user.uid, GID: k.user.gid, Groups: k.tier.groups, Cgroup: cgroup >= 0,
	}, files...)
	if err != nil {
		conn.Close()
		r.Close()
		return nil, err
	}
	conn.Patience = b.opts.KillTimeout
	i := &cageInit{conn: conn, process: process, said: &logWriter{log: b.opts.Log}, errors: r, silent: make(chan struct{})}
	go func() {
		defer close(i.silent)
		_, _ = io.Copy(i.said, r) // ends with the init
	}()
	// fails only if the init has ended, as the next frame will report
	_ = conn.Send(frame.Frame{Op: frame.OpPrepare, Plan: base})
	return i, nil
}

// refusedStart returns the error for an init that could not be started.
func (b *Boxes) refusedStart(k kind, err error) error {
	var lost *lostError
	var errno syscall.Errno
	switch {
	case errors.As(err, &lost):
		return fault.Wrap(err, fault.CageUnavailable,
			"A cage cannot be made here: the launcher of its init has ended; the log has the reason.").
			With("layer", layerInit)
	case !errors.As(err, &errno):
		return err
	case k.tier.userns:
		return unavailable(blueprint.LayerUser, errno.Error(), b.remedy(blueprint.LayerUser, errno))
	}
	return unavailable(blueprint.LayerMount, errno.Error(), b.remedy(blueprint.LayerMount, errno))
}

// kill kills the init; the kernel then kills every process in its pid namespace.
func (i *cageInit) kill() { i.process.kill() }

// reap waits for the init's end, which follows that of every process in the cage, at most for limit. It reports false
// if the init is still there: a process that hangs in a device or a dead network file system cannot be killed.
func (i *cageInit) reap(limit time.Duration) (ended bool) {
	i.conn.Close()
	ended = i.process.wait(limit)
	// The deadline covers an init that cannot be killed: it still holds the other end.
	_ = i.errors.SetReadDeadline(time.Now().Add(time.Second))
	<-i.silent
	i.errors.Close()
	return ended
}

// logWriter logs the stderr of an init, line by line.
type logWriter struct {
	mu   sync.Mutex // guards the fields below
	log  *slog.Logger
	line []byte
}

// name replaces the log with that of one cage.
func (w *logWriter) name(log *slog.Logger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = log
}

// Write implements io.Writer.
func (w *logWriter) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = append(w.line, data...)
	for {
		line, rest, found := bytes.Cut(w.line, []byte("\n"))
		if !found && len(w.line) < 4096 {
			return len(data), nil
		}
		w.log.Error("cage init: " + string(line))
		w.line = append([]byte(nil), rest...)
	}
}
