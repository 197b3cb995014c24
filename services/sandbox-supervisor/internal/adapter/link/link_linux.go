package link

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/stdio"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
)

// ErrOver reports that the peer had ended before the request.
var ErrOver = errors.New("what starts commands has ended")

// Options configures a link.
type Options struct {
	// Log receives its log entries.
	Log *slog.Logger
	// Peer names the process at the other end, for the log.
	Peer string
	// Inner means that the peer's process ids belong to its own pid namespace.
	Inner bool
	// Abandon kills a peer that does not respond.
	Abandon func()
	// Ended is called when a command has ended, or will end within milliseconds, before its end is reported; it may be
	// nil. It must return quickly.
	Ended func()
	// StartTimeout is the time in which a command must start; KillTimeout is the time in which the peer must report the
	// end of a killed command. A slower peer is abandoned.
	StartTimeout, KillTimeout time.Duration
	// DrainWait is the maximum wait for the output of an ended command.
	DrainWait time.Duration
}

// Place counts a command's processes, by cgroups. Its methods may be called from any goroutine.
type Place interface {
	// Files are the descriptors with which the peer moves the command there. With folder the last one is the folder of its
	// cgroup.
	Files() (files []int, folder bool)
	// Kill kills the processes in it.
	Kill() error
	// Usage returns the use of the processes in it, ended ones included; false if it is unknown.
	Usage() (core.Usage, bool)
	// Release frees the place once it is empty. It returns the limit that was reached in it, if any. It does not wait.
	Release() contract.Reason
}

// Link is the connection to one peer. Its methods may be called from any goroutine, Serve once.
type Link struct {
	conn *frame.Conn
	opts Options

	mu       sync.Mutex // guards the fields below
	commands map[uint64]*process
	connects map[uint64]chan connected // pending connections; each channel has room for its answer
	over     bool                      // the peer has ended, so no command can be started
}

// New returns a link. The caller closes the connection.
func New(conn *frame.Conn, opts Options) *Link {
	return &Link{
		conn: conn, opts: opts, commands: map[uint64]*process{}, connects: map[uint64]chan connected{},
	}
}

// Serve handles the peer's frames until the connection ends. From then on no command can be started.
func (l *Link) Serve() {
	for {
		f, fds, err := l.conn.Receive()
		if err != nil {
			break
		}
		l.handle(f, fds)
	}
	l.mu.Lock()
	l.over = true
	for _, answer := range l.connects {
		answer <- connected{err: ErrOver}
	}
	clear(l.connects)
	l.mu.Unlock()
}

// Lose reports the remaining commands as lost. If there are any, it first calls bury, which kills their remaining
// processes.
func (l *Link) Lose(bury func()) {
	l.mu.Lock()
	lost := l.commands
	l.commands = nil
	l.mu.Unlock()
	if len(lost) == 0 {
		return
	}
	for _, p := range lost {
		if p.place != nil {
			if err := p.place.Kill(); err != nil {
				l.opts.Log.Warn("killing what is left of a command", "error", err)
			}
		}
	}
	if bury != nil {
		bury()
	}
	for _, p := range lost {
		p.finish(core.End{Signal: unix.SIGKILL, Lost: true})
	}
}

// Busy reports whether a command runs or is about to start.
func (l *Link) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.commands) > 0
}

// Terminate asks all processes of the peer to end.
func (l *Link) Terminate() { l.send(frame.Frame{Op: frame.OpTerminate}) }

// handle processes one frame.
func (l *Link) handle(f frame.Frame, fds []int) {
	if l.answer(f, fds) {
		return
	}
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
			l.opts.Log.Error("processes of a command are left that cannot be killed", "pid", p.pid, "count", f.Left)
		}
		p.finish(core.End{Code: f.Code, Signal: unix.Signal(f.Signal)})
	}
}

// Spawn starts a command, identified to the peer by id and recognised by mark. place may be nil; it is released when
// the command has ended or does not start. Spawn fails as core.Spawner does, and with ErrOver.
func (l *Link) Spawn(spec core.Spec, id, mark uint64, place Place) (core.Process, error) {
	p := &process{
		link: l, id: id, mark: mark, spec: spec, place: place,
		started: make(chan error, 1), exited: make(chan struct{}),
	}
	if err := l.request(p); err != nil {
		p.discard()
		return nil, err
	}
	late := time.NewTimer(l.opts.StartTimeout)
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
func (l *Link) request(p *process) error {
	f := frame.Frame{Op: frame.OpStart, Exec: p.id, Mark: p.mark, Argv: p.spec.Argv, Env: p.spec.Env, Dir: p.spec.Dir}
	var fds []int
	if t := p.spec.Terminal; t != nil {
		f.Terminal = &frame.Size{Cols: uint16(t.Cols), Rows: uint16(t.Rows)}
	} else {
		streams, theirs, err := stdio.Pipes(p.spec.Merge)
		if err != nil {
			return core.BadStart(Reason(err))
		}
		p.streams = streams
		for _, file := range theirs {
			defer file.Close()
			fds = append(fds, int(file.Fd()))
		}
	}
	if p.place != nil {
		files, folder := p.place.Files()
		fds = append(fds, files...)
		f.Cgroup, f.Place = folder, len(files)
		if folder {
			f.Place--
		}
	}
	l.mu.Lock()
	over := l.over
	if !over {
		l.commands[p.id] = p
	}
	l.mu.Unlock()
	if over {
		return ErrOver
	}
	err := l.conn.Send(f, fds...)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.abandon("takes no orders", p)
	case err != nil && l.forget(p):
		return ErrOver // the frame was never read
	}
	return nil // an unanswered frame is lost with the peer, which fails the start
}

// forget removes a command, and reports whether it was still in the peer's list.
func (l *Link) forget(p *process) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.commands[p.id]
	delete(l.commands, p.id)
	return there
}

// send sends a frame without an answer. After the peer's end its commands are reported as lost anyway.
func (l *Link) send(f frame.Frame) {
	if err := l.conn.Send(f); errors.Is(err, os.ErrDeadlineExceeded) {
		l.opts.Log.Error(l.opts.Peer + " takes no orders; it is killed")
		l.opts.Abandon()
	}
}

// abandon kills a peer that does not respond.
func (l *Link) abandon(complaint string, p *process) {
	l.opts.Log.Error(fmt.Sprintf("%s %s; it is killed", l.opts.Peer, complaint), "exec", p.id)
	l.opts.Abandon()
}

// refusalOf returns the reason why the peer did not start a command.
func refusalOf(f frame.Frame, spec core.Spec) error {
	switch f.Cause {
	case frame.CauseFolder:
		return core.BadFolder(spec.Dir, f.Text)
	case frame.CauseProgram:
		return core.BadProgram(spec.Argv[0], f.Text)
	}
	return core.BadStart(f.Text)
}

func errGone() error { return core.BadStart("the process that runs commands went away") }

// Reason returns the system's text of an error, without the paths of this process.
func Reason(err error) string {
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
