package sandboxsupervisor_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for a process to be gone.
const patience = 60_000 // ms

func currentUmask() int {
	mask := unix.Umask(0)
	unix.Umask(mask)
	return mask
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var pidLine = regexp.MustCompile(`(?m)^(\d+) pid\r?$`)

// pidsIn returns the process ids that a command has written, each as "N pid".
func pidsIn(output string) (pids []int) {
	for _, m := range pidLine.FindAllStringSubmatch(output, -1) {
		pid, _ := strconv.Atoi(m[1])
		pids = append(pids, pid)
	}
	return pids
}

// gone waits until a process has ended.
func gone(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience)
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			t.Errorf("process %d is still there: %q, %v", pid, cmdline, err)
		}
		return
	}
}

// stillThere fails if one of the processes has not ended by now.
func stillThere(pids ...int) error {
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		unix.Close(fd)
		if n == 0 {
			return fmt.Errorf("process %d is still there", pid)
		}
	}
	return nil
}
