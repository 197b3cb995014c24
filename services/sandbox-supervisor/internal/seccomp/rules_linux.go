package seccomp

import "golang.org/x/sys/unix"

// Profile selects a filter.
type Profile struct {
	// Relaxed permits the calls of debuggers: tracing processes of the same cage, and reading and writing their memory.
	Relaxed bool
	// NoClone3 makes programs fall back to clone, because a filter can see the arguments of clone. It is for cages without
	// a user namespace, where only this filter forbids new namespaces.
	NoClone3 bool
}

// check compares an argument: it holds if argument & mask equals value, or differs from it, if not is set.
type check struct {
	arg         int
	mask, value uint32
	not         bool
}

// alternative is a list of checks that must all hold. A call is allowed if one of its alternatives holds; one without
// checks always does.
type alternative []check

// whole is the mask of a complete argument.
const whole = ^uint32(0)

func is(arg int, value uint32) check  { return check{arg: arg, mask: whole, value: value} }
func not(arg int, value uint32) check { return check{arg: arg, mask: whole, value: value, not: true} }

// noSetID holds for a file mode without set-user-id and set-group-id. In a tree with mapped owners such a file would
// belong to the host's root outside.
func noSetID(arg int) check { return check{arg: arg, mask: unix.S_ISUID | unix.S_ISGID} }

// opening permits open with its flags and its mode; only a call that creates a file has a mode.
func opening(flags, mode int) []alternative {
	const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY
	return []alternative{{noSetID(mode)}, {{arg: flags, mask: unix.O_CREAT | tmpfile}}}
}

// harmlessNode permits mknod for files, pipes and sockets, not for devices.
func harmlessNode(mode int) []alternative {
	var allowed []alternative
	for _, kind := range []uint32{0, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK} {
		allowed = append(allowed, alternative{{arg: mode, mask: unix.S_IFMT | unix.S_ISUID | unix.S_ISGID, value: kind}})
	}
	return allowed
}

// sockets permits local sockets, TCP and UDP, and queries for addresses and routes.
func sockets() []alternative {
	const typeMask = 0xf // the other bits are flags
	allowed := []alternative{{is(0, unix.AF_UNIX)}, {is(0, unix.AF_NETLINK), is(2, unix.NETLINK_ROUTE)}}
	for _, domain := range []uint32{unix.AF_INET, unix.AF_INET6} {
		for _, kind := range []struct{ kind, protocol uint32 }{
			{unix.SOCK_STREAM, 0},
			{unix.SOCK_STREAM, unix.IPPROTO_TCP},
			{unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
			{unix.SOCK_DGRAM, 0},
			{unix.SOCK_DGRAM, unix.IPPROTO_UDP},
		} {
			allowed = append(allowed, alternative{
				is(0, domain), {arg: 1, mask: typeMask, value: kind.kind}, is(2, kind.protocol),
			})
		}
	}
	return allowed
}

// namespaces are the flags of clone that create one.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Execution domains of a process (linux/personality.h).
const (
	perLinux, perLinux32  = 0, 8
	uname26, noRandomized = 0x0020000, 0x0040000
)

// rules returns the calls that are only allowed with some arguments.
func rules(p Profile) map[int][]alternative {
	list := map[int][]alternative{
		unix.SYS_SOCKET:     sockets(),
		unix.SYS_SOCKETPAIR: {{is(0, unix.AF_UNIX)}},
		unix.SYS_CLONE:      {{{arg: 0, mask: namespaces}}},
		// Typing into a terminal, or taking over its line discipline or the console, would act as its user.
		unix.SYS_IOCTL: {{not(1, unix.TIOCSTI), not(1, unix.TIOCLINUX), not(1, unix.TIOCSETD), not(1, unix.TIOCCONS)}},
		unix.SYS_PERSONALITY: {
			{is(0, perLinux)},
			{is(0, perLinux32)},
			{is(0, uname26)},
			{is(0, perLinux32|uname26)},
			{is(0, 0xffffffff)}, // a query
		},
		unix.SYS_FCHMOD: {{noSetID(1)}}, unix.SYS_FCHMODAT: {{noSetID(2)}}, unix.SYS_FCHMODAT2: {{noSetID(2)}},
		unix.SYS_OPENAT: opening(2, 3), unix.SYS_MKNODAT: harmlessNode(2), unix.SYS_MKDIRAT: {{}},
	}
	if !p.NoClone3 {
		list[unix.SYS_CLONE3] = []alternative{{}}
	}
	if p.Relaxed {
		for _, nr := range []int{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV} {
			list[nr] = []alternative{{}}
		}
		for _, persona := range []uint32{perLinux, perLinux32} {
			list[unix.SYS_PERSONALITY] = append(list[unix.SYS_PERSONALITY], alternative{is(0, persona|noRandomized)})
		}
	}
	for nr, allowed := range olderRules() {
		list[nr] = allowed
	}
	for _, numbers := range [][]int{always, older} {
		for _, nr := range numbers {
			list[nr] = []alternative{{}}
		}
	}
	return list
}

// absent are calls that fail as if the kernel lacked them, so that programs fall back: to older calls with arguments
// that a filter can see, because it cannot see a mode behind a pointer; from asynchronous I/O, which has a machine-wide
// limit of events, and from memfd_secret, to calls that every kernel has.
func absent(p Profile) []int {
	calls := []int{
		unix.SYS_OPENAT2, unix.SYS_MEMFD_SECRET,
		unix.SYS_IO_SETUP, unix.SYS_IO_SUBMIT, unix.SYS_IO_GETEVENTS, unix.SYS_IO_PGETEVENTS, unix.SYS_IO_CANCEL,
		unix.SYS_IO_DESTROY,
	}
	if p.NoClone3 {
		calls = append(calls, unix.SYS_CLONE3)
	}
	return calls
}
