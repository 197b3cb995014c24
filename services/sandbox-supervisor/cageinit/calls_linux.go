package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// call is a system call needed to build a cage, with arguments that have no effect and for which the kernel's error
// differs from a filter's.
type call struct {
	name string
	trap uintptr
	args [5]uintptr
	// mounts marks calls that the kernel refuses without the right to mount, whatever the arguments.
	mounts bool
}

const invalid = ^uintptr(0) >> 33 // flags or a length that every call rejects

var calls = []call{
	// The two flags exclude each other.
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

// sayRefused writes the names of the calls that a filter refuses to standard output. In its own user namespace it tries
// all calls needed to build a cage, otherwise only those that the kernel does not refuse anyway.
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

// refusedCalls runs sayRefused if the program's argument asks for it.
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
