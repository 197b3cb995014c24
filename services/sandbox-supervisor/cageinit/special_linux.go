package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/mounts"
)

// devices makes /dev: a few harmless devices and a private terminal file system.
func (b *builder) devices() error {
	for _, node := range b.nodes {
		node.path = "/dev/" + node.path
		if err := b.attach(node); err != nil {
			return err
		}
	}
	if err := b.place(source{path: "/dev/pts", kind: unix.S_IFDIR}); err != nil {
		return err
	}
	options := "newinstance,max=1024,ptmxmode=0666,mode=0620,gid=" + strconv.Itoa(b.base.GID)
	if err := unix.Mount("devpts", "dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("devpts: %w", err)
	}
	for name, to := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2",
	} {
		if err := unix.Symlinkat(to, b.top, "dev/"+name); err != nil {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	return nil
}

var (
	// maskedProc are files about the machine or its kernel that no command needs.
	maskedProc = []string{
		"kcore", "keys", "kallsyms", "kmsg", "timer_list", "sched_debug", "latency_stats", "config.gz", "modules",
		"kpagecount", "kpageflags", "kpagecgroup", "vmallocinfo", "slabinfo", "iomem", "ioports",
	}
	// fixedProc are paths of /proc with settings.
	fixedProc = []string{"sys", "irq", "bus", "fs", "sysrq-trigger", "acpi", "asound", "scsi"}
	// nested are the kinds of namespaces that a cage may not create.
	nested = []string{"user", "mnt", "net", "pid", "uts", "ipc", "cgroup", "time"}
)

// inotifyShare is the divisor of the host's inotify limits for one cage: each gets a quarter. The host counts all
// namespaces of a user together, so a cage without a limit could use up all. There is no config key: raise
// fs.inotify.max_user_watches and max_user_instances of the host, which every cage follows.
const inotifyShare = 4

// bound is an open sysctl of the cage's user namespace and its new value.
type bound struct {
	fd    int
	value string
}

// bounds opens the sysctls with this namespace's limits. Some kernels lack some of them.
func (b *builder) bounds() error {
	values := map[string]string{}
	for _, name := range nested {
		values["max_"+name+"_namespaces"] = "0"
	}
	for name, of := range map[string]string{
		"max_inotify_instances": "max_user_instances", "max_inotify_watches": "max_user_watches",
	} {
		text, err := os.ReadFile("proc/sys/fs/inotify/" + of)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without inotify
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return &layerError{layer: blueprint.LayerUser, err: fmt.Errorf("%s: %w", of, err)}
		}
		values[name] = strconv.Itoa(max(n/inotifyShare, 1))
	}
	for name, value := range values {
		fd, err := unix.Open("proc/sys/user/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return &layerError{layer: blueprint.LayerUser, err: fmt.Errorf("%s: %w", name, err)}
		}
		b.sysctls = append(b.sysctls, bound{fd, value})
	}
	return nil
}

// proc mounts /proc for the processes of the cage, covers files that reveal the host, and makes settings read-only.
func (b *builder) proc() error {
	if err := b.place(source{path: "/proc", kind: unix.S_IFDIR}); err != nil {
		return err
	}
	if err := unix.Mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=2"); err != nil {
		return fmt.Errorf("mounting proc: %w", err)
	}
	if b.base.Userns { // in another case they belong to the host
		if err := b.bounds(); err != nil {
			return err
		}
	}
	null, err := b.at("/dev/null")
	if err != nil {
		return err
	}
	defer unix.Close(null)
	for _, name := range maskedProc {
		if err := b.mask(null, "/proc/"+name); err != nil {
			return fmt.Errorf("/proc/%s: %w", name, err)
		}
	}
	for _, name := range fixedProc {
		tree, _, err := openTree(b.top, "proc/"+name, mounts.ReadOnly|unix.MOUNT_ATTR_NOEXEC)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			_, err = b.cover(source{path: "/proc/" + name, tree: tree})
			unix.Close(tree)
		}
		if err != nil {
			return fmt.Errorf("/proc/%s: %w", name, err)
		}
	}
	return nil
}

// mask covers an existing file with the null device.
func (b *builder) mask(null int, p string) error {
	target, err := b.at(p)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(target)
	tree, err := unix.OpenTree(null, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return mounts.Attach(tree, target)
}

// bind writes the limits of this namespace: no new namespaces in the cage, even if a system call filter permits them,
// and its share of the host's inotify. It runs after the last mount, because a detached mount counts as a namespace.
func (b *builder) bind() error {
	for _, s := range b.sysctls {
		if _, err := unix.Write(s.fd, []byte(s.value)); err != nil {
			return fmt.Errorf("bounding namespaces and inotify: %w", err)
		}
	}
	return nil
}
