package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/commands"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
)

// launch starts inits until the supervisor is gone, and then waits until they are, which its end is also the end of.
//
// A process that is to have a user namespace is a copy of the one that starts it, with all its page tables, until it executes
// another program: that takes a supervisor of 200 MB 11 ms in which none of its threads can touch a new page, and this process
// 1 ms.
func launch() error {
	if err := commands.CloseInherited(socket); err != nil {
		return fmt.Errorf("inherited files: %w", err)
	}
	conn, err := frame.Open(socket)
	if err != nil {
		return err
	}
	// What is sent to every process of a service when it is to end is the supervisor's to act on, which still needs this one.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	go reap()
	for {
		f, fds, err := conn.Receive()
		if err != nil { // the supervisor has ended
			for err == nil || errors.Is(err, unix.EINTR) || !errors.Is(err, unix.ECHILD) {
				_, err = unix.Wait4(-1, nil, 0, nil)
			}
			return nil
		}
		pid, pidfd, err := start(f, fds)
		for _, fd := range fds {
			unix.Close(fd)
		}
		var errno syscall.Errno
		switch {
		case err == nil:
			err = conn.Send(frame.Frame{Op: frame.OpStarted, PID: pid}, pidfd)
			unix.Close(pidfd)
		case errors.As(err, &errno):
			err = conn.Send(frame.Frame{Op: frame.OpFailed, Code: int(errno)})
		}
		if err != nil {
			return err
		}
	}
}

// reap takes note of inits that have ended, so that they go. The supervisor knows of their ends by their pidfds.
func reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for range ended {
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
		}
	}
}

// start starts one init and returns its process. It fails with what the system said.
func start(f frame.Frame, fds []int) (pid, pidfd int, err error) {
	var l blueprint.Launch
	if f.Op != frame.OpLaunch || len(fds) < 2 {
		return 0, -1, fmt.Errorf("the supervisor said %q with %d files", f.Op, len(fds))
	}
	if err := json.Unmarshal(f.Plan, &l); err != nil {
		return 0, -1, err
	}
	attr := attributes(l)
	attr.PidFD = &pidfd
	if l.Cgroup {
		attr.UseCgroupFD, attr.CgroupFD = true, fds[len(fds)-1]
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, -1, err
	}
	defer unix.Close(null)
	pid, err = syscall.ForkExec("/proc/self/exe", []string{"kaged-cage"}, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []uintptr{uintptr(null), uintptr(null), uintptr(fds[1]), uintptr(fds[0])}, Sys: attr,
	})
	if err == nil && pidfd < 0 {
		err = syscall.ENOSYS
	}
	return pid, pidfd, err
}

// attributes are those of an init.
func attributes(l blueprint.Launch) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid: true, Cloneflags: blueprint.Namespaces, AmbientCaps: blueprint.Rights(l.Userns),
		Credential: &syscall.Credential{Uid: uint32(l.UID), Gid: uint32(l.GID)},
	}
	if l.Userns {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: blueprint.UID, HostID: l.UID, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: blueprint.GID, HostID: l.GID, Size: 1}}
		attr.GidMappingsEnableSetgroups = l.Groups
		attr.Credential = &syscall.Credential{Uid: blueprint.UID, Gid: blueprint.GID, NoSetGroups: !l.Groups}
	}
	return attr
}
