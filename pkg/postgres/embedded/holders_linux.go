package embedded

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// lockHolder is a process that holds a lock file open.
type lockHolder struct {
	pid  int
	name string
	// stopped means that the process handles only SIGKILL and SIGCONT.
	stopped bool
}

// holdersOf returns the other processes that hold the file open and are visible to this user: a server and its
// children, which have inherited it.
func holdersOf(path string) []lockHolder {
	file, err := os.Stat(path)
	if err != nil {
		return nil
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var holders []lockHolder
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() || !holds(dir, file) {
			continue
		}
		name, state := status(dir)
		holders = append(holders, lockHolder{pid: pid, name: name, stopped: state == 'T' || state == 't'})
	}
	return holders
}

// holds reports whether a process has the file open.
func holds(dir string, file os.FileInfo) bool {
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		info, err := os.Stat(filepath.Join(dir, "fd", fd.Name()))
		if err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}

// status returns a process's name and its state letter.
func status(dir string) (name string, state byte) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return "", 0
	}
	begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if begin < 0 || end < begin || end+2 >= len(stat) {
		return "", 0
	}
	return string(stat[begin+1 : end]), stat[end+2]
}

// end kills the process if it still holds the file, and reports whether this user may kill it.
func (h lockHolder) end(path string) bool {
	fd, err := unix.PidfdOpen(h.pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	// Checked again after the descriptor is open: the id may belong to another process by now.
	file, err := os.Stat(path)
	if err != nil || !holds("/proc/"+strconv.Itoa(h.pid), file) {
		return true
	}
	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	return err == nil || errors.Is(err, unix.ESRCH)
}
