//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

func init() {
	add(map[string]func() *report{
		"fs-absolute":          fsAbsolute,
		"fs-write-absolute":    fsWriteAbsolute,
		"fs-sibling":           fsSibling,
		"fs-list-outside":      fsListOutside,
		"fs-dotdot":            fsDotdot,
		"fs-proc-self":         fsProcSelf,
		"fs-symlink":           fsSymlink,
		"fs-symlink-parent":    fsSymlinkParent,
		"fs-hardlink":          fsHardlink,
		"fs-symlink-race":      fsSymlinkRace,
		"fs-rename-out":        fsRenameOut,
		"fs-home":              fsHome,
		"fs-host-tmp":          fsHostTmp,
		"fs-host-shm":          fsHostShm,
		"fs-host-run":          fsHostRun,
		"fs-kaged":             fsKaged,
		"fs-ro-grant":          fsReadOnlyGrant,
		"fs-ro-nested":         fsReadOnlyNested,
		"fs-ro-replace":        fsReadOnlyReplace,
		"fs-ro-descriptor":     fsReadOnlyDescriptor,
		"fs-ro-system":         fsReadOnlySystem,
		"fs-ro-root":           fsReadOnlyRoot,
		"fs-file-neighbours":   fsFileNeighbours,
		"fs-mounts-writable":   fsMountsWritable,
		"fs-mounts-flags":      fsMountsFlags,
		"fs-mknod":             fsMknod,
		"fs-dev":               fsDev,
		"fs-open-by-handle":    fsOpenByHandle,
		"fs-setid":             fsSetid,
		"fs-setid-create":      fsSetidCreate,
		"fs-setid-mkdir":       fsSetidMkdir,
		"fs-file-caps":         fsFileCaps,
		"fs-chown":             fsChown,
		"fs-protected":         fsProtected,
		"fs-protected-fresh":   fsProtectedFresh,
		"fs-protected-gitlink": fsProtectedGitlink,
		"fs-protected-modules": fsProtectedModules,
		"fs-protected-named":   fsProtectedNamed,
		"fs-protected-skills":  fsProtectedSkills,
		"fs-protected-rename":  fsProtectedRename,
		"fs-protected-link":    fsProtectedLink,
		"fs-cgroup":            fsCgroup,
		"fs-sysfs":             fsSysfs,
		"fs-attributes":        fsAttributes,
	})
}

// hidden tries to read a file and to find the secret in it.
func (r *report) hidden(path string) {
	text, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(text, []byte(params.Secret)) {
		err = errors.New("something else is there")
	}
	r.try("reading "+path, err)
}

// written tries to change an existing file, and leaves no new file behind.
func (r *report) written(path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString("changed by the probe\n")
		f.Close()
	}
	r.try("writing "+path, err)
}

// created tries to create a file and removes it.
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
	for _, start := range []string{
		params.Work + "/", params.Docs + "/./", params.Open + "//", "/proc/self/cwd/", "/tmp/",
	} {
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
	for _, dir := range []string{
		"/proc/self/root", "/proc/thread-self/root", "/proc/1/root", "/proc/self/cwd/../../../../../../../..",
		"/dev/fd/../root",
	} {
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

// link is a path where a case may leave a link.
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
	// The folder becomes a link between two steps of the same walk.
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
	for name, target := range map[string]string{
		"canary": params.Canary, "sibling": params.Sibling, "passwd": "/etc/passwd",
		"page": filepath.Join(params.Docs, "page"),
	} {
		from := link("hard-" + name)
		_ = os.Remove(from)
		r.try("linking "+target, os.Link(target, from))
		r.try(
			"linking what it points to",
			unix.Linkat(unix.AT_FDCWD, target, unix.AT_FDCWD, from+"2", unix.AT_SYMLINK_FOLLOW),
		)
		_, _ = os.Remove(from), os.Remove(from+"2")
	}
	return r
}

// raceRounds is the number of times that a link is changed to the secret and back.
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
	for _, to := range []string{
		params.Canary + ".planted", filepath.Join(params.Docs, "planted"), params.Sibling + ".planted", "/etc/planted",
		"/usr/bin/planted",
	} {
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
	for _, file := range []string{
		"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/machine-id", "/etc/ssh/sshd_config", "/etc/ssl/private",
		"/root/.ssh/authorized_keys", "/root/.bash_history", "/var/lib/dpkg/status", "/var/log/dpkg.log",
	} {
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

func fsKaged() *report {
	r := attack()
	relative, err := filepath.Rel(params.Work, params.Own)
	if err != nil {
		relative = params.Own
	}
	for _, path := range []string{params.Own, "/proc/self/root" + params.Own, filepath.Join("/proc/self/cwd", relative)} {
		r.hidden(path)
		r.written(path)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: params.OwnSocket})
	}
	r.try("calling "+params.OwnSocket, err)
	return r
}

func fsHostRun() *report {
	r := attack()
	for _, path := range []string{
		"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/systemd", "/run/dbus",
		"/run/user", params.Socket,
	} {
		r.try(path, unix.Access(path, unix.F_OK))
	}
	return r
}
