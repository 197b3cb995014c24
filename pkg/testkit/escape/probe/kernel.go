//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	add(map[string]func() *report{
		"proc-write":           procWrite,
		"proc-read":            procRead,
		"proc-sysctl":          procSysctl,
		"proc-remask":          procRemask,
		"sys-keyring":          sysKeyring,
		"sys-io-uring":         sysIOUring,
		"sys-userfaultfd":      sysUserfaultfd,
		"sys-bpf":              sysBPF,
		"sys-perf":             sysPerf,
		"sys-fanotify":         sysFanotify,
		"sys-aio":              sysAIO,
		"sys-inotify":          sysInotify,
		"sys-memory-tricks":    sysMemoryTricks,
		"sys-quota":            sysQuota,
		"sys-modules":          sysModules,
		"sys-kexec":            sysKexec,
		"sys-reboot":           sysReboot,
		"sys-swap":             sysSwap,
		"sys-clock":            sysClock,
		"sys-hostname":         sysHostname,
		"sys-personality":      sysPersonality,
		"sys-tiocsti":          func() *report { return typed(unix.TIOCSTI) },
		"sys-tiocsti-high":     func() *report { return typed(unix.TIOCSTI | 1<<32) },
		"sys-tiocsti-signed":   func() *report { return typed(unix.TIOCSTI | 0xffffffff<<32) },
		"sys-tioclinux":        sysTioclinux,
		"sys-numa":             sysNuma,
		"sys-obsolete":         sysObsolete,
		"sys-ioctl-block":      sysIoctlBlock,
		"pid-init-descriptors": pidInitDescriptors,
	})
}

func procWrite() *report {
	r := attack()
	for _, file := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/kernel/hostname",
		"/proc/sys/kernel/sysrq",
		"/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger", "/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/panic",
		"/proc/sys/kernel/randomize_va_space",
		"/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state",
		"/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/acpi/wakeup",
		"/proc/scsi/scsi", "/proc/bus/pci/00/00.0", "/proc/sys/user/max_user_namespaces", "/proc/sys/user/max_mnt_namespaces",
		"/proc/sys/kernel/ns_last_pid",
		"/proc/sys/kernel/keys/maxkeys", "/proc/sys/fs/protected_symlinks", "/proc/sys/kernel/yama/ptrace_scope",
		"/proc/sys/net/ipv4/ip_forward",
	} {
		fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		r.try(file, err)
		if err == nil {
			unix.Close(fd)
		}
	}
	return r
}

func procRead() *report {
	r := attack()
	for _, file := range []string{
		"/proc/kcore", "/proc/kmsg", "/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/proc/sched_debug",
		"/proc/latency_stats", "/proc/config.gz", "/proc/modules",
		"/proc/key-users", "/proc/vmallocinfo", "/proc/pagetypeinfo", "/proc/slabinfo", "/proc/iomem", "/proc/ioports",
		"/proc/kpagecount", "/proc/kpageflags", "/proc/sysrq-trigger",
		"/dev/mem", "/dev/kmsg", "/sys/kernel/notes",
	} {
		f, err := os.Open(file)
		if err == nil {
			buf := make([]byte, 4096)
			n, _ := f.Read(buf)
			f.Close()
			// Some files contain only zeros for an unprivileged reader.
			if len(bytes.Trim(buf[:n], "\x000\n ")) == 0 || harmlessText(file, buf[:n]) {
				err = errors.New("empty")
			}
		}
		r.try(file, err)
	}
	return r
}

// harmlessText reports whether a file shows neither a kernel address nor a key.
func harmlessText(file string, text []byte) bool {
	switch file {
	case "/proc/iomem", "/proc/ioports", "/proc/kallsyms":
		for line := range bytes.Lines(text) {
			if address := bytes.TrimLeft(line, "0 -"); len(address) > 0 && address[0] != ':' &&
				strings.IndexByte("123456789abcdef", address[0]) >= 0 &&
				!bytes.HasPrefix(bytes.TrimSpace(line), []byte("0000")) {
				return false
			}
		}
		return true
	case "/proc/key-users":
		return true
	}
	return false
}

func procSysctl() *report {
	r := attack()
	for file, value := range map[string]string{
		"/proc/sys/kernel/hostname": "escaped", "/proc/sys/kernel/domainname": "escaped",
		"/proc/sys/net/ipv4/ip_unprivileged_port_start": "1024",
		"/proc/sys/net/ipv4/ping_group_range":           "0 0", "/proc/sys/kernel/shmmax": "1",
		"/proc/sys/fs/mqueue/queues_max": "256",
		"/proc/sys/kernel/msgmax":        "1",
	} {
		r.try(file, os.WriteFile(file, []byte(value), 0))
	}
	return r
}

func procRemask() *report {
	r := attack()
	// Masked files stay masked under every name.
	for _, file := range []string{"kcore", "keys", "timer_list"} {
		for _, dir := range []string{"/proc/self/root/proc/", "/proc/1/root/proc/", "/proc/self/../", "/proc/./"} {
			f, err := os.Open(dir + file)
			if err == nil {
				n, _ := f.Read(make([]byte, 64))
				f.Close()
				if n == 0 {
					err = errors.New("empty")
				}
			}
			r.try(dir+file, err)
		}
	}
	return r
}

func sysKeyring() *report {
	r := attack()
	r.entered("add_key", call(unix.SYS_ADD_KEY, "user", "probe", []byte("x"), 1, unix.KEY_SPEC_SESSION_KEYRING))
	r.entered("request_key", call(unix.SYS_REQUEST_KEY, "user", "probe", 0, 0))
	r.entered("keyctl", call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, unix.KEY_SPEC_SESSION_KEYRING, 0))
	return r
}

func sysIOUring() *report {
	r := attack()
	fd, err := result(unix.SYS_IO_URING_SETUP, 1, make([]byte, 120))
	r.entered("io_uring_setup", err)
	if err == nil {
		unix.Close(int(fd))
	}
	r.entered("io_uring_enter", call(unix.SYS_IO_URING_ENTER, -1, 0, 0, 0, 0, 0))
	r.entered("io_uring_register", call(unix.SYS_IO_URING_REGISTER, -1, 0, 0, 0))
	return r
}

func sysUserfaultfd() *report {
	r := attack()
	for name, flags := range map[string]int{"userfaultfd": 0, "userfaultfd for user mode": 1} {
		fd, err := result(unix.SYS_USERFAULTFD, flags|unix.O_CLOEXEC)
		r.entered(name, err)
		if err == nil {
			unix.Close(int(fd))
		}
	}
	return r
}

func sysBPF() *report {
	r := attack()
	for command := range 4 {
		r.entered(fmt.Sprint("bpf ", command), call(unix.SYS_BPF, command, make([]byte, 128), 128))
	}
	return r
}

func sysPerf() *report {
	r := attack()
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_TASK_CLOCK,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits:   unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	r.try("perf_event_open", err)
	if err == nil {
		unix.Close(fd)
	}
	return r
}

func sysFanotify() *report {
	r := attack()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC, 0)
	r.try("fanotify_init", err)
	if err == nil {
		unix.Close(fd)
	}
	r.entered("fanotify_mark", call(unix.SYS_FANOTIFY_MARK, -1, 0, 0, 0, 0))
	return r
}

// sysAIO enters the calls that allocate events from a machine-wide limit, fs.aio-max-nr.
func sysAIO() *report {
	r := attack()
	var context uint64
	r.entered("io_setup", call(unix.SYS_IO_SETUP, 1, unsafe.Pointer(&context)))
	r.entered("io_submit", call(unix.SYS_IO_SUBMIT, 0, 0, 0))
	r.entered("io_getevents", call(unix.SYS_IO_GETEVENTS, 0, 0, 0, 0, 0))
	r.entered("io_pgetevents", call(unix.SYS_IO_PGETEVENTS, 0, 0, 0, 0, 0, 0))
	r.entered("io_cancel", call(unix.SYS_IO_CANCEL, 0, 0, 0))
	r.entered("io_destroy", call(unix.SYS_IO_DESTROY, 0))
	return r
}

// sysInotify creates inotify instances until it fails: a cage must not get half of the host's limit for a user.
func sysInotify() *report {
	r := attack()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		r.try("the host's limit", err)
		return r
	}
	if maps, err := os.ReadFile("/proc/self/uid_map"); err == nil && strings.Contains(string(maps), "4294967295") &&
		!params.Uncaged {
		r.saw("user namespace: the count is that of a user of cages only", false)
		return r
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		r.try("the host's limit", err)
		return r
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) // best effort
	got := 0
	for got < limit && err == nil {
		if _, err = unix.InotifyInit1(unix.IN_CLOEXEC); err == nil {
			got++
		}
	}
	r.saw(fmt.Sprintf("%d of %d inotify instances", got, limit), got >= limit/2)
	return r
}

func sysMemoryTricks() *report {
	r := attack()
	r.entered("vmsplice", call(unix.SYS_VMSPLICE, -1, 0, 0, 0))
	r.entered("remap_file_pages", call(unix.SYS_REMAP_FILE_PAGES, 1, 0, 0, 0, 0))
	r.entered("memfd_secret", call(unix.SYS_MEMFD_SECRET, 1<<31))
	return r
}

func sysQuota() *report {
	r := attack()
	r.entered("quotactl", call(unix.SYS_QUOTACTL, 0x80000700, 0, 0, 0))
	r.entered("quotactl_fd", call(unix.SYS_QUOTACTL_FD, -1, 0x80000700, 0, 0))
	r.entered("acct", call(unix.SYS_ACCT, "/tmp/none"))
	r.entered("syslog", call(unix.SYS_SYSLOG, 10 /* size of the buffer */, 0, 0))
	return r
}

func sysModules() *report {
	r := attack()
	r.entered("init_module", call(unix.SYS_INIT_MODULE, []byte("x"), 1, ""))
	r.entered("finit_module", call(unix.SYS_FINIT_MODULE, -1, "", 0))
	r.entered("delete_module", call(unix.SYS_DELETE_MODULE, "no_such_module_at_all", unix.O_NONBLOCK))
	return r
}

func sysKexec() *report {
	r := attack()
	r.entered("kexec_load", call(unix.SYS_KEXEC_LOAD, 0, 17, 0, -1))
	r.entered("kexec_file_load", call(unix.SYS_KEXEC_FILE_LOAD, -1, -1, 0, 0, -1))
	return r
}

func sysReboot() *report {
	r := attack()
	// The magic numbers are wrong, so that the call cannot succeed.
	r.entered("reboot", call(unix.SYS_REBOOT, 1, 2, 3, 0))
	return r
}

func sysSwap() *report {
	r := attack()
	r.entered("swapon", call(unix.SYS_SWAPON, "/no/such/file", 0))
	r.entered("swapoff", call(unix.SYS_SWAPOFF, "/no/such/file"))
	return r
}

func sysClock() *report {
	r := attack()
	r.entered("settimeofday", call(unix.SYS_SETTIMEOFDAY, 0, 0))
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME, &now)
	r.entered("clock_settime", call(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, unsafe.Pointer(&now)))
	change := unix.Timex{Modes: unix.ADJ_OFFSET}
	_, err := unix.Adjtimex(&change)
	r.entered("adjtimex", err)
	_, err = unix.ClockAdjtime(unix.CLOCK_REALTIME, &change)
	r.entered("clock_adjtime", err)
	return r
}

func sysHostname() *report {
	r := attack()
	r.entered("sethostname", unix.Sethostname([]byte("escaped")))
	r.entered("setdomainname", unix.Setdomainname([]byte("escaped")))
	return r
}

func sysPersonality() *report {
	r := attack()
	for name, persona := range map[string]int{
		"READ_IMPLIES_EXEC": 0x0400000, "MMAP_PAGE_ZERO": 0x0100000, "ADDR_COMPAT_LAYOUT": 0x0200000, "SVR4": 0x0100001,
	} {
		r.try(name, call(unix.SYS_PERSONALITY, persona))
	}
	_, _ = result(unix.SYS_PERSONALITY, 0)
	return r
}

// typed tries to type on the terminal of its own session.
func typed(request uint64) *report {
	r := attack()
	master, slave, err := terminal()
	if err != nil {
		r.try("a terminal", nil)
		return r
	}
	defer master.Close()
	defer slave.Close()
	if err := unix.IoctlSetInt(int(slave.Fd()), unix.TIOCSCTTY, 0); err != nil {
		fatal(err)
	}
	char := []byte("x")
	r.try(fmt.Sprintf("typing by %#x", request), call(unix.SYS_IOCTL, int(slave.Fd()), uintptr(request), char))
	return r
}

func sysTioclinux() *report {
	r := attack()
	master, slave, err := terminal()
	if err != nil {
		r.try("a terminal", nil)
		return r
	}
	defer master.Close()
	defer slave.Close()
	for _, request := range []uint64{unix.TIOCLINUX, unix.TIOCLINUX | 1<<32, unix.TIOCLINUX | 0xffffffff<<32} {
		r.try(
			fmt.Sprintf("TIOCLINUX by %#x", request),
			call(unix.SYS_IOCTL, int(slave.Fd()), uintptr(request), []byte{2, 0, 0, 0}),
		)
	}
	r.try("TIOCCONS", call(unix.SYS_IOCTL, int(slave.Fd()), unix.TIOCCONS, 0))
	return r
}

func sysNuma() *report {
	r := attack()
	r.entered("migrate_pages", call(unix.SYS_MIGRATE_PAGES, 1, 0, 0, 0))
	r.entered("move_pages", call(unix.SYS_MOVE_PAGES, 1, 0, 0, 0, 0, 0))
	return r
}

func sysObsolete() *report {
	r := attack()
	r.entered("vhangup", call(unix.SYS_VHANGUP))
	r.entered("nfsservctl", call(unix.SYS_NFSSERVCTL, 0, 0, 0))
	r.entered("lookup_dcookie", call(unix.SYS_LOOKUP_DCOOKIE, 0, 0, 0))
	return r
}

func sysIoctlBlock() *report {
	r := attack()
	page := filepath.Join(params.Docs, "page")
	fd, err := unix.Open(page, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	defer unix.Close(fd)
	// Freezing a file system stops all writes to it.
	r.try("FIFREEZE", call(unix.SYS_IOCTL, fd, 0xc0045877, 0))
	r.try("FITRIM", call(unix.SYS_IOCTL, fd, 0xc0185879, 0))
	r.try("setting the encryption policy", call(unix.SYS_IOCTL, fd, 0x800c6613, make([]byte, 12)))
	return r
}

func pidInitDescriptors() *report {
	r := attack()

	for fd := range 64 {
		_, err := unix.Open(fmt.Sprintf("/proc/1/fd/%d", fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
		r.try(fmt.Sprintf("descriptor %d of pid 1", fd), err)
	}
	return r
}
