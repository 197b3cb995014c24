package escape

import "slices"

// Profile is a kind of cage in which the cases are tried.
type Profile string

// The profiles.
const (
	// Strict has the default system calls and no network.
	Strict Profile = "strict"
	// Relaxed has the system calls of debuggers too.
	Relaxed Profile = "relaxed"
	// Networked may reach one address and port.
	Networked Profile = "networked"
	// Neighbours are two cages at once; the cases run in one of them.
	Neighbours Profile = "neighbours"
	// Limited are cages with one limit each, for a program that ignores it.
	Limited Profile = "limited"
	// Named may reach one host by name. Package egress tries its cases, each against a server that accepts the opening of
	// the protocol.
	Named Profile = "named"
)

// Case is an attempt of a program in a cage.
type Case struct {
	ID string
	// Attack describes the attempt; CVE is its origin, if any.
	Attack, CVE string
	// Want is the required outcome.
	Want Outcome
	// Only are the profiles of the case; empty means all three kinds of a single cage.
	Only []Profile
	// Open means that the attack succeeds without a cage, on any machine.
	Open bool
	// AMD64 means that the case exists on amd64 only.
	AMD64 bool
}

// In reports whether a case is tried in a kind of cage.
func (c Case) In(p Profile) bool {
	for _, only := range c.Only {
		if only == p {
			return true
		}
	}
	return len(c.Only) == 0 && p != Neighbours && p != Limited && p != Named
}

// Probed reports whether the probe tries a case. The cases of [Limited] and [Named] have their own programs.
func (c Case) Probed() bool {
	return !slices.Contains(c.Only, Limited) && !slices.Contains(c.Only, Named)
}

func works(id, attack string, only ...Profile) Case {
	return Case{ID: id, Attack: attack, Want: Works, Only: only}
}

func contained(id, attack string, only ...Profile) Case {
	return Case{ID: id, Attack: attack, Want: Contained, Only: only}
}

// open returns a case that must be contained and that succeeds without a cage.
func open(id, attack string, only ...Profile) Case {
	return Case{ID: id, Attack: attack, Want: Contained, Only: only, Open: true}
}

func (c Case) cve(id string) Case { c.CVE = id; return c }

func (c Case) amd64() Case { c.AMD64 = true; return c }

// Catalogue lists every case, the required abilities first.
var Catalogue = []Case{
	works("works-shell", "a shell with a pipe"),
	works("works-write", "making, changing, renaming and removing files in the project, /tmp and /var/tmp"),
	works("works-exec-own", "running a program that was written there"),
	works("works-read", "reading what is granted, and the system's files"),
	works("works-nested", "a writable folder in a read-only one, and the other way round"),
	works("works-file", "writing a single granted file"),
	works("works-home", "a home of its own"),
	works("works-shm", "shared memory of its own"),
	works("works-loopback", "a server and a client on 127.0.0.1"),
	works("works-unix-socket", "unix sockets, by path and by abstract name"),
	works("works-fork", "twenty processes"),
	works("works-threads", "threads"),
	works("works-proc", "/proc for itself"),
	works("works-terminal", "a terminal of its own with a shell on it"),
	works("works-dev", "the harmless devices"),
	works("works-signals", "stopping, continuing and killing a child"),
	works("works-identity", "the time, a host name, a user name"),
	works("works-links", "links, fifos and locks in the project"),
	works("works-inotify", "watching a folder of the project"),
	works("ptrace-own", "tracing a child under relaxed", Relaxed),
	works("ptrace-memory-own", "a child's memory under relaxed", Relaxed),
	works("net-allowed", "reaching what the policy allows", Networked),

	open("fs-absolute", "reading a file of the host by its path"),
	open("fs-write-absolute", "writing, making and removing files of the host"),
	open("fs-sibling", "a file of the project that is not granted"),
	open("fs-list-outside", "listing folders around what is granted"),
	open("fs-dotdot", "leaving by chains of .."),
	open("fs-proc-self", "leaving by /proc/*/root, cwd and fd of every process"),
	open("fs-symlink", "links out of the project, absolute, relative, magic, and to /"),
	open("fs-symlink-parent", "a folder that becomes a link during a walk"),
	open("fs-hardlink", "hard links to files of the host"),
	open("fs-symlink-race", "400 reads of a link that changes its target all the time").cve("CVE-2021-30465"),
	open("fs-rename-out", "moving files out, and exchanging folders"),
	open("fs-home", "other homes, /root, and the host's secrets in /etc and /var"),
	open("fs-host-tmp", "the host's /tmp"),
	open("fs-host-shm", "the host's shared memory, POSIX and System V"),
	open("fs-kaged", "kaged's data directory and sockets, by path, through /proc and by a relative name"),
	contained("fs-host-run", "sockets of the host's daemons in /run"),
	open("fs-ro-grant", "changing what is granted for reading, by every call there is"),
	open("fs-ro-nested", "changing what is read-only in what is writable"),
	open("fs-ro-replace", "putting something else in its place"),
	open("fs-ro-descriptor", "turning a descriptor for reading into one for writing"),
	contained("fs-ro-system", "writing in the system's folders"),
	open("fs-ro-root", "writing in the root and above what is granted"),
	open("fs-file-neighbours", "what lies beside a single granted file"),
	contained("fs-mounts-writable", "writing at every mount point that is not its own"),
	open("fs-mounts-flags", "a mount with set-id programs or devices"),
	contained("fs-mknod", "device nodes"),
	contained("fs-dev", "any device but the harmless ones"),
	contained("fs-open-by-handle", "opening files by their handle").cve("CVE-2014-3519"),
	open("fs-setid", "chmod to set-id, which would be the owner's outside"),
	open("fs-setid-create", "creating with set-id"),
	open("fs-setid-mkdir", "set-group-id folders"),
	contained("fs-file-caps", "capabilities in a file's attributes"),
	contained("fs-chown", "giving files away"),
	open("fs-protected", "planting git hooks, git config and .kaged files").cve("CVE-2026-25725"),
	open("fs-protected-fresh", "planting them where there are none yet").cve("CVE-2026-25725"),
	open("fs-protected-gitlink", "a repository at a submodule of the index that is not initialised"),
	open("fs-protected-modules", "a repository in .git/modules"),
	open("fs-protected-named", "hooks, includes and programs that a configuration of git names"),
	open("fs-protected-skills", "skills, which agents without a cage follow"),
	open("fs-protected-rename", "moving what is protected, or what holds it, out of the way"),
	open("fs-protected-link", "replacing what is protected by links").cve("CVE-2026-39861"),
	contained("fs-cgroup", "cgroup files, release_agent, and the host's path of them").cve("CVE-2022-0492"),
	open("fs-sysfs", "/sys"),
	contained("fs-attributes", "files their owner could not remove"),

	contained("proc-write", "kernel settings by /proc and /sys, opened for writing").cve("CVE-2025-52881"),
	contained("proc-read", "kernel memory, keys, symbols and logs by /proc").cve("CVE-2025-31133"),
	contained("proc-sysctl", "the cage's own kernel settings"),
	contained("proc-remask", "masked files by other names"),

	contained("id-caps", "any capability"),
	contained("id-caps-regain", "getting one back"),
	open("id-no-new-privs", "new privileges by exec"),
	open("id-seccomp", "running without a filter"),
	contained("id-setuid", "becoming root by system calls"),
	open("id-setid-programs", "becoming root by su, sudo, newuidmap and any other set-id program"),
	contained("id-groups", "other groups"),
	contained("id-not-root", "being root, or the host's root"),

	open("ns-user", "a user namespace by unshare and clone"),
	open("ns-user-clone3", "namespaces by clone3"),
	contained("ns-others", "the seven other namespaces"),
	contained("ns-setns", "entering namespaces"),
	contained("ns-setns-pidfd", "entering them by a pidfd"),
	contained("ns-relatives", "the parent and the owner of a namespace"),
	contained("ns-uid-map", "changing the maps of users and groups"),
	contained("mount-bind", "bind and moved mounts"),
	contained("mount-file-systems", "mounting 17 kinds of file systems"),
	contained("mount-remount", "mounting again what is read-only"),
	contained("mount-umount", "taking masks away"),
	contained("mount-pivot", "pivot_root and chroot"),
	contained("mount-new-calls", "fsopen, fspick, open_tree, move_mount and theirs"),
	contained("mount-attributes", "mount_setattr"),
	contained("mount-helpers", "mount, umount, fusermount and nsenter"),
	contained("mount-fuse", "/dev/fuse"),

	open("ptrace-traceme", "a child that asks to be traced", Strict, Networked),
	open("ptrace-attach", "attaching to a child", Strict, Networked),
	open("ptrace-memory", "a child's memory by process_vm_readv and writev", Strict, Networked),
	contained("ptrace-kcmp", "kcmp and process_madvise", Strict, Networked),
	open("ptrace-pidfd-getfd", "a child's descriptors"),
	contained("ptrace-init", "tracing the cage's first process"),
	contained("pid-init-files", "its memory, descriptors, environment and maps"),
	contained("pid-init-descriptors", "its descriptors, one by one"),
	contained("pid-threads", "its threads"),
	open("pid-host-hidden", "seeing processes of the host"),
	open("pid-host-signal", "signals to them"),
	contained("pid-kill-init", "all 64 signals to the cage's first process"),
	contained("exe-overwrite", "overwriting the program of init or of the supervisor").cve("CVE-2019-5736"),
	contained("exe-interpreter", "having it run as an interpreter").cve("CVE-2019-5736"),
	open("fd-leak", "descriptors of the supervisor's").cve("CVE-2024-21626"),
	contained("env-leak", "the supervisor's environment"),
	open("env-leak-proc", "the environment of any process"),
	contained("prio-raise", "priority over others"),
	contained("prio-oom", "being spared when memory runs out"),
	open("core-off", "core dumps"),
	open("core-raise", "raising that limit"),
	contained("prctl-mm", "passing for another program"),

	contained("cross-processes", "seeing another cage's processes", Neighbours),
	contained("cross-tmp", "seeing another cage's files", Neighbours),
	contained("cross-shm", "sharing memory with another cage", Neighbours),
	contained("cross-abstract", "another cage's abstract sockets", Neighbours),
	contained("cross-loopback", "another cage's ports", Neighbours),

	contained("lim-processes", "a fork bomb", Limited),
	contained("lim-memory", "taking all memory", Limited),
	contained("lim-tmpfs", "filling /tmp", Limited),
	contained("lim-tmpfs-memory", "filling /tmp beyond the memory of the cage", Limited),
	contained("lim-inodes", "as many empty files in /tmp as there can be", Limited),
	contained("lim-shm", "filling /dev/shm", Limited),
	contained("lim-disk", "writing more to the project than is allowed", Limited),
	contained("lim-disk-mapped", "writing more by mapping a file that has neither a name nor a descriptor", Limited),
	contained("lim-walltime", "staying on, deaf to SIGTERM", Limited),
	contained("lim-orphans", "leaving processes behind", Limited),

	contained("sys-keyring", "keys of the kernel's"),
	contained("sys-io-uring", "io_uring"),
	contained("sys-userfaultfd", "userfaultfd"),
	contained("sys-bpf", "bpf"),
	contained("sys-perf", "perf_event_open"),
	contained("sys-fanotify", "fanotify"),
	open("sys-aio", "asynchronous I/O, whose events are counted for the whole machine"),
	contained("sys-inotify", "as many inotify instances as the host gives a user"),
	open("sys-memory-tricks", "vmsplice, remap_file_pages and memfd_secret"),
	contained("sys-quota", "quotactl, acct and syslog"),
	contained("sys-modules", "kernel modules"),
	contained("sys-kexec", "another kernel"),
	contained("sys-reboot", "reboot"),
	contained("sys-swap", "swap"),
	contained("sys-clock", "the clocks"),
	contained("sys-hostname", "the host name"),
	open("sys-personality", "personalities that turn protection off"),
	contained("sys-tiocsti", "typing into the terminal").cve("CVE-2017-5226"),
	contained("sys-tiocsti-high", "the same with a bit above the low 32").cve("CVE-2019-10063"),
	contained("sys-tiocsti-signed", "the same with the sign extended").cve("CVE-2019-10063"),
	contained("sys-tioclinux", "pasting on the console").cve("CVE-2023-28100"),
	contained("sys-ports", "I/O ports").amd64(),
	open("sys-i386", "system calls of 32-bit programs").amd64(),
	contained("sys-x32", "system calls of x32 programs").amd64(),
	contained("sys-numa", "moving others' memory"),
	contained("sys-obsolete", "calls that nobody needs"),
	contained("sys-ioctl-block", "freezing file systems"),

	open("net-host-loopback", "services on the host's loopback"),
	open("net-host-loopback6", "the same by IPv6"),
	open("net-abstract", "abstract sockets of the host"),
	open("net-path-socket", "unix sockets of the host"),
	contained("net-any-socket", "any socket in sight"),
	contained("net-direct-ip", "public addresses"),
	contained("net-ipv6", "public and mapped IPv6 addresses"),
	contained("net-metadata", "the cloud's metadata services"),
	contained("net-private", "private networks"),
	contained("net-fake-range", "the addresses that stand for names"),
	contained("net-udp", "UDP to resolvers outside"),
	contained("net-multicast", "multicast and broadcast"),
	contained("net-raw", "raw sockets"),
	contained("net-packet", "packet sockets").cve("CVE-2020-14386"),
	contained("net-vsock", "vsock, which knows no namespaces"),
	contained("net-alg", "the kernel's ciphers"),
	contained("net-families", "every other family of sockets"),
	contained("net-protocols", "protocols that nobody needs"),
	open("net-netlink", "netlink but for routes"),
	open("net-diag", "the sockets of others"),
	contained("net-config", "changing the network by ioctl"),
	contained("net-config-netlink", "changing it by netlink"),
	contained("net-interfaces", "interfaces but loopback"),
	contained("net-icmp", "echo requests"),
	contained("net-name-denied", "names that no rule allows"),
	contained("net-name-tunnel", "data in names, by eight kinds of queries"),
	contained("net-name-odd", "names that confuse: NUL, loops, long labels, likeness"),
	contained("net-tun", "a tunnel device"),
	contained("net-options", "privileged socket options"),
	contained("net-denied-port", "other ports of an allowed host", Networked),

	contained("open-alert", "another site by TLS, a warning alert first", Named),
	contained("open-alert-version", "the same with an alert of version 0.1", Named),
	contained("open-version-high", "another site by a record of version 4.1", Named),
	contained("open-version-highest", "another site by a record of version 15.1", Named),
	contained("open-version-low", "another site by a record of version 1.1", Named),
	contained("open-version-zero", "another site by a record of version 0.1", Named),
	contained("open-change-cipher", "another site by TLS, a ChangeCipherSpec first", Named),
	contained("open-heartbeat", "another site by TLS, a heartbeat first", Named),
	contained("open-ssl2", "a ClientHello of SSL 2", Named),
	contained("open-method", "another site by a method of 33 letters", Named),
	contained("open-method-long", "another site by a method of 9000 letters", Named),
	contained("open-h2c", "another site by HTTP/2 without TLS", Named),
	contained("open-blank", "another site by a request behind a blank", Named),
	contained("open-proxy", "another site by a request behind a header of the PROXY protocol", Named),
}
