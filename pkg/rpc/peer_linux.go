package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// look returns the standing of the peer process of a unix socket, and the reason if it is a stranger. It examines the
// process that connected, even if its pid has been reused.
func look(conn *net.UnixConn) (standing, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return unknown, nil
	}
	var cred *unix.Ucred
	var pidfd int
	var credErr, pidErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		pidfd, pidErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	}); err != nil || credErr != nil {
		return unknown, nil
	}
	if pidErr == nil {
		defer unix.Close(pidfd)
	}
	if cred.Pid == 0 {
		return unknown, nil
	}
	if uid := cred.Uid; uid != 0 && int(uid) != os.Geteuid() {
		return stranger, foreignUser(uid)
	}
	if errors.Is(pidErr, unix.ENOPROTOOPT) { // before Linux 6.5
		if pidfd, pidErr = unix.PidfdOpen(int(cred.Pid), 0); pidErr == nil {
			defer unix.Close(pidfd)
		}
	}
	return standingOf(int(cred.Pid), pidfd, pidErr)
}

// standingOf examines whether a process is in a nested pid namespace. pidfd refers to the process, unless pidErr says
// why it is unavailable.
func standingOf(pid, pidfd int, pidErr error) (standing, error) {
	depth, err := 0, pidErr
	switch {
	case pidErr == nil:
		depth, err = heldDepth(pidfd)
	case errors.Is(pidErr, unix.ENOSYS): // before Linux 5.3
		depth, err = depthIn(fmt.Sprintf("/proc/%d/status", pid))
	}
	if errors.Is(err, errGone) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return stranger, caged() // an ended process cannot be proved to be outside of cages
	}
	mine, mineErr := depthIn("/proc/self/status")
	switch {
	case err != nil || mineErr != nil:
		return unknown, nil
	case depth != mine:
		return stranger, caged()
	}
	return own, nil
}

// heldDepth returns the nesting depth of the pid namespace of the process of a pidfd. The kernel reports it for exactly
// that process; for an ended process it reports the pid -1.
func heldDepth(pidfd int) (int, error) { return depthIn(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd)) }

// depthIn counts the pids of a process in a file with a line NSpid: one for each namespace, from that of /proc down.
func depthIn(file string) (int, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, errGone
	}
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(data) {
		if list, ok := strings.CutPrefix(string(line), "NSpid:"); ok {
			numbers := strings.Fields(list)
			if len(numbers) == 0 || numbers[0] == "-1" || numbers[0] == "0" {
				return 0, errGone
			}
			return len(numbers), nil
		}
	}
	return 0, fmt.Errorf("%s has no line NSpid", file)
}
