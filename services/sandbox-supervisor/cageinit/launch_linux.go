package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/commands"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
	"kaged.dev/services/sandbox-supervisor/internal/stub"
)

// launcher starts inits until the supervisor is gone. Then it ends them, and removes the remains of a killed supervisor
// from the host.
//
// A process in a new user namespace begins as a copy of its parent, with all page tables, until it executes another
// program. A supervisor of 200 MB needs 11 ms for the copy, during which none of its threads can touch a new page; this
// process needs 1 ms.
type launcher struct {
	conn *frame.Conn

	cleanup    blueprint.Cleanup
	supervisor int // pidfd of its process, or -1

	reaping sync.Mutex // held while ended inits are reaped
}

func launch() error {
	if err := commands.CloseInherited(socket); err != nil {
		return fmt.Errorf("inherited files: %w", err)
	}
	conn, err := frame.Open(socket)
	if err != nil {
		return err
	}
	// The supervisor handles the signals that a service's end sends to all its processes, and still needs this process.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	l := &launcher{conn: conn, supervisor: -1}
	go l.reap()
	ordered, err := l.serve()
	if err != nil {
		return err
	}
	l.bury()
	if !ordered {
		l.tidy()
	}
	return nil
}

// serve handles the supervisor's requests until it is gone. It reports whether the end was orderly.
func (l *launcher) serve() (ordered bool, err error) {
	for {
		f, fds, err := l.conn.Receive()
		switch {
		case err != nil:
			return false, nil
		case f.Op == frame.OpEnd:
			return true, nil
		case f.Op == frame.OpCleanup:
			err = l.note(f, fds)
		default:
			err = l.answer(f, fds)
		}
		if err != nil {
			return false, err
		}
	}
}

// note stores the list of paths to remove.
func (l *launcher) note(f frame.Frame, fds []int) error {
	var cleanup blueprint.Cleanup
	if err := json.Unmarshal(f.Plan, &cleanup); err != nil {
		return err
	}
	if len(fds) != 1 {
		return fmt.Errorf("the supervisor said %q with %d files", f.Op, len(fds))
	}
	if l.supervisor >= 0 {
		unix.Close(l.supervisor)
	}
	l.cleanup, l.supervisor = cleanup, fds[0]
	return nil
}

// answer starts an init. If the supervisor died during its request, no answer is needed, but its remains must still be
// removed.
func (l *launcher) answer(f frame.Frame, fds []int) error {
	err := l.begin(f, fds)
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil // Receive reports the end
	}
	return err
}

func (l *launcher) begin(f frame.Frame, fds []int) error {
	pid, pidfd, err := start(f, fds)
	for _, fd := range fds {
		unix.Close(fd)
	}
	var errno syscall.Errno
	switch {
	case err == nil:
		defer unix.Close(pidfd)
		return l.conn.Send(frame.Frame{Op: frame.OpStarted, PID: pid}, pidfd)
	case errors.As(err, &errno):
		return l.conn.Send(frame.Frame{Op: frame.OpFailed, Code: int(errno)})
	}
	return err
}

// reap reaps inits that have ended. The supervisor gets notice of their end by their pidfds.
func (l *launcher) reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for range ended {
		l.reaping.Lock()
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
		}
		l.reaping.Unlock()
	}
}

// bury kills the remaining inits, and with them every process in their cages, and returns when they have ended. They
// notice the supervisor's end themselves, unless they are stopped.
func (l *launcher) bury() {
	l.reaping.Lock() // never unlocked: an id is not reused while its process is not reaped
	for {
		inits, _ := proc.Children()
		for _, pid := range inits {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
			return
		}
	}
}

// dying is the time limit from the closing of the supervisor's socket to its end, because it holds its locks until
// then.
const dying = 10 * time.Second

// tidy removes the supervisor's remains. What cannot be removed now is left to the next supervisor.
func (l *launcher) tidy() {
	if l.supervisor < 0 || !proc.Ended(l.supervisor, dying) {
		return
	}
	if l.cleanup.Journals != "" {
		stub.Sweep(l.cleanup.Journals, stub.Remove, func(string, error) {})
	}
	cgroup.SweepLeft(l.cleanup.V1, l.cleanup.V2)
}

// start starts one init and returns its process. It fails with the system's error.
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
		Dir: "/", Env: os.Environ(), Files: []uintptr{uintptr(null), uintptr(null), uintptr(fds[1]), uintptr(fds[0])},
		Sys: attr,
	})
	if err == nil && pidfd < 0 {
		err = syscall.ENOSYS
	}
	return pid, pidfd, err
}

// attributes are the process attributes of an init.
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
