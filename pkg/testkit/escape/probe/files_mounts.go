//go:build linux

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is a line of mountinfo.
type mount struct{ at, kind string }

func mounts() (all []mount) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		m := mount{at: f[4]}
		for i, x := range f {
			if x == "-" {
				m.kind = f[i+1]
			}
		}
		all = append(all, m)
	}
	return all
}

func under(path string, dirs ...string) bool {
	for _, d := range dirs {
		if path == d || strings.HasPrefix(path, d+"/") {
			return true
		}
	}
	return false
}

// own are a cage's private folders.
func own() []string {
	return []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/home", os.Getenv("HOME")}
}

func fsMountsWritable() *report {
	r := attack()
	for _, m := range mounts() {
		if under(m.at, params.Work, params.Open, params.File) && !under(m.at, params.Sealed) ||
			under(m.at, own()...) && !under(m.at, params.Project) {
			continue
		}
		r.created(filepath.Join(m.at, "escape-probe"))
	}
	return r
}

func fsMountsFlags() *report {
	r := attack()
	for _, m := range mounts() {
		var s unix.Statfs_t
		if err := unix.Statfs(m.at, &s); err != nil {
			continue
		}
		r.saw(m.at+" with set-id programs", s.Flags&unix.ST_NOSUID == 0)
		if !under(m.at, "/dev", "/proc") { // a masked file of /proc is /dev/null
			r.saw(m.at+" with devices", s.Flags&unix.ST_NODEV == 0)
		}
	}
	return r
}

func fsMknod() *report {
	r := attack()
	for _, dir := range []string{params.Work, "/tmp", "/dev/shm", "/dev"} {
		for name, node := range map[string]struct {
			mode uint32
			dev  int
		}{
			"memory": {unix.S_IFCHR, int(unix.Mkdev(1, 1))}, "disk": {unix.S_IFBLK, int(unix.Mkdev(8, 0))},
			"whiteout": {unix.S_IFCHR, 0}, "kmsg": {unix.S_IFCHR, int(unix.Mkdev(1, 11))},
		} {
			path := filepath.Join(dir, "escape-"+name)
			err := unix.Mknod(path, node.mode|0o600, node.dev)
			r.try(name+" in "+dir, err)
			_ = os.Remove(path)
		}
	}
	return r
}

func fsDev() *report {
	r := attack()
	harmless := map[string]bool{
		"null":    true,
		"zero":    true,
		"full":    true,
		"random":  true,
		"urandom": true,
		"tty":     true,
		"ptmx":    true,
	}
	entries, err := os.ReadDir("/dev")
	if err != nil {
		fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode()&fs.ModeDevice != 0 {
			if !harmless[e.Name()] {
				r.try("the device "+e.Name(), nil)
			}
		}
	}
	for _, name := range []string{
		"mem", "kmem", "port", "kmsg", "fuse", "kvm", "vsock", "vhost-vsock", "net/tun", "loop-control", "console",
		"snapshot", "uinput", "hpet", "rtc0", "nvram", "cpu/0/msr", "vda", "sda",
	} {
		_, err := unix.Open("/dev/"+name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		r.try("/dev/"+name, err)
	}
	return r
}

func fsOpenByHandle() *report {
	r := attack()
	root, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	// The handle of an ext4 root: inode 2, generation 0.
	_, err = unix.OpenByHandleAt(root, unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}), unix.O_RDONLY)
	r.entered("open_by_handle_at", err)
	_, _, err = unix.NameToHandleAt(unix.AT_FDCWD, params.Work, 0)
	r.entered("name_to_handle_at", err)
	return r
}

func fsCgroup() *report {
	r := attack()
	r.try("/sys/fs/cgroup", unix.Access("/sys/fs/cgroup", unix.R_OK))
	for _, m := range mounts() {
		r.saw("a cgroup file system at "+m.at, strings.HasPrefix(m.kind, "cgroup"))
	}
	for _, file := range []string{"release_agent", "cgroup.procs", "memory.max", "notify_on_release"} {
		found, _ := filepath.Glob("/sys/fs/cgroup/*/" + file)
		more, _ := filepath.Glob("/sys/fs/cgroup/" + file)
		for _, f := range append(found, more...) {
			r.try(f, unix.Access(f, unix.W_OK))
		}
	}
	text, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		r.saw("host's cgroup path "+parts[2], len(parts) == 3 && strings.Contains(parts[2], "kaged"))
	}
	return r
}

func fsSysfs() *report {
	r := attack()
	for _, path := range []string{
		"/sys/kernel", "/sys/firmware", "/sys/class", "/sys/devices", "/sys/module", "/sys/kernel/debug",
		"/sys/kernel/security", "/sys/fs/bpf", "/sys/power",
	} {
		r.try(path, unix.Access(path, unix.R_OK))
	}
	return r
}

func fsAttributes() *report {
	r := attack()
	path := link("attributes")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	// The owner outside could not remove immutable files.
	r.try("FS_IMMUTABLE_FL", unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x10))
	r.try("FS_APPEND_FL", unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x20))
	unix.Close(fd)
	_ = os.Remove(path)
	return r
}
