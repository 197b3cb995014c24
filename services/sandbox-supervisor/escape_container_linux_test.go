package sandboxsupervisor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { helpers["container"] = helperContainer }

// container is a machine as a container runtime presents it to the supervisor.
type container struct {
	// Caps are root's remaining capabilities; nil leaves all.
	Caps []int `json:"caps"`
	// Masked hides and protects the same parts of /proc and /sys as container runtimes.
	Masked bool `json:"masked"`
	// Seccomp refuses namespaces and mounts, as runtimes' default filters do.
	Seccomp bool `json:"seccomp"`
	// Refused are additional system calls that a filter refuses.
	Refused []uint32 `json:"refused"`
	// NoUserns forbids user namespaces.
	NoUserns bool `json:"no_userns"`
	// UID is the user of the supervisor, without any capability; 0 means root.
	UID int `json:"uid"`
}

// dockerCaps are root's capabilities in a container by Docker's default.
var dockerCaps = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD, unix.CAP_NET_RAW,
	unix.CAP_SETGID, unix.CAP_SETUID,
	unix.CAP_SETFCAP, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_KILL,
	unix.CAP_AUDIT_WRITE,
}

// namespaces are the namespaces of a container.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// helperContainer turns the namespaces it was started in into the container of KAGED_TEST_CONTAINER, and becomes a
// stage in it.
func helperContainer() {
	var c container
	must(json.Unmarshal([]byte(os.Getenv("KAGED_TEST_CONTAINER")), &c))
	runtime.LockOSThread() // capabilities and filters belong to a thread
	if c.NoUserns {
		must(os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0))
		must(unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
	} else {
		must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must(unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
		// Numbers that differ from those of the first processes of a cage.
		must(os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("20000"), 0))
		loopbackUp()
	}
	if c.Masked {
		mask()
	}
	if c.Seccomp || len(c.Refused) > 0 {
		must(filter(c))
	}
	if c.Caps != nil {
		keep := map[int]bool{}
		for _, c := range c.Caps {
			keep[c] = true
		}
		for right := 0; right <= unix.CAP_LAST_CAP; right++ {
			if !keep[right] {
				must(unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(right), 0, 0, 0))
			}
		}
	}
	if c.UID != 0 {
		must(unix.Setgroups(nil))
		must(unix.Setresgid(c.UID, c.UID, c.UID))
		must(unix.Setresuid(c.UID, c.UID, c.UID))
	}
	must(os.Setenv("KAGED_TEST_HELPER", "escape"))
	must(syscall.Exec(filepath.Join(os.Getenv("KAGED_TEST_DIR"), "self"), os.Args, os.Environ()))
}

func loopbackUp() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	must(err)
	request.SetUint16(unix.IFF_UP)
	must(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request))
}

// mask hides the same parts of /proc and /sys as container runtimes.
func mask() {
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	for _, file := range []string{
		"/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug",
	} {
		if there(file) {
			must(unix.Mount("/dev/null", file, "", unix.MS_BIND, ""))
		}
	}
	for _, dir := range []string{"/proc/acpi", "/proc/asound", "/proc/scsi", "/sys/firmware"} {
		if there(dir) {
			must(unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, ""))
		}
	}
	for _, path := range []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys"} {
		if there(path) {
			must(unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""))
			must(unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
		}
	}
}

// filter installs a container's seccomp filter: Docker's default for a process without CAP_SYS_ADMIN, and additional
// calls.
func filter(c container) error {
	const (
		number, flags = 0, 16 // offsets in struct seccomp_data: the call, the low half of its first argument
		allow         = unix.SECCOMP_RET_ALLOW
		refuse        = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		absent        = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		created       = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
			unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	end := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	// skips the given number of instructions unless the call matches
	unless := func(call uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: skip}
	}
	program := []unix.SockFilter{load(number)}
	docker := []uint32{
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE,
		unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
		unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY,
		unix.SYS_SETHOSTNAME,
	}
	if !c.Seccomp {
		docker = nil
	}
	for _, call := range append(docker, c.Refused...) {
		program = append(program, unless(call, 1), end(refuse))
	}
	if c.Seccomp {
		program = append(program,
			unless(unix.SYS_CLONE3, 1), end(absent),
			unless(unix.SYS_CLONE, 3), load(flags),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: created, Jf: 1}, end(refuse))
	}
	program = append(program, end(allow))
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&p)), 0, 0)
}
