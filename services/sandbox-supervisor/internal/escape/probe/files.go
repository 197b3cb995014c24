//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	add(map[string]func() *report{
		"fs-absolute":         fsAbsolute,
		"fs-write-absolute":   fsWriteAbsolute,
		"fs-sibling":          fsSibling,
		"fs-list-outside":     fsListOutside,
		"fs-dotdot":           fsDotdot,
		"fs-proc-self":        fsProcSelf,
		"fs-symlink":          fsSymlink,
		"fs-symlink-parent":   fsSymlinkParent,
		"fs-hardlink":         fsHardlink,
		"fs-symlink-race":     fsSymlinkRace,
		"fs-rename-out":       fsRenameOut,
		"fs-home":             fsHome,
		"fs-host-tmp":         fsHostTmp,
		"fs-host-shm":         fsHostShm,
		"fs-host-run":         fsHostRun,
		"fs-ro-grant":         fsReadOnlyGrant,
		"fs-ro-nested":        fsReadOnlyNested,
		"fs-ro-replace":       fsReadOnlyReplace,
		"fs-ro-descriptor":    fsReadOnlyDescriptor,
		"fs-ro-system":        fsReadOnlySystem,
		"fs-ro-root":          fsReadOnlyRoot,
		"fs-file-neighbours":  fsFileNeighbours,
		"fs-mounts-writable":  fsMountsWritable,
		"fs-mounts-flags":     fsMountsFlags,
		"fs-mknod":            fsMknod,
		"fs-dev":              fsDev,
		"fs-open-by-handle":   fsOpenByHandle,
		"fs-setid":            fsSetid,
		"fs-setid-create":     fsSetidCreate,
		"fs-setid-mkdir":      fsSetidMkdir,
		"fs-file-caps":        fsFileCaps,
		"fs-chown":            fsChown,
		"fs-protected":        fsProtected,
		"fs-protected-fresh":  fsProtectedFresh,
		"fs-protected-rename": fsProtectedRename,
		"fs-protected-link":   fsProtectedLink,
		"fs-cgroup":           fsCgroup,
		"fs-sysfs":            fsSysfs,
		"fs-attributes":       fsAttributes,
	})
}

// hidden tries to read a file, and to find the secret in it.
func (r *report) hidden(path string) {
	text, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(text, []byte(params.Secret)) {
		err = errors.New("something else is there")
	}
	r.try("reading "+path, err)
}

// written tries to change a file that is there, without leaving a trace of its own in one that is not.
func (r *report) written(path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString("changed by the probe\n")
		f.Close()
	}
	r.try("writing "+path, err)
}

// created tries to make a file and removes it.
func (r *report) created(path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
		_ = os.Remove(path)
	}
	r.try("creating "+path, err)
}

func fsAbsolute() *report {
	r := attack()
	r.hidden(params.Canary)
	return r
}

func fsWriteAbsolute() *report {
	r := attack()
	r.written(params.Canary)
	r.created(params.Canary + ".new")
	r.try("truncating one", unix.Truncate(params.Canary+".victim", 0))
	r.try("removing it", os.Remove(params.Canary+".victim"))
	return r
}

func fsSibling() *report {
	r := attack()
	r.hidden(params.Sibling)
	r.written(params.Sibling)
	r.try("looking at it", unix.Access(params.Sibling, unix.F_OK))
	return r
}

func fsListOutside() *report {
	r := attack()
	for _, dir := range []string{filepath.Dir(params.Canary), filepath.Dir(params.Sibling)} {
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); path == params.Canary || path == params.Sibling {
				r.try("seeing "+path, nil)
			}
		}
		if err == nil {
			err = errors.New("nothing of it is listed")
		}
		r.try("listing "+dir, err)
	}
	return r
}

func fsDotdot() *report {
	r := attack()
	up := strings.Repeat("../", 40)
	for _, start := range []string{params.Work + "/", params.Docs + "/./", params.Open + "//", "/proc/self/cwd/", "/tmp/"} {
		r.hidden(start + up + strings.TrimPrefix(params.Canary, "/"))
	}
	rel, err := filepath.Rel(params.Work, params.Sibling)
	if err != nil {
		fatal(err)
	}
	r.hidden(params.Work + "/" + rel)
	r.hidden("/.//../." + params.Canary)
	return r
}

func fsProcSelf() *report {
	r := attack()
	for _, dir := range []string{"/proc/self/root", "/proc/thread-self/root", "/proc/1/root", "/proc/self/cwd/../../../../../../../..", "/dev/fd/../root"} {
		r.hidden(dir + params.Canary)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		for _, dir := range []string{"/root", "/cwd"} {
			r.hidden(p + dir + params.Canary)
		}
		files, _ := filepath.Glob(p + "/fd/*")
		for _, f := range files {
			r.hidden(f + "/" + filepath.Base(params.Canary))
			r.hidden(f + params.Canary)
		}
	}
	return r
}

// link is where a case may leave a link.
func link(name string) string { return filepath.Join(params.Work, "escape-"+name) }

func fsSymlink() *report {
	r := attack()
	for name, target := range map[string]string{
		"absolute": params.Canary, "root": "/", "sibling": params.Sibling, "magic": "/proc/self/root" + params.Canary,
		"relative": strings.Repeat("../", 40) + strings.TrimPrefix(params.Canary, "/"),
	} {
		from := link(name)
		_ = os.Remove(from)
		if err := os.Symlink(target, from); err != nil {
			fatal(err)
		}
		if name == "root" {
			r.hidden(from + params.Canary)
		} else {
			r.hidden(from)
			r.written(from)
		}
		_ = os.Remove(from)
	}
	return r
}

func fsSymlinkParent() *report {
	r := attack()
	// A folder that becomes a link between two steps of the same walk.
	dir := link("parent")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	_ = os.Remove(dir)
	if err := os.Symlink(filepath.Dir(params.Canary), dir); err != nil {
		fatal(err)
	}
	r.hidden(filepath.Join(dir, filepath.Base(params.Canary)))
	_, err = unix.Openat(fd, "../"+filepath.Base(dir)+"/"+filepath.Base(params.Canary), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	r.try("by a folder that is gone", err)
	_ = os.Remove(dir)
	return r
}

func fsHardlink() *report {
	r := attack()
	for name, target := range map[string]string{"canary": params.Canary, "sibling": params.Sibling, "passwd": "/etc/passwd", "page": filepath.Join(params.Docs, "page")} {
		from := link("hard-" + name)
		_ = os.Remove(from)
		r.try("linking "+target, os.Link(target, from))
		r.try("linking what it points to", unix.Linkat(unix.AT_FDCWD, target, unix.AT_FDCWD, from+"2", unix.AT_SYMLINK_FOLLOW))
		_, _ = os.Remove(from), os.Remove(from+"2")
	}
	return r
}

// raceRounds is how often a link is changed to the secret and back.
const raceRounds = 400

func fsSymlinkRace() *report {
	r := attack()
	at, harmless, evil := link("race"), link("race-harmless"), link("race-evil")
	if err := os.WriteFile(harmless, []byte("harmless"), 0o600); err != nil {
		fatal(err)
	}
	var swaps atomic.Int64
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := range 2 * raceRounds {
			target := harmless
			if i%2 == 1 {
				target = params.Canary
			}
			_ = os.Remove(evil)
			_ = os.Symlink(target, evil)
			_ = os.Rename(evil, at)
			swaps.Store(int64(i))
		}
	}()
	seen, reads := 0, 0
	for ; swaps.Load() < 2*raceRounds-1; reads++ {
		text, err := os.ReadFile(at)
		if err == nil && bytes.Contains(text, []byte(params.Secret)) {
			seen++
		}
	}
	<-stopped
	r.saw(fmt.Sprintf("secret in %d of %d reads", seen, reads), seen > 0)
	_, _, _ = os.Remove(at), os.Remove(evil), os.Remove(harmless)
	return r
}

func fsRenameOut() *report {
	r := attack()
	from := link("rename")
	if err := os.WriteFile(from, []byte("planted"), 0o600); err != nil {
		fatal(err)
	}
	for _, to := range []string{params.Canary + ".planted", filepath.Join(params.Docs, "planted"), params.Sibling + ".planted", "/etc/planted", "/usr/bin/planted"} {
		r.try("moving a file to "+to, os.Rename(from, to))
		r.try("exchanging it", unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, filepath.Dir(to), unix.RENAME_EXCHANGE))
	}
	_ = os.Remove(from)
	return r
}

func fsHome() *report {
	r := attack()
	for _, home := range []string{"/root", "/home", filepath.Dir(params.Canary)} {
		entries, err := os.ReadDir(home)
		for _, e := range entries {
			if path := filepath.Join(home, e.Name()); path != os.Getenv("HOME") {
				r.try("seeing "+path, nil)
			}
		}
		if err == nil {
			err = errors.New("nothing but its own is listed")
		}
		r.try("listing "+home, err)
	}
	for _, file := range []string{"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/machine-id", "/etc/ssh/sshd_config", "/etc/ssl/private", "/root/.ssh/authorized_keys", "/root/.bash_history", "/var/lib/dpkg/status", "/var/log/dpkg.log"} {
		text, err := os.ReadFile(file)
		if err == nil && len(text) == 0 {
			err = errors.New("empty")
		}
		r.try(file, err)
	}
	return r
}

func fsHostTmp() *report {
	r := attack()
	r.hidden(params.HostTmp)
	r.written(params.HostTmp)
	return r
}

func fsHostShm() *report {
	r := attack()
	r.hidden("/dev/shm/" + params.HostShm)
	id, err := result(unix.SYS_SHMGET, params.SysV, 4096, 0o600)
	r.try("the segment of the host", err)
	if err == nil {
		_, err = result(unix.SYS_SHMAT, id, 0, 0)
		r.try("attaching it", err)
	}
	return r
}

func fsHostRun() *report {
	r := attack()
	for _, path := range []string{"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/systemd", "/run/dbus", "/run/user", params.Socket} {
		r.try(path, unix.Access(path, unix.F_OK))
	}
	return r
}

func fsReadOnlyGrant() *report {
	r := attack()
	page := filepath.Join(params.Docs, "page")
	r.created(filepath.Join(params.Docs, "new"))
	r.written(page)
	r.try("the right to write", unix.Access(params.Docs, unix.W_OK))
	err := os.Rename(page, page+"2")
	r.try("renaming", err)
	if err == nil {
		_ = os.Rename(page+"2", page)
	}
	r.try("chmod", os.Chmod(page, 0o777))
	r.try("utimes", unix.Utimes(page, []unix.Timeval{{}, {}}))
	r.try("an attribute", unix.Setxattr(page, "user.probe", []byte("x"), 0))
	r.try("a folder", os.Mkdir(filepath.Join(params.Docs, "folder"), 0o755))
	return r
}

func fsReadOnlyNested() *report {
	r := attack()
	r.created(filepath.Join(params.Sealed, "new"))
	r.written(filepath.Join(params.Sealed, "page"))
	r.try("removing", os.Remove(filepath.Join(params.Sealed, "victim")))
	// What lies between a granted folder and one in it with other rights is of the granted one.
	r.created(filepath.Join(filepath.Dir(params.Open), "new"))
	return r
}

func fsReadOnlyReplace() *report {
	r := attack()
	away := link("sealed")
	err := os.Rename(params.Sealed, away)
	r.try("moving the read-only folder away", err)
	if err == nil {
		_ = os.Rename(away, params.Sealed)
	}
	r.try("removing it", unix.Rmdir(params.Sealed))
	r.try("a link in its place", os.Symlink("/tmp", params.Sealed))
	// What stands at its place would be read by those who trust it.
	r.try("exchanging it", unix.Renameat2(unix.AT_FDCWD, params.Sealed, unix.AT_FDCWD, params.Open, unix.RENAME_EXCHANGE))
	return r
}

func fsReadOnlyDescriptor() *report {
	r := attack()
	page := filepath.Join(params.Docs, "page")
	for name, flags := range map[string]int{"O_PATH": unix.O_PATH, "O_RDONLY": unix.O_RDONLY} {
		fd, err := unix.Open(page, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			fatal(err)
		}
		again := fmt.Sprintf("/proc/self/fd/%d", fd)
		_, err = unix.Open(again, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		r.try("opening an "+name+" descriptor for writing", err)
		r.try("truncating by it", unix.Truncate(again, 1<<10))
		r.try("linking it where one may write", unix.Linkat(fd, "", unix.AT_FDCWD, link("descriptor"), unix.AT_EMPTY_PATH))
		r.try("linking it by its name", unix.Linkat(unix.AT_FDCWD, again, unix.AT_FDCWD, link("descriptor"), unix.AT_SYMLINK_FOLLOW))
		_ = os.Remove(link("descriptor"))
		unix.Close(fd)
	}
	fd, err := unix.Open(page, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	defer unix.Close(fd)
	_, err = unix.Mmap(fd, 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	r.try("mapping it for writing", err)
	r.try("fchmod", unix.Fchmod(fd, 0o777))
	return r
}

func fsReadOnlySystem() *report {
	r := attack()
	for _, dir := range []string{"/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/bin", "/sbin", "/lib", "/etc", "/etc/ssl", "/opt", "/var", "/dev", "/proc", "/run/..", "/home"} {
		r.created(filepath.Join(dir, "escape-probe"))
	}
	for _, file := range []string{"/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/etc/ld.so.cache", "/bin/sh"} {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		r.try("opening "+file+" for writing", err)
	}
	return r
}

func fsReadOnlyRoot() *report {
	r := attack()
	r.created("/escape-probe")
	r.try("a folder", os.Mkdir("/escape-probe", 0o755))
	// The folders above the granted ones are nobody's to write to.
	for dir := filepath.Dir(params.Project); dir != "/" && dir != "/tmp"; dir = filepath.Dir(dir) {
		r.created(filepath.Join(dir, "escape-probe"))
	}
	r.created(filepath.Join(params.Project, "escape-probe"))
	return r
}

func fsFileNeighbours() *report {
	r := attack()
	dir := filepath.Dir(params.File)
	r.created(filepath.Join(dir, "escape-probe"))
	r.hidden(filepath.Join(dir, "neighbour"))
	err := os.Rename(params.File, params.File+"2")
	r.try("moving the granted file", err)
	if err == nil {
		_ = os.Rename(params.File+"2", params.File)
	}
	return r
}

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

// own are the folders that a cage has for itself.
func own() []string {
	return []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/home", os.Getenv("HOME")}
}

func fsMountsWritable() *report {
	r := attack()
	for _, m := range mounts() {
		if under(m.at, params.Work, params.Open, params.File) && !under(m.at, params.Sealed) || under(m.at, own()...) && !under(m.at, params.Project) {
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
		if !under(m.at, "/dev", "/proc") { // a mask of /proc is /dev/null
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
		}{"memory": {unix.S_IFCHR, int(unix.Mkdev(1, 1))}, "disk": {unix.S_IFBLK, int(unix.Mkdev(8, 0))}, "whiteout": {unix.S_IFCHR, 0}, "kmsg": {unix.S_IFCHR, int(unix.Mkdev(1, 11))}} {
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
	harmless := map[string]bool{"null": true, "zero": true, "full": true, "random": true, "urandom": true, "tty": true, "ptmx": true}
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
	for _, name := range []string{"mem", "kmem", "port", "kmsg", "fuse", "kvm", "vsock", "vhost-vsock", "net/tun", "loop-control", "console", "snapshot", "uinput", "hpet", "rtc0", "nvram", "cpu/0/msr", "vda", "sda"} {
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

// setid are modes that would let another become the owner of a file.
var setid = []uint32{0o4755, 0o2755, 0o6755, 0o4000, 0o6777, 0o7711}

// bits returns an error unless a file has set-id bits.
func bits(path string) error {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return err
	}
	if s.Mode&0o6000 == 0 {
		return errors.New("the bits are not set")
	}
	return nil
}

func fsSetid() *report {
	r := attack()
	path := link("setid")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	for _, mode := range setid {
		for name, change := range map[string]func() error{
			"chmod":     func() error { return call(sysChmod, path, int(mode)) },
			"fchmod":    func() error { return call(unix.SYS_FCHMOD, fd, int(mode)) },
			"fchmodat":  func() error { return call(unix.SYS_FCHMODAT, unix.AT_FDCWD, path, int(mode)) },
			"fchmodat2": func() error { return call(unix.SYS_FCHMODAT2, unix.AT_FDCWD, path, int(mode), 0) },
			"high bits": func() error { return call(unix.SYS_FCHMODAT, unix.AT_FDCWD, path, int(mode)|1<<40) },
		} {
			err := change()
			if err == nil {
				err = bits(path)
			}
			r.try(fmt.Sprintf("%s %o", name, mode), err)
			_ = unix.Chmod(path, 0o755)
		}
	}
	_ = os.Remove(path)
	return r
}

func fsSetidCreate() *report {
	r := attack()
	for _, mode := range setid {
		for name, create := range map[string]func(path string) error{
			"open": func(path string) error { return call(sysOpen, path, unix.O_CREAT|unix.O_WRONLY, int(mode)) },
			"openat": func(path string) error {
				return call(unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_CREAT|unix.O_WRONLY, int(mode))
			},
			"openat2": func(path string) error {
				how := unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: uint64(mode)}
				return call(unix.SYS_OPENAT2, unix.AT_FDCWD, path, unsafe.Pointer(&how), int(unsafe.Sizeof(how)))
			},
			"creat":   func(path string) error { return call(sysCreat, path, int(mode)) },
			"mknod":   func(path string) error { return call(sysMknod, path, unix.S_IFREG|int(mode), 0) },
			"mknodat": func(path string) error { return call(unix.SYS_MKNODAT, unix.AT_FDCWD, path, unix.S_IFREG|int(mode), 0) },
			"tmpfile": func(path string) error {
				fd, err := result(unix.SYS_OPENAT, unix.AT_FDCWD, params.Work, unix.O_TMPFILE|unix.O_RDWR, int(mode))
				if err != nil {
					return err
				}
				return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
			},
		} {
			path := link("setid-" + name)
			_ = os.Remove(path)
			err := create(path)
			if err == nil {
				err = bits(path)
			}
			r.try(fmt.Sprintf("%s %o", name, mode), err)
			_ = os.Remove(path)
		}
	}
	return r
}

func fsSetidMkdir() *report {
	r := attack()
	// A set-group-id folder hands its group down.
	path := link("setid-folder")
	for name, create := range map[string]func() error{
		"mkdir":   func() error { return call(sysMkdir, path, 0o2777) },
		"mkdirat": func() error { return call(unix.SYS_MKDIRAT, unix.AT_FDCWD, path, 0o2777) },
	} {
		_ = os.Remove(path)
		err := create()
		if err == nil {
			err = bits(path)
		}
		r.try(name, err)
	}
	_ = os.Mkdir(path, 0o755)
	err := unix.Chmod(path, 0o2777)
	if err == nil {
		err = bits(path)
	}
	r.try("chmod", err)
	_ = os.Remove(path)
	return r
}

func fsFileCaps() *report {
	r := attack()
	path := link("caps")
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		fatal(err)
	}
	// Revision 2: effective, all permitted.
	all := []byte{1, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 1, 0, 0, 0, 0, 0, 0}
	r.try("capabilities on a file", unix.Setxattr(path, "security.capability", all, 0))
	r.try("a trusted attribute", unix.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0))
	_ = os.Remove(path)
	return r
}

func fsChown() *report {
	r := attack()
	path := link("chown")
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		fatal(err)
	}
	for _, id := range []int{0, 1, 65534, 12345} {
		if id == os.Getuid() {
			continue
		}
		r.try(fmt.Sprint("giving a file to ", id), unix.Lchown(path, id, id))
	}
	_ = os.Remove(path)
	return r
}

// planted tries to make a file that tools outside the cage would run, and returns to what was.
func (r *report) planted(path string) {
	_, before := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o755)
	if err == nil {
		_, err = f.WriteString("\n# planted\n")
		f.Close()
	}
	r.try("writing "+path, err)
	if err == nil && before != nil {
		_ = os.Remove(path)
	}
}

func fsProtected() *report {
	r := attack()
	git := filepath.Join(params.Repository, ".git")
	r.planted(filepath.Join(git, "hooks", "pre-commit"))
	r.planted(filepath.Join(git, "hooks", "post-checkout"))
	r.planted(filepath.Join(git, "config"))
	r.planted(filepath.Join(params.Work, ".kaged", "project.yaml"))
	return r
}

func fsProtectedFresh() *report {
	r := attack()
	// What is not there yet must not come (CVE-2026-25725).
	r.try("a repository", os.MkdirAll(filepath.Join(params.Work, ".git", "hooks"), 0o755))
	r.planted(filepath.Join(params.Work, ".git", "hooks", "pre-commit"))
	r.planted(filepath.Join(params.Work, ".git", "config"))
	_, before := os.Lstat(filepath.Join(params.Work, ".kaged", "prompts"))
	r.try("a folder in .kaged", os.MkdirAll(filepath.Join(params.Work, ".kaged", "prompts"), 0o755))
	if before != nil {
		_ = os.Remove(filepath.Join(params.Work, ".kaged", "prompts"))
	}
	return r
}

func fsProtectedRename() *report {
	r := attack()
	git := filepath.Join(params.Repository, ".git")
	evil := link("evil")
	if err := os.MkdirAll(filepath.Join(evil, "hooks"), 0o755); err != nil {
		fatal(err)
	}
	for _, path := range []string{filepath.Join(git, "hooks"), filepath.Join(git, "config"), filepath.Join(params.Work, ".kaged")} {
		r.try("moving "+path, os.Rename(path, link("moved")))
		r.try("exchanging "+path, unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, evil, unix.RENAME_EXCHANGE))
		r.try("replacing "+path, os.Rename(evil, path))
	}
	// Moving what is above would take the protection along; a new one could be made in its place.
	err := os.Rename(git, link("moved-git"))
	if err == nil {
		_ = os.Rename(link("moved-git"), git)
	}
	r.try("moving "+git, err)
	_ = os.RemoveAll(evil)
	return r
}

func fsProtectedLink() *report {
	r := attack()
	git := filepath.Join(params.Repository, ".git")
	for _, path := range []string{filepath.Join(git, "hooks"), filepath.Join(git, "config"), filepath.Join(params.Work, ".kaged"), filepath.Join(params.Work, ".git")} {
		r.try("removing "+path, os.Remove(path))
		r.try("a link at "+path, os.Symlink("/tmp", path))
	}
	r.try("a hard link to the hooks", os.Link(filepath.Join(git, "config"), link("config")))
	_ = os.Remove(link("config"))
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
	for _, path := range []string{"/sys/kernel", "/sys/firmware", "/sys/class", "/sys/devices", "/sys/module", "/sys/kernel/debug", "/sys/kernel/security", "/sys/fs/bpf", "/sys/power"} {
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
	// Immutable files could not be removed by their owner outside.
	r.try("FS_IMMUTABLE_FL", unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x10))
	r.try("FS_APPEND_FL", unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x20))
	unix.Close(fd)
	_ = os.Remove(path)
	return r
}
