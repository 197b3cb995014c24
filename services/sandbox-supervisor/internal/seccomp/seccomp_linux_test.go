package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Getenv("KAGED_TEST_FILTERED") != "" {
		filtered()
		return
	}
	os.Exit(m.Run())
}

// call is a system call as a filter sees it.
type call struct {
	nr, arch uint32
	args     [6]uint64
}

// run executes a filter as the kernel does, and returns its result and the number of instructions.
func run(t *testing.T, c code, in call) (answer uint32, steps int) {
	t.Helper()
	var data [64]byte
	binary.NativeEndian.PutUint32(data[offNumber:], in.nr)
	binary.NativeEndian.PutUint32(data[offArch:], in.arch)
	for i, arg := range in.args {
		binary.NativeEndian.PutUint64(data[offArgs+8*i:], arg)
	}
	var a uint32
	for pc := 0; pc < len(c); pc++ {
		steps++
		i := c[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(i.Jt)
			} else {
				pc += int(i.Jf)
			}
		}
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.NativeEndian.Uint32(data[i.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= i.K
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ:
			jump(a == i.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JGE:
			jump(a >= i.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JSET:
			jump(a&i.K != 0)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(i.K)
		case unix.BPF_RET | unix.BPF_K:
			return i.K, steps
		default:
			t.Fatalf("instruction %d is %v", pc, i)
		}
	}
	t.Fatal("the filter has no end")
	return 0, 0
}

// judge evaluates the rules one by one.
func judge(p Profile, list map[int][]alternative, in call) uint32 {
	last := 0
	for nr := range list {
		last = max(last, nr)
	}
	switch {
	case in.arch != arch:
		return kill
	case in.nr&foreign != 0, int(in.nr) > last, slices.Contains(absent(p), int(in.nr)):
		return unknown
	}
	for _, a := range list[int(in.nr)] {
		if !slices.ContainsFunc(a, func(c check) bool { return (uint32(in.args[c.arg])&c.mask == c.value) == c.not }) {
			return allow
		}
	}
	return refuse
}

var profiles = []Profile{{}, {Relaxed: true}, {NoClone3: true}, {Relaxed: true, NoClone3: true}}

// A compiled filter gives the same results as the rules: for every number, with arguments from the rules themselves,
// with additional bits, and with random ones.
func TestCompiled(t *testing.T) {
	t.Parallel()
	for _, p := range profiles {
		c, list := compile(p), rules(p)
		if len(c) > 4096 {
			t.Fatalf("the filter has %d instructions", len(c))
		}
		random := rand.New(rand.NewPCG(1, 2))
		longest := 0
		try := func(in call) {
			got, steps := run(t, c, in)
			longest = max(longest, steps)
			if want := judge(p, list, in); got != want {
				t.Errorf("%+v: %v is answered with %#x, want %#x", p, in, got, want)
			}
		}
		for nr := range uint32(1024) {
			for _, bit := range []uint32{0, 0x40000000, 0x80000000} {
				try(call{nr: nr | bit, arch: arch})
			}
			try(call{nr: nr, arch: unix.AUDIT_ARCH_I386})
			for _, a := range list[int(nr)] {
				for range 64 {
					in := call{nr: nr, arch: arch}
					for i := range in.args {
						in.args[i] = random.Uint64() & random.Uint64() & random.Uint64()
					}
					for _, check := range a {
						in.args[check.arg] = uint64(check.value) | random.Uint64()&^uint64(check.mask)
					}
					try(in)
					for _, check := range a {
						in.args[check.arg] ^= 1 << random.IntN(64)
						try(in)
					}
				}
			}
		}
		t.Logf("%+v: %d instructions, at most %d for one call", p, len(c), longest)
	}
}

// No variant of a forbidden call is allowed, also with bits that the kernel ignores (CVE-2019-10063, CVE-2023-28100).
func TestRefused(t *testing.T) {
	t.Parallel()
	never := []int{
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_FSOPEN,
		unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
		unix.SYS_KCMP,
		unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_IO_URING_SETUP,
		unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_USERFAULTFD, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_SWAPON,
		unix.SYS_SWAPOFF, unix.SYS_SYSLOG, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
		unix.SYS_DELETE_MODULE, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_CLOCK_SETTIME, unix.SYS_SETTIMEOFDAY,
		unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_VHANGUP,
	}
	for _, p := range profiles {
		c := compile(p)
		for _, nr := range never {
			if got, _ := run(t, c, call{nr: uint32(nr), arch: arch}); got == allow {
				t.Errorf("%+v: call %d is allowed", p, nr)
			}
		}
		for _, in := range []call{
			{nr: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCSTI}},
			{nr: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCSTI | 1<<32}},
			{nr: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCLINUX | 0xffffffff<<32}},
			{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}},
			{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_VSOCK | 1<<32, unix.SOCK_STREAM}},
			{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_PACKET, unix.SOCK_RAW}},
			{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}},
			{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}},
			{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}},
			{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}},
			{nr: unix.SYS_SOCKETPAIR, args: [6]uint64{unix.AF_TIPC}},
			{nr: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}},
			{nr: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_NEWNS}},
			{nr: unix.SYS_FCHMODAT, args: [6]uint64{0, 0, 0o4755}},
			{nr: unix.SYS_FCHMOD, args: [6]uint64{0, 0o2755}},
			{nr: unix.SYS_OPENAT, args: [6]uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o4755}},
			{nr: unix.SYS_OPENAT, args: [6]uint64{0, 0, unix.O_TMPFILE | unix.O_WRONLY, 0o6755}},
			{nr: unix.SYS_OPENAT2},
			{nr: unix.SYS_MKNODAT, args: [6]uint64{0, 0, unix.S_IFBLK | 0o600}},
			{nr: unix.SYS_MKNODAT, args: [6]uint64{0, 0, unix.S_IFREG | 0o4755}},
			{nr: unix.SYS_PERSONALITY, args: [6]uint64{0x0400000}}, // READ_IMPLIES_EXEC
		} {
			in.arch = arch
			if got, _ := run(t, c, in); got == allow {
				t.Errorf("%+v: %v is allowed", p, in)
			}
		}
	}
}

// Calls that programs need are allowed, those of debuggers only with the relaxed profile, and clone3 only if a user
// namespace contains it.
func TestAllowed(t *testing.T) {
	t.Parallel()
	for _, p := range profiles {
		c := compile(p)
		for _, x := range []struct {
			call
			want bool
		}{
			{call{nr: unix.SYS_READ}, true},
			{call{nr: unix.SYS_OPENAT, args: [6]uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o1755}}, true},
			{call{nr: unix.SYS_OPENAT, args: [6]uint64{0, 0, unix.O_RDONLY | unix.O_DIRECTORY, 0o177777}}, true},
			{call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC}}, true},
			{
				call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_NONBLOCK, unix.IPPROTO_TCP}},
				true,
			},
			{call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}}, true},
			{call{nr: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}}, true},
			{call{nr: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCGWINSZ}}, true},
			{call{nr: unix.SYS_MKNODAT, args: [6]uint64{0, 0, unix.S_IFIFO | 0o600}}, true},
			{call{nr: unix.SYS_PERSONALITY, args: [6]uint64{0xffffffff}}, true},
			{call{nr: unix.SYS_PTRACE}, p.Relaxed},
			{call{nr: unix.SYS_PROCESS_VM_READV}, p.Relaxed},
			{call{nr: unix.SYS_PERSONALITY, args: [6]uint64{noRandomized}}, p.Relaxed},
			{call{nr: unix.SYS_CLONE3}, !p.NoClone3},
		} {
			x.arch = arch
			if got, _ := run(t, c, x.call); (got == allow) != x.want {
				t.Errorf("%+v: %v is answered with %#x", p, x.call, got)
			}
		}
	}
}

// The kernel accepts the filter and enforces it.
func TestKernel(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"KAGED_TEST_FILTERED=1"}
	out, err := cmd.CombinedOutput()
	want := []string{
		"unshare: operation not permitted", "ptrace: operation not permitted", "openat2: function not implemented",
		"x32 or newer: function not implemented", "vsock: operation not permitted", "set-id: operation not permitted",
		"inet: ok", "file: ok",
	}
	if got := strings.TrimSpace(string(out)); err != nil || got != strings.Join(want, "\n") {
		t.Errorf("%v:\n%s", err, got)
	}
}

// filtered installs the filter and prints the results of some calls.
func filtered() {
	runtime.LockOSThread()
	program := Filter(Profile{})
	prog := unix.SockFprog{Len: uint16(len(program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	_, _, errno := unix.Syscall(
		unix.SYS_SECCOMP,
		unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)),
	)
	if errno != 0 {
		panic(errno)
	}
	say := func(name string, err error) {
		if err == nil || errors.Is(err, unix.Errno(0)) {
			fmt.Println(name + ": ok")
			return
		}
		fmt.Println(name+":", err)
	}
	say("unshare", unix.Unshare(unix.CLONE_NEWUSER))
	_, _, errno = unix.Syscall(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0)
	say("ptrace", errno)
	_, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{})
	say("openat2", err)
	_, _, errno = unix.Syscall(0x40000000|39, 0, 0, 0)
	say("x32 or newer", errno)
	_, err = unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	say("vsock", err)
	_, err = unix.Open("/tmp", unix.O_TMPFILE|unix.O_WRONLY, 0o4755)
	say("set-id", err)
	_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	say("inet", err)
	_, err = unix.Open("/", unix.O_RDONLY, 0)
	say("file", err)
}
