//go:build unix

package embedded

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownerOf returns the owner of a file, if the system has one.
func ownerOf(info os.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

const locksAreInherited = true

// tryLock locks the file for this process and those that inherit it; false means that other processes hold it.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Signals for a server: clean stop, immediate stop, and kill.
const (
	signalFast      = syscall.SIGINT
	signalImmediate = syscall.SIGQUIT
)

func alive(pid int) bool { return pid > 1 && unix.Kill(pid, 0) != unix.ESRCH }

func interrupt(pid int) { _ = unix.Kill(pid, signalFast) }
