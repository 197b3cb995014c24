package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ticks is the number of clock ticks per second in /proc, on every architecture of Go.
const ticks = 100

// Stat is the state of a process.
type Stat struct {
	// Parent, Group and Session are process ids.
	Parent, Group, Session int
	// Zombie means that the process has ended and was not reaped.
	Zombie bool
	// CPU is its CPU time, WaitedCPU that of its reaped children.
	CPU, WaitedCPU time.Duration
	// Threads is the number of its threads.
	Threads int64
	// Resident is its resident memory in bytes.
	Resident int64
}

// Read returns the state of a process. It fails for an unknown id.
func Read(pid int) (Stat, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(data)
}

// parseStat parses /proc/PID/stat. The second field, the name in parentheses, may contain any character, parentheses
// included.
func parseStat(data []byte) (Stat, error) {
	_, rest, found := bytesCutLast(data, ')')
	fields := bytes.Fields(rest)
	const resident = 21 // index of the field, counted from 0 after the name
	if !found || len(fields) <= resident {
		return Stat{}, errors.New("not the stat of a process")
	}
	n := func(i int) int64 {
		v, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		return v
	}
	time := func(i int) time.Duration { return time.Duration(n(i)) * (time.Second / ticks) }
	return Stat{
		Zombie: fields[0][0] == 'Z' || fields[0][0] == 'X',
		Parent: int(n(1)), Group: int(n(2)), Session: int(n(3)),
		CPU: time(11) + time(12), WaitedCPU: time(13) + time(14),
		Threads: n(17), Resident: n(resident) * int64(os.Getpagesize()),
	}, nil
}

func bytesCutLast(data []byte, sep byte) (before, after []byte, found bool) {
	i := bytes.LastIndexByte(data, sep)
	if i < 0 {
		return data, nil, false
	}
	return data[:i], data[i+1:], true
}

// All returns the ids of all processes.
func All() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Marked returns the processes whose mark match accepts, without this process. It includes zombies.
func Marked(match func(mark uint64) bool) ([]int, error) {
	pids, err := All()
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	marked := pids[:0]
	for _, pid := range pids {
		if pid != self && match(MarkOf(pid)) {
			marked = append(marked, pid)
		}
	}
	return marked, nil
}

// Children returns the children of this process, ended ones included.
func Children() ([]int, error) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, task := range tasks {
		data, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			if _, gone := os.Stat("/proc/self/task/" + task.Name()); gone != nil {
				continue // the thread has ended; its children have a new parent
			}
			return childrenByParent() // a kernel without these files
		}
		if err != nil {
			return nil, err
		}
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// childrenByParent finds the children of this process by reading the parent of every process.
func childrenByParent() ([]int, error) {
	pids, err := All()
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	children := pids[:0]
	for _, pid := range pids {
		if stat, err := Read(pid); err == nil && stat.Parent == self {
			children = append(children, pid)
		}
	}
	return children, nil
}

// Signal sends a signal to pid if still confirms, after a pidfd is open, that it is the intended process, because ids
// are reused. It reports whether the signal was sent.
func Signal(pid int, sig unix.Signal, still func(pid int) bool) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// Without pidfds, by the kernel or a filter, the check and the signal are two steps.
		return still(pid) && unix.Kill(pid, sig) == nil
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return still(pid) && unix.PidfdSendSignal(fd, sig, nil, 0) == nil
}

// Alive removes ended processes.
func Alive(pids []int) []int {
	alive := pids[:0]
	for _, pid := range pids {
		if stat, err := Read(pid); err == nil && !stat.Zombie {
			alive = append(alive, pid)
		}
	}
	return alive
}

// Descendants returns the descendants of a process whose parents are alive.
func Descendants(pid int) []int {
	var found []int
	for queue := []int{pid}; len(queue) > 0; {
		children := childrenOf(queue[0])
		queue = append(queue[1:], children...)
		found = append(found, children...)
	}
	return found
}

// childrenOf returns the children of all threads of a process.
func childrenOf(pid int) (pids []int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		data, err := os.ReadFile(dir + task.Name() + "/children")
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
