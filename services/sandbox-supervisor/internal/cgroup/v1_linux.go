package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// removeV1 kills the processes in the cgroup of version 1 at path and in those below it, and removes the cgroups.
// Version 1 cannot kill at once: it repeats until the cgroup is empty, up to several seconds, with forks forbidden if
// possible.
func removeV1(path string) error {
	var err error
	for range settling.Each(context.Background()) {
		var pids []int
		if pids, err = tryRemoveV1(path); !errors.Is(err, unix.EBUSY) {
			return err
		}
		killAll(pids, os.Getpid())
	}
	return err
}

// tryRemoveV1 removes an empty cgroup and those below it; for one that is not empty it returns the processes.
func tryRemoveV1(path string) (pids []int, err error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var busy error
	for _, e := range entries {
		if e.IsDir() {
			more, err := tryRemoveV1(filepath.Join(path, e.Name()))
			pids = append(pids, more...)
			if err != nil {
				busy = err
			}
		}
	}
	if busy != nil {
		return pids, busy
	}
	err = unix.Rmdir(path)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if errors.Is(err, unix.EBUSY) {
		_ = put(filepath.Join(path, "pids.max"), "0") // only if that is this hierarchy's
		pids = processesIn(path)
	}
	return pids, err
}

// processesIn returns the processes in a cgroup, without those below it.
func processesIn(path string) (pids []int) {
	data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		return nil
	}
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killAll kills processes except one.
func killAll(pids []int, save int) {
	for _, pid := range pids {
		if pid != save {
			_ = unix.Kill(pid, unix.SIGKILL) // fails if it has ended
		}
	}
}
