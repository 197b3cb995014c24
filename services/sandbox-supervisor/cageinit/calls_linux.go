package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// call is a system call needed for building a cage, with arguments without effect, for which the kernel's own error
// differs from that of a filter.
type call struct {
	name string
	trap uintptr
	args [5]uintptr
	// mounts marks calls that the kernel refuses without the right to mount, for any arguments.
	mounts bool
}

const invalid = ^uintptr(0) >> 33 // flags or a length that every call rejects

var calls = []call{
	// Which exclude each other.
	{name: "clone", trap: unix.SYS_CLONE, args: [5]uintptr{unix.CLONE_NEWUSER | unix.CLONE_FS}},
	{name: "clone3", trap: unix.SYS_CLONE3},
	{name: "unshare", trap: unix.SYS_UNSHARE},
	{name: "mount", trap: unix.SYS_MOUNT},
	{name: "umount2", trap: unix.SYS_UMOUNT2, args: [5]uintptr{0, invalid}},
	{name: "open_tree", trap: unix.SYS_OPEN_TREE, args: [5]uintptr{invalid, 0, invalid}},
	{name: "mount_setattr", trap: unix.SYS_MOUNT_SETATTR, args: [5]uintptr{invalid, 0, invalid}},
	{name: "move_mount", trap: unix.SYS_MOVE_MOUNT, args: [5]uintptr{invalid, 0, invalid, 0, invalid}, mounts: true},
	{name: "pivot_root", trap: unix.SYS_PIVOT_ROOT, mounts: true},
	{name: "sethostname", trap: unix.SYS_SETHOSTNAME, args: [5]uintptr{0, invalid}, mounts: true},
}

// sayRefused writes the names of the calls to standard output that a filter refuses this process: in a user namespace
// of its own, of all that building a cage takes; else of those that the kernel does not refuse anyway.
func sayRefused(inside bool) {
	for _, c := range calls {
		if c.mounts != inside {
			continue
		}
		_, _, errno := unix.RawSyscall6(c.trap, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], 0)
		if errno == unix.EPERM || errno == unix.ENOSYS || errno == unix.EACCES {
			fmt.Println(c.name)
		}
	}
}

// refusedCalls does that for the argument of the program.
func refusedCalls(arg string) bool {
	switch arg {
	case blueprint.ArgCalls:
		sayRefused(false)
	case blueprint.ArgCallsInside:
		sayRefused(true)
	default:
		return false
	}
	return true
}
