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

// launcher starts inits by a small process that does nothing else, as forking this one takes the longer the more memory it has. Its methods may be called by many at once.
type launcher struct {
	log     *logWriter
	timeout time.Duration // of starting one init

	// leave is what is to be removed from the host when this process ends without having done so.
	leave func() blueprint.Leave

	mu     sync.Mutex // held while one is started; guards what follows
	conn   *frame.Conn
	cmd    *exec.Cmd       // nil while there is none
	wait   func() error    // for the end of cmd
	told   blueprint.Leave // what it knows of leave
	closed bool
}

// lostError says that the launcher has ended over a request, or had to be: the init may have been started and may not. Its reason is
// about the launcher and never about the init, so that nobody is to find a system's error in it.
type lostError struct{ reason error }

func (e *lostError) Error() string { return e.reason.Error() }

// initEnv is the environment of inits. One thread runs Go at a time: waking another to look for work costs a command 50 us, and finds
// none. Nor do they look for a limit of the CPU.
var initEnv = []string{"GOMAXPROCS=1", "GOTRACEBACK=single", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

// launch starts an init. The descriptors stay the caller's. It fails with the system's error if the init cannot be started, with
// cage_unavailable if the launcher cannot, and with a *lostError, after which they must be closed and never be sent again: an init
// that was started ends by that.
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
		err = fmt.Errorf("it said %q with %d files", answer.Op, len(fds))
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	_ = l.cmd.Process.Kill() // its inits live on
	l.end()
	return nil, &lostError{err}
}

// start starts the process.
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
	l.conn, l.cmd, l.told = conn, cmd, blueprint.Leave{}
	return nil
}

// tell tells the process what is to be removed when this one is killed, if it does not know. Where that fails it will not be removed before
// the next start of kaged.
func (l *launcher) tell() {
	now := l.leave()
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
	if l.conn.Send(frame.Frame{Op: frame.OpLeave, Plan: plan}, self) == nil {
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

// end has the process end, which it does when the inits have that it has started. Nothing of theirs is left on the host.
func (l *launcher) end() {
	if l.cmd == nil {
		return
	}
	defer l.killLate().Stop()
	_ = l.conn.End()
	_ = l.wait() // how does not matter
	l.cmd = nil
}

// killLate kills the process when it takes too long, unless it is stopped; if that is too late, it kills no other.
func (l *launcher) killLate() *time.Timer {
	process := l.cmd.Process
	return time.AfterFunc(l.timeout, func() { _ = process.Kill() }) // fails only if it has ended
}

// close ends the process. None is started any more.
func (l *launcher) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.end()
}

// process is a process that this one has not started itself. Its methods may be called by many at once.
type process struct {
	pid  int
	file *os.File // a pidfd
	raw  syscall.RawConn
}

// newProcess returns a process, to which its pidfd belongs from here on.
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
	_ = p.raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) }) // fails only after its end
}

// wait waits for the end of the process, at most for limit. It reports whether it came, and lets go of the process then.
func (p *process) wait(limit time.Duration) (ended bool) {
	_ = p.file.SetReadDeadline(time.Now().Add(limit))
	err := p.raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
	if err != nil {
		return false
	}
	// Where the launcher was killed an init is an orphan, and that is this process's to take note of if it is the first of a container.
	_ = p.raw.Control(func(fd uintptr) { _ = unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil) })
	p.file.Close()
	return true
}

// giveUp lets go of a process that nobody waits for any more.
func (p *process) giveUp() { p.file.Close() }
