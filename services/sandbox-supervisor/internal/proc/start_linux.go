package proc

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Start starts a command that must notice this process's end even while it is stopped: the kernel then sends it
// SIGCONT, which does not affect a running command. wait returns when the command has ended, as cmd.Wait does, for any
// number of callers. Start fails as cmd.Start does.
//
// For the kernel the parent is the thread that starts a process. A goroutine keeps that thread while the process lives,
// and ends with it.
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

// Ended waits for the end of a pidfd's process, at most for limit. It reports whether the process has ended.
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
