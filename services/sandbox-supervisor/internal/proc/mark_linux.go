package proc

import (
	"bytes"
	"errors"
	"hash/fnv"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// family is the mask of the bits shared by one supervisor's marks.
const family = uint64(0xffffffff << 32)

// Mark returns the mark of command n of the supervisor of a node; n 0 is the shim itself. Marks of one node are a
// family: their upper bits are a hash of its name, never all zeros, so that no ordinary limit equals a mark.
func Mark(node string, n uint32) uint64 {
	h := fnv.New32a()
	h.Write([]byte(node))
	// The top bit is 0, because all ones means no limit. The next bit is 1, so that a family is never small.
	return uint64(h.Sum32()&0x7fffffff|0x40000000)<<32 | uint64(n)
}

// Family reports whether two marks belong to one node.
func Family(a, b uint64) bool { return a&family == b&family }

// Own returns the shim's own mark in the family of mark.
func Own(mark uint64) uint64 { return mark & family }

// SetMark marks this process and all processes that it starts from now on. The hard limit is unchanged, so that the
// mark can be set again. It fails if the hard limit is too low.
func SetMark(mark uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &now); err != nil {
		return err
	}
	if now.Max < mark {
		return unix.EPERM
	}
	return unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: mark, Max: now.Max}, nil)
}

// MarkOf returns a process's mark: 0 for an ended process, the ordinary limit for an unmarked one.
func MarkOf(pid int) uint64 {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit)
	if err == nil {
		return limit.Cur
	}
	if !errors.Is(err, unix.EPERM) {
		return 0
	}
	// For another user's process, such as one started by sudo, prlimit is refused but the file is readable.
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0
	}
	return markIn(data)
}

// markIn reads the soft limit of file locks from the text of /proc/PID/limits.
func markIn(limits []byte) uint64 {
	_, rest, found := bytes.Cut(limits, []byte("Max file locks"))
	if !found {
		return 0
	}
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(fields[0]), 10, 64)
	if err != nil {
		return unix.RLIM_INFINITY
	}
	return n
}
