package shimhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/stdio"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
	"kaged.dev/services/sandbox-supervisor/shim"
)

// errCgroup says that a cgroup was made and that no process can be started in it.
var errCgroup = errors.New("a process cannot be started in a cgroup")

// errOver says that a shim has ended before it was asked for anything: another is on its way.
var errOver = errors.New("this shim has ended")

// ownLeaf is the name of the shim's own cgroup.
const ownLeaf = "shim"

// link is one shim.
type link struct {
	host *Host
	conn *frame.Conn
	cmd  *exec.Cmd
	tree *cgroup.Tree // nil for none
	leaf *cgroup.Leaf // the shim's own, nil for none

	mu       sync.Mutex // guards what follows
	commands map[uint64]*process
	over     bool // the shim has ended: no command can be started
}

// start starts a shim and returns when it is set up. It fails with errCgroup where only the cgroup is in the way.
func start(h *Host, tree *cgroup.Tree) (*link, error) {
	conn, theirs, err := frame.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn.Patience = h.opts.KillTimeout
	l := &link{host: h, conn: conn, tree: tree, commands: map[uint64]*process{}}
	l.cmd = &exec.Cmd{
		Path: h.opts.Executable, Args: []string{shim.Name, shim.Misplaced},
		// Nothing of this process's environment reaches the shim; two threads are plenty for what it does.
		Env:    []string{"GOMAXPROCS=2", "GOTRACEBACK=single"},
		Stderr: &logWriter{log: h.opts.Log}, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		// Should something hold the shim's standard error open, its end is not waited for longer.
		WaitDelay: time.Second,
	}
	if tree != nil {
		if l.leaf, err = tree.Leaf(ownLeaf); err != nil {
			conn.Close()
			return nil, fmt.Errorf("%w: %w", errCgroup, err)
		}
		l.cmd.SysProcAttr.UseCgroupFD, l.cmd.SysProcAttr.CgroupFD = true, l.leaf.FD()
	}
	if err := l.cmd.Start(); err != nil {
		conn.Close()
		l.removeLeaf()
		if tree != nil {
			return nil, fmt.Errorf("%w: %w", errCgroup, err)
		}
		return nil, err
	}
	theirs.Close()
	if err := l.awaitReady(); err != nil {
		l.reap()
		l.removeLeaf()
		return nil, err
	}
	return l, nil
}

// awaitReady waits for the shim's first frame.
func (l *link) awaitReady() error {
	late := time.AfterFunc(l.host.opts.StartTimeout, func() { _ = l.cmd.Process.Kill() })
	defer late.Stop()
	f, fds, err := l.conn.Receive()
	closeAll(fds)
	if err == nil && f.Op != frame.OpReady {
		err = fmt.Errorf("its first word was %q", f.Op)
	}
	if err != nil {
		return fmt.Errorf("the shim is not ready (every program that runs the sandbox supervisor must begin with shim.Main if shim.Invoked): %w", err)
	}
	return nil
}

// serve reads what the shim says until the shim or ctx ends. Then it makes an end of the shim and of what it left behind.
func (l *link) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { l.conn.Close() }) // the shim kills everything and ends
	for {
		f, fds, err := l.conn.Receive()
		if err != nil {
			break
		}
		l.handle(f, fds)
	}
	l.leave()
	if stop() {
		// Not told to end: whatever state it is in, it is of no use.
		_ = l.cmd.Process.Kill()
	}
	l.reap()
	l.bury()
	l.removeLeaf()
}

// leave takes no more commands: those that come from now on wait for another shim.
func (l *link) leave() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.host.set(nil, nil)
}

// reap waits for the shim's process, and kills it if it takes too long.
func (l *link) reap() {
	l.conn.Close()
	late := time.AfterFunc(l.host.opts.KillTimeout, func() { _ = l.cmd.Process.Kill() })
	defer late.Stop()
	if err := l.cmd.Wait(); err != nil {
		l.host.opts.Log.Warn("the shim ended", "reason", err)
	}
}

// bury kills what the shim has left behind and tells its commands that they are lost.
func (l *link) bury() {
	l.mu.Lock()
	lost := l.commands
	l.commands = nil
	l.mu.Unlock()
	if len(lost) == 0 {
		return
	}
	for _, p := range lost {
		if p.leaf != nil {
			if err := p.leaf.Kill(); err != nil {
				l.host.opts.Log.Warn("killing what the shim left", "error", err)
			}
		}
	}
	l.host.sweep()
	for _, p := range lost {
		p.finish(core.End{Signal: unix.SIGKILL, Lost: true})
	}
}

func (l *link) removeLeaf() {
	if l.leaf != nil {
		if err := l.leaf.Remove(); err != nil {
			l.host.opts.Log.Warn("a cgroup is left", "error", err)
		}
	}
}

// handle takes note of one frame.
func (l *link) handle(f frame.Frame, fds []int) {
	l.mu.Lock()
	p := l.commands[f.Exec]
	if f.Op == frame.OpFailed || f.Op == frame.OpExited {
		delete(l.commands, f.Exec)
	}
	l.mu.Unlock()
	if p == nil {
		closeAll(fds)
		return
	}
	switch f.Op {
	case frame.OpStarted:
		p.begin(f.PID, fds)
	case frame.OpFailed:
		closeAll(fds)
		p.fail(refusalOf(f, p.spec))
	case frame.OpExited:
		closeAll(fds)
		if f.Left > 0 {
			l.host.opts.Log.Error("processes of a command are left that cannot be killed", "pid", p.pid, "count", f.Left)
		}
		p.finish(core.End{Code: f.Code, Signal: unix.Signal(f.Signal)})
	}
}

// spawn starts a command.
func (l *link) spawn(spec core.Spec) (core.Process, error) {
	id := l.host.count.Add(1)
	p := &process{
		link: l, id: uint64(id), mark: proc.Mark(l.host.name, id), spec: spec,
		started: make(chan error, 1), exited: make(chan struct{}),
	}
	if l.tree != nil {
		leaf, err := l.tree.Leaf(fmt.Sprintf("exec-%d", id))
		if err != nil {
			return nil, core.BadStart(reason(err))
		}
		p.leaf = leaf
	}
	if err := l.request(p); err != nil {
		p.discard()
		return nil, err
	}
	late := time.NewTimer(l.host.opts.StartTimeout)
	defer late.Stop()
	for {
		select {
		case err := <-p.started:
			if err != nil {
				p.discard()
				return nil, err
			}
			return p, nil
		case <-late.C:
			l.abandon("does not start a command", p)
		}
	}
}

// request sends the frame that starts a command.
func (l *link) request(p *process) error {
	var fds []int
	if p.spec.Terminal == nil {
		streams, theirs, err := stdio.Pipes(p.spec.Merge)
		if err != nil {
			return core.BadStart(reason(err))
		}
		p.streams = streams
		for _, f := range theirs {
			defer f.Close()
			fds = append(fds, int(f.Fd()))
		}
	}
	if p.leaf != nil {
		fds = append(fds, p.leaf.FD())
	}
	f := frame.Frame{
		Op: frame.OpStart, Exec: p.id, Mark: p.mark, Argv: p.spec.Argv, Env: p.spec.Env, Dir: p.spec.Dir, Cgroup: p.leaf != nil,
	}
	if t := p.spec.Terminal; t != nil {
		f.Terminal = &frame.Size{Cols: uint16(t.Cols), Rows: uint16(t.Rows)}
	}
	l.mu.Lock()
	over := l.over
	if !over {
		l.commands[p.id] = p
	}
	l.mu.Unlock()
	if over {
		return errOver
	}
	err := l.conn.Send(f, fds...)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.abandon("takes no orders", p)
	case err != nil && l.forget(p):
		return errOver // nothing has read it
	}
	return nil // what the shim does not answer is lost with it, and the start fails then
}

// forget takes a command back; it reports whether it was still the shim's.
func (l *link) forget(p *process) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.commands[p.id]
	delete(l.commands, p.id)
	return there
}

// abandon kills a shim that does not do its work. What it leaves is then ended without it; see bury.
func (l *link) abandon(complaint string, p *process) {
	l.host.opts.Log.Error("the shim "+complaint+"; it is killed", "exec", p.id)
	_ = l.cmd.Process.Kill() // fails only if it has ended
}

// refusalOf says why the shim did not start a command.
func refusalOf(f frame.Frame, spec core.Spec) error {
	switch f.Cause {
	case frame.CauseFolder:
		return core.BadFolder(spec.Dir, f.Text)
	case frame.CauseProgram:
		return core.BadProgram(spec.Argv[0], f.Text)
	}
	return core.BadStart(f.Text)
}

func errShimGone() error { return core.BadStart("the process that runs commands went away") }

// reason returns the system's own words of an error, without the paths of this process.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// logWriter writes what the shim says before it dies to the log, line by line.
type logWriter struct {
	log  *slog.Logger
	line []byte
}

func (w *logWriter) Write(data []byte) (int, error) {
	w.line = append(w.line, data...)
	for {
		line, rest, found := bytes.Cut(w.line, []byte("\n"))
		if !found && len(w.line) < 4096 {
			return len(data), nil
		}
		w.log.Error("shim: " + string(line))
		w.line = append([]byte(nil), rest...)
	}
}
