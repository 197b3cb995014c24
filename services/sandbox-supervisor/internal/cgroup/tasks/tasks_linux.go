// Package tasks moves a thread into cgroups of version 1 for the duration of a fork, so that its child starts there.
// Writing a process's id into a cgroup waits for a grace period of the kernel, 8 to 27 ms on an idle machine; a thread
// that moves itself does not wait.
//
// It is the part of cgroups that a cage's init needs: a process that may open the files passes them in.
package tasks

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// self is this thread, to the kernel.
var self = []byte("0")

// Enter moves the calling thread, which must be locked to its goroutine, into cgroups. The first half of files are
// "tasks" files of the cgroups, opened for writing, the second half those of the same hierarchies to which back returns
// it. A thread that cannot return must not be used any more, so back panics.
func Enter(files []int) (back func(), err error) {
	if len(files)%2 != 0 {
		return nil, errors.New("a cgroup to enter comes without the one to go back to")
	}
	to, from := files[:len(files)/2], files[len(files)/2:]
	entered := 0
	back = func() {
		for _, fd := range from[:entered] {
			if err := write(fd); err != nil {
				panic(fmt.Sprintf("going back to the own cgroup: %v", err))
			}
		}
	}
	for _, fd := range to {
		if err := write(fd); err != nil {
			back()
			return nil, fmt.Errorf("entering the command's cgroup: %w", err)
		}
		entered++
	}
	return back, nil
}

func write(fd int) error {
	for {
		_, err := unix.Write(fd, self)
		if err != unix.EINTR {
			return err
		}
	}
}
