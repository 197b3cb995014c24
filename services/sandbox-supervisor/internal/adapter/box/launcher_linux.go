package box

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// launcher starts inits from a small process, because the time to fork grows with a process's memory. Its methods are
// safe for concurrent use.
type launcher struct {
	log     *logWriter
	timeout time.Duration // time limit for starting one init

	// cleanup returns the paths to remove from the host if this process dies without doing so.
	cleanup func() blueprint.Cleanup

	mu     sync.Mutex // held during one start; guards the fields below
	conn   *frame.Conn
	cmd    *exec.Cmd         // nil if not running
	wait   func() error      // waits for the end of cmd
	told   blueprint.Cleanup // the paths already sent to cmd
	closed bool
}

// lostError says that the launcher ended during a request, or was killed for its answer: the init may or may not have
// started. reason is not unwrapped, so that errors.As finds no errno of the launcher in it.
type lostError struct{ reason error }

func (e *lostError) Error() string { return e.reason.Error() }

// initEnv is the environment of inits. GOMAXPROCS=1 saves 50 us per command: the time to wake an idle thread that finds
// no work. Go's reading of CPU limits is off.
var initEnv = []string{"GOMAXPROCS=1", "GOTRACEBACK=single", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

// launch starts an init; files stay the caller's. It returns the errno of a failed start, or cage_unavailable if the
// launcher cannot be started. After a *lostError the caller must close files and not send them again, which ends an
// init that may have started.
func (l *launcher) launch(what blueprint.Launch, files ...int) (*process, error) {
	plan, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, unavailable(layerInit, "kaged is ending", "")
	}
	if l.cmd == nil {
		if err := l.start(); err != nil {
			return nil, err
		}
	}
	l.tell()
	answer, fds, err := l.ask(plan, files)
	switch {
	case err == nil && answer.Op == frame.OpStarted && len(fds) == 1:
		return newProcess(answer.PID, fds[0])
	case err == nil && answer.Code != 0:
		return nil, syscall.Errno(answer.Code)
	case err == nil:
		err = fmt.Errorf("the launcher answered %q with %d files", answer.Op, len(fds))
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	_ = l.cmd.Process.Kill() // its inits live on
	l.end()
	return nil, &lostError{err}
}

// start starts the launcher process.
func (l *launcher) start() error {
	program, err := image()
	if err != nil {
		return err
	}
	conn, theirs, err := frame.Pair()
	if err != nil {
		return unavailable(layerInit, err.Error(), "")
	}
	defer theirs.Close()
	conn.Patience = l.timeout
	cmd := &exec.Cmd{
		Path: "/proc/self/fd/" + strconv.Itoa(int(program.Fd())), Args: []string{"kaged-cages", blueprint.ArgLaunch},
		Env: initEnv, Dir: "/", Stderr: l.log, ExtraFiles: []*os.File{theirs}, WaitDelay: time.Second,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if l.wait, err = proc.Start(cmd); err != nil {
		conn.Close()
		return unavailable(layerInit, reasonOf(err), "")
	}
	l.conn, l.cmd, l.told = conn, cmd, blueprint.Cleanup{}
	return nil
}

// tell sends the launcher the paths to remove if this process is killed, if they have changed. If that fails, the next
// start of kaged removes them.
func (l *launcher) tell() {
	now := l.cleanup()
	if now.Equal(l.told) {
		return
	}
	plan, err := json.Marshal(now)
	if err != nil {
		return
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return
	}
	defer unix.Close(self)
	if l.conn.Send(frame.Frame{Op: frame.OpCleanup, Plan: plan}, self) == nil {
		l.told = now
	}
}

// ask sends one request and returns its answer.
func (l *launcher) ask(plan []byte, files []int) (frame.Frame, []int, error) {
	defer l.killLate().Stop()
	if err := l.conn.Send(frame.Frame{Op: frame.OpLaunch, Plan: plan}, files...); err != nil {
		return frame.Frame{}, nil, err
	}
	return l.conn.Receive()
}

// end closes the connection and waits for the launcher, which ends after its last init. Then no trace of them is on the
// host.
func (l *launcher) end() {
	if l.cmd == nil {
		return
	}
	defer l.killLate().Stop()
	_ = l.conn.End()
	_ = l.wait() // its exit code does not matter
	l.cmd = nil
}

// killLate returns a timer that kills the launcher after the timeout. os.Process guards against a reused pid.
func (l *launcher) killLate() *time.Timer {
	process := l.cmd.Process
	return time.AfterFunc(l.timeout, func() { _ = process.Kill() }) // fails only after its end
}

// close ends the launcher; later calls of launch fail.
func (l *launcher) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.end()
}

// process is a process known by its pidfd, started by the launcher. Its methods are safe for concurrent use.
type process struct {
	pid  int
	file *os.File // a pidfd
	raw  syscall.RawConn
}

// newProcess returns a process, which owns pidfd from here on.
func newProcess(pid, pidfd int) (*process, error) {
	if err := unix.SetNonblock(pidfd, true); err != nil {
		unix.Close(pidfd)
		return nil, unavailable(layerInit, reasonOf(err), "")
	}
	file := os.NewFile(uintptr(pidfd), "process")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, unavailable(layerInit, reasonOf(err), "")
	}
	return &process{pid: pid, file: file, raw: raw}, nil
}

// kill kills the process if it has not ended.
func (p *process) kill() {
	// fails only after its end
	_ = p.raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
}

// wait waits at most limit for the end of the process and reports whether it came. It then closes the pidfd.
func (p *process) wait(limit time.Duration) (ended bool) {
	_ = p.file.SetReadDeadline(time.Now().Add(limit))
	err := p.raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
	if err != nil {
		return false
	}
	// An orphan of a killed launcher is reparented to pid 1; if that is this process, it must reap it.
	_ = p.raw.Control(func(fd uintptr) { _ = unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil) })
	p.file.Close()
	return true
}

// giveUp closes the pidfd without waiting for the end.
func (p *process) giveUp() { p.file.Close() }
