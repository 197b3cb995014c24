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

// inmate is the init of a box, or of one to be.
type inmate struct {
	conn    *frame.Conn
	process *process
	said    *logWriter
	errors  *os.File      // what it says is read from there
	silent  chan struct{} // closed when nothing is read any more
}

// kind says whose box an init can become.
type kind struct {
	tier tier
	user ids // as the host sees it
}

// inside are the ids of the user inside.
func (k kind) inside() ids {
	if k.tier.userns {
		return ids{blueprint.UID, blueprint.GID}
	}
	return k.user
}

// tmpInodes is how many files private folders may have that hold so much.
func tmpInodes(bytes int64) int64 { return max(1024, bytes/4096) }

// launch starts an init in namespaces of its own, and in the cgroup that is open as a descriptor unless that is -1, and has it
// build what every box has.
func (b *Boxes) launch(k kind, cgroup int) (*inmate, error) {
	i, err := b.tryLaunch(k, cgroup)
	if lost := (*lostError)(nil); errors.As(err, &lost) { // the launcher may have been killed while it had nothing to do
		i, err = b.tryLaunch(k, cgroup)
	}
	if err != nil {
		return nil, b.refusedStart(k, err)
	}
	return i, nil
}

// tryLaunch does what launch does, and fails as launcher.launch does.
func (b *Boxes) tryLaunch(k kind, cgroup int) (*inmate, error) {
	base, err := json.Marshal(blueprint.Base{
		Mark: proc.Mark(b.opts.Name, b.count.Add(1)), Userns: k.tier.userns, GID: k.inside().gid,
		System: b.opts.System, Etc: etc, Texts: texts(k.inside()), TmpBytes: b.opts.TmpBytes, TmpInodes: tmpInodes(b.opts.TmpBytes),
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
	i := &inmate{conn: conn, process: process, said: &logWriter{log: b.opts.Log}, errors: r, silent: make(chan struct{})}
	go func() {
		defer close(i.silent)
		_, _ = io.Copy(i.said, r) // ends with the init
	}()
	_ = conn.Send(frame.Frame{Op: frame.OpPrepare, Plan: base}) // fails only if it has ended, which who asks for more will see
	return i, nil
}

// refusedStart is why an init of a kind cannot be started.
func (b *Boxes) refusedStart(k kind, err error) error {
	var lost *lostError
	var errno syscall.Errno
	switch {
	case errors.As(err, &lost):
		return fault.Wrap(err, fault.CageUnavailable, "A cage cannot be made here: what starts its init has ended; the log has the reason.").
			With("layer", layerInit)
	case !errors.As(err, &errno):
		return err
	case k.tier.userns:
		return unavailable(blueprint.LayerUser, errno.Error(), b.remedy(blueprint.LayerUser, errno))
	}
	return unavailable(blueprint.LayerMount, errno.Error(), b.remedy(blueprint.LayerMount, errno))
}

// kill kills the init: the kernel kills everything in its namespace then.
func (i *inmate) kill() { i.process.kill() }

// reap waits for the init's end, which comes after that of everything in the box, at most for limit. It reports whether it came: what
// hangs in a device or a dead network file system cannot be killed.
func (i *inmate) reap(limit time.Duration) (ended bool) {
	i.conn.Close()
	ended = i.process.wait(limit)
	// Nobody else has the other end.
	_ = i.errors.SetReadDeadline(time.Now().Add(time.Second))
	<-i.silent
	i.errors.Close()
	return ended
}

// logWriter writes what an init says before it dies to the log, line by line.
type logWriter struct {
	mu   sync.Mutex // guards what follows
	log  *slog.Logger
	line []byte
}

// name makes it the log of a box.
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
