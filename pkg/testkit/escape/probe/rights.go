//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	add(map[string]func() *report{
		"id-caps":            idCaps,
		"id-caps-regain":     idCapsRegain,
		"id-no-new-privs":    idNoNewPrivs,
		"id-seccomp":         idSeccomp,
		"id-setuid":          idSetuid,
		"id-setid-programs":  idSetidPrograms,
		"id-groups":          idGroups,
		"id-not-root":        idNotRoot,
		"ns-user":            nsUser,
		"ns-user-clone3":     nsUserClone3,
		"ns-others":          nsOthers,
		"ns-setns":           nsSetns,
		"ns-setns-pidfd":     nsSetnsPidfd,
		"ns-relatives":       nsRelatives,
		"ns-uid-map":         nsUIDMap,
		"mount-bind":         mountBind,
		"mount-file-systems": mountFileSystems,
		"mount-remount":      mountRemount,
		"mount-umount":       mountUmount,
		"mount-pivot":        mountPivot,
		"mount-new-calls":    mountNewCalls,
		"mount-attributes":   mountAttributes,
		"mount-helpers":      mountHelpers,
		"mount-fuse":         mountFuse,
	})
}

// status returns a line of /proc/self/status.
func status(key string) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func idCaps() *report {
	r := attack()
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		r.saw("capabilities in "+set, strings.Trim(status(set), "0") != "")
	}
	return r
}

func idCapsRegain() *report {
	r := attack()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
	r.try("capset", unix.Capset(&head, &data[0]))
	data = [2]unix.CapUserData{{Inheritable: 1 << unix.CAP_NET_RAW}}
	r.try("capset inheritable", unix.Capset(&head, &data[0]))
	r.try("an ambient capability", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_RAW, 0, 0))
	r.try("unlocking securebits", unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0))
	return r
}

func idNoNewPrivs() *report {
	r := attack()
	r.saw("way to new privileges", status("NoNewPrivs") != "1")
	r.try("taking no_new_privs back", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0))
	return r
}

func idSeccomp() *report {
	r := attack()
	r.saw("freedom from seccomp", status("Seccomp") != "2")
	return r
}

func idSetuid() *report {
	r := attack()
	for name, become := range map[string]func() error{
		"setuid": func() error {
			return call(unix.SYS_SETUID, 0)
		}, "setreuid": func() error { return call(unix.SYS_SETREUID, 0, 0) },
		"setresuid": func() error {
			return call(unix.SYS_SETRESUID, 0, 0, 0)
		}, "setgid": func() error { return call(unix.SYS_SETGID, 0) },
		"setresgid": func() error { return call(unix.SYS_SETRESGID, 0, 0, 0) },
	} {
		r.try(name, become())
	}
	for _, call := range []uintptr{unix.SYS_SETFSUID, unix.SYS_SETFSGID} {
		_, _ = result(call, 0)
		now, _ := result(call, -1)
		r.saw("files of root's", now == 0)
	}
	return r
}

func idSetidPrograms() *report {
	r := attack()
	for _, argv := range [][]string{
		{"su", "root", "-c", "id -u"},
		{"sudo", "-n", "id", "-u"},
		{"pkexec", "id", "-u"},
		{"newgrp", "root"},
		{"unshare", "-Ur", "id", "-u"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond) // su delays its refusal
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
		cancel()
		if err == nil && strings.TrimSpace(string(out)) != "0" {
			err = fmt.Errorf("wrote %.80q", out)
		}
		r.try(argv[0], err)
	}
	// No executable set-id program changes the user.
	programs, _ := filepath.Glob("/usr/bin/*")
	for _, p := range programs {
		if bits(p) == nil {
			r.saw(p+" that can make one root", status("NoNewPrivs") != "1" && !nosuid(p))
		}
	}
	return r
}

func nosuid(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_NOSUID != 0
}

func idGroups() *report {
	r := attack()
	group := uint32(0)
	r.try("setgroups", call(unix.SYS_SETGROUPS, 1, unsafe.Pointer(&group)))
	groups, err := os.Getgroups()
	if err != nil {
		fatal(err)
	}
	for _, g := range groups {
		r.saw("group root's", g == 0)
	}
	return r
}

func idNotRoot() *report {
	r := attack()
	r.saw("uid 0", os.Getuid() == 0 || os.Geteuid() == 0)
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		fatal(err)
	}
	// Inside, outside, count: outside may be 0 only if everything is the host's.
	f := strings.Fields(string(text))
	r.saw("map to the host's root", len(f) == 3 && f[1] == "0" && f[2] == "1")
	return r
}

// forked runs a clone with the given flags; the child ends at once.
func forked(flags uintptr) error {
	cmd := exec.Command("/proc/self/exe", "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return cmd.Run()
}

func nsUser() *report {
	r := attack()
	// In a program with threads the kernel itself refuses unshare, but later than a cage does.
	err := unix.Unshare(unix.CLONE_NEWUSER)
	if errors.Is(err, unix.EINVAL) {
		err = nil
	}
	r.try("unshare", err)
	r.try("clone", forked(unix.CLONE_NEWUSER))
	r.try("clone with more", forked(unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWNET))
	return r
}

// cloneArgs is struct clone_args, its first version.
type cloneArgs struct{ flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64 }

func nsUserClone3() *report {
	r := attack()
	for name, flags := range map[string]uint64{
		"user": unix.CLONE_NEWUSER, "user and mount": unix.CLONE_NEWUSER | unix.CLONE_NEWNS, "time": unix.CLONE_NEWTIME,
		"pid": unix.CLONE_NEWPID,
	} {
		args := &cloneArgs{flags: flags, exitSignal: uint64(unix.SIGCHLD)}
		kept = []any{args}
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
		if pid == 0 && errno == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		var err error
		if errno != 0 {
			err = errno
		}
		r.try(name, err)
	}
	return r
}

// kinds are the namespaces other than the user namespace.
var kinds = map[string]int{
	"mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC,
	"uts":    unix.CLONE_NEWUTS,
	"cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
}

func nsOthers() *report {
	r := attack()
	for name, flag := range kinds {
		r.try("unshare "+name, unix.Unshare(flag))
		if flag != unix.CLONE_NEWTIME {
			r.try("clone "+name, forked(uintptr(flag)))
		}
	}
	return r
}

func nsSetns() *report {
	r := attack()
	for _, who := range []string{"self", "1"} {
		names, _ := filepath.Glob("/proc/" + who + "/ns/*")
		r.saw("names to open", false)
		for _, name := range names {
			fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				r.try(name, err)
				continue
			}
			r.entered("setns "+name, unix.Setns(fd, 0))
			unix.Close(fd)
		}
	}
	return r
}

func nsSetnsPidfd() *report {
	r := attack()
	for _, pid := range []int{1, os.Getppid()} {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			r.try("pidfd_open", err)
			continue
		}
		r.entered("setns", unix.Setns(fd, unix.CLONE_NEWNS|unix.CLONE_NEWNET))
		unix.Close(fd)
	}
	return r
}

func nsRelatives() *report {
	r := attack()
	const nsGetUserns, nsGetParent = 0xb701, 0xb702
	for _, name := range []string{"user", "pid", "net", "mnt"} {
		fd, err := unix.Open("/proc/self/ns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			r.try(name, err)
			continue
		}
		_, err = result(unix.SYS_IOCTL, fd, nsGetParent)
		r.try("the parent of "+name, err)
		if name == "user" {
			_, err = result(unix.SYS_IOCTL, fd, nsGetUserns)
			r.try("the owner of "+name, err)
		}
		unix.Close(fd)
	}
	return r
}

func nsUIDMap() *report {
	r := attack()
	for _, file := range []string{
		"/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups", "/proc/self/timens_offsets",
	} {
		r.try(file, os.WriteFile(file, []byte("0 0 1\n"), 0))
	}
	return r
}

func mountBind() *report {
	r := attack()
	r.entered("bind", unix.Mount("/usr", params.Work, "", unix.MS_BIND, ""))
	r.entered("bind of /proc/self/root", unix.Mount("/proc/self/root", params.Work, "", unix.MS_BIND|unix.MS_REC, ""))
	r.entered("move", unix.Mount(params.Sealed, "/tmp", "", unix.MS_MOVE, ""))
	r.entered("shared", unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""))
	return r
}

func mountFileSystems() *report {
	r := attack()
	for _, kind := range []string{
		"tmpfs", "proc", "sysfs", "overlay", "cgroup", "cgroup2", "devpts", "mqueue", "binfmt_misc", "ramfs", "ext4", "nfs",
		"fuse", "9p", "securityfs", "debugfs", "bpf",
	} {
		r.entered(kind, unix.Mount("none", params.Work, kind, 0, ""))
	}
	return r
}

func mountRemount() *report {
	r := attack()
	for _, at := range []string{
		"/", params.Docs, params.Sealed, "/usr", "/etc", "/proc", "/proc/sys",
		filepath.Join(params.Repository, ".git", "hooks"),
	} {
		r.entered("remount "+at, unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
		r.entered("remount all of "+at, unix.Mount("", at, "", unix.MS_REMOUNT, ""))
	}
	return r
}

func mountUmount() *report {
	r := attack()
	for _, m := range mounts() {
		r.entered("umount "+m.at, unix.Unmount(m.at, unix.MNT_DETACH))
	}
	return r
}

func mountPivot() *report {
	r := attack()
	r.entered("pivot_root", unix.PivotRoot("/tmp", "/tmp"))
	r.entered("chroot", unix.Chroot("/tmp"))
	return r
}

func mountNewCalls() *report {
	r := attack()
	_, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	r.entered("fsopen", err)
	_, err = unix.Fspick(unix.AT_FDCWD, "/", 0)
	r.entered("fspick", err)
	_, err = unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE)
	r.entered("open_tree", err)
	r.entered("move_mount", unix.MoveMount(unix.AT_FDCWD, params.Sealed, unix.AT_FDCWD, "/tmp", 0))
	r.entered("fsconfig", call(unix.SYS_FSCONFIG, -1, 6))
	r.entered("fsmount", call(unix.SYS_FSMOUNT, -1))
	return r
}

func mountAttributes() *report {
	r := attack()
	for _, at := range []string{"/", params.Docs, params.Sealed, "/proc/sys"} {
		r.entered(
			"mount_setattr "+at,
			unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}),
		)
	}
	return r
}

func mountHelpers() *report {
	r := attack()
	for _, argv := range [][]string{
		{"mount", "-t", "tmpfs", "none", "/tmp"},
		{"mount", "-o", "remount,rw", "/"},
		{"umount", "-l", "/proc"},
		{"fusermount", "-u", "/tmp"},
		{"fusermount3", "-u", "/tmp"},
		{"nsenter", "-t", "1", "-m", "true"},
	} {
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err != nil && bytes.Contains(out, []byte("not permitted")) {
			err = unix.EPERM
		}
		r.try(strings.Join(argv, " "), err)
	}
	return r
}

func mountFuse() *report {
	r := attack()
	_, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	r.try("/dev/fuse", err)
	return r
}
