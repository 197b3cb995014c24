package proc

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Start starts a command that must see this process's end even while it is stopped: it is sent SIGCONT then, which does
// not affect a running one. wait returns when the command has ended, as cmd.Wait does, to any number of callers. Start
// fails as cmd.Start does.
//
// The system takes the thread that starts a process for its parent. That thread is kept for as long as the process
// lives, by a goroutine of its own, which ends with the process.
func Start(cmd *exec.Cmd) (wait func() error, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = unix.SIGCONT
	started, ended := make(chan error, 1), make(chan struct{})
	var end error // set before ended is closed
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			end = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-ended
		return nil, err
	}
	return func() error {
		<-ended
		return end
	}, nil
}

// Ended waits for the end of the process that a pidfd stands for, at most for limit. It reports whether it came.
func Ended(pidfd int, limit time.Duration) bool {
	for end := time.Now().Add(limit); ; {
		n, err := unix.Poll(
			[]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}},
			int(max(0, time.Until(end).Milliseconds()+1)),
		)
		if n > 0 || err != nil && err != unix.EINTR || !time.Now().Before(end) {
			return n > 0
		}
	}
}
