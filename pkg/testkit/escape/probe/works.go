//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	add(map[string]func() *report{
		"works-inotify":     worksInotify,
		"works-shell":       worksShell,
		"works-write":       worksWrite,
		"works-exec-own":    worksExecOwn,
		"works-read":        worksRead,
		"works-nested":      worksNested,
		"works-file":        worksFile,
		"works-home":        worksHome,
		"works-shm":         worksShm,
		"works-loopback":    worksLoopback,
		"works-unix-socket": worksUnixSocket,
		"works-fork":        worksFork,
		"works-threads":     worksThreads,
		"works-proc":        worksProc,
		"works-terminal":    worksTerminal,
		"works-dev":         worksDev,
		"works-signals":     worksSignals,
		"works-identity":    worksIdentity,
		"works-links":       worksLinks,
	})
}

func worksShell() *report {
	r := control()
	out, err := exec.Command("/bin/sh", "-c", "echo $((6*7)) | cat").CombinedOutput()
	if err == nil && string(out) != "42\n" {
		err = fmt.Errorf("wrote %q", out)
	}
	r.try("a pipe of the shell's", err)
	return r
}

// writes creates, changes, renames and removes a file and a folder.
func writes(dir string) error {
	folder := filepath.Join(dir, "works-folder")
	file := filepath.Join(folder, "file")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte("one"), 0o600); err != nil {
		return err
	}
	if err := os.Chmod(file, 0o755); err != nil {
		return err
	}
	if err := os.Rename(file, file+"2"); err != nil {
		return err
	}
	if got, err := os.ReadFile(file + "2"); err != nil || string(got) != "one" {
		return fmt.Errorf("read %q, %w", got, err)
	}
	return os.RemoveAll(folder)
}

func worksWrite() *report {
	r := control()
	for _, dir := range []string{params.Work, "/tmp", "/var/tmp"} {
		r.try(dir, writes(dir))
	}
	return r
}

func worksExecOwn() *report {
	r := control()
	self, err := os.ReadFile("/proc/self/exe")
	r.try("reading itself", err)
	for _, dir := range []string{params.Work, "/tmp"} {
		copied := filepath.Join(dir, "works-exec")
		err := os.WriteFile(copied, self, 0o755)
		if err == nil {
			err = exec.Command(copied, "true").Run()
		}
		r.try("a program in "+dir, err)
		_ = os.Remove(copied)
	}
	return r
}

func worksRead() *report {
	r := control()
	_, err := os.ReadFile(filepath.Join(params.Docs, "page"))
	r.try("a granted file", err)
	entries, err := os.ReadDir(params.Docs)
	if err == nil && len(entries) == 0 {
		err = errors.New("empty")
	}
	r.try("a granted folder", err)
	_, err = os.ReadFile("/etc/passwd")
	r.try("/etc/passwd", err)
	return r
}

func worksNested() *report {
	r := control()
	r.try("writing in what is writable in what is not", writes(params.Open))
	_, err := os.ReadDir(params.Sealed)
	r.try("reading in what is read-only in what is not", err)
	return r
}

func worksFile() *report {
	r := control()
	r.try("writing a single granted file", os.WriteFile(params.File, []byte("changed"), 0o600))
	return r
}

func worksHome() *report {
	r := control()
	home := os.Getenv("HOME")
	r.saw("HOME of its own", home != "" && home != "/root")
	r.try("writing at home", writes(home))
	return r
}

func worksShm() *report {
	r := control()
	r.try("writing in /dev/shm", writes("/dev/shm"))
	id, _, errno := unix.Syscall(unix.SYS_SHMGET, 0 /* IPC_PRIVATE */, 4096, 0o1600)
	var err error
	if errno != 0 {
		err = errno
	} else {
		err = call(unix.SYS_SHMCTL, id, 0 /* IPC_RMID */, 0)
	}
	r.try("a segment", err)
	return r
}

// echo listens at an address, connects to it, and sends a word.
func echo(family int, at unix.Sockaddr) error {
	listener, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	if err := unix.Bind(listener, at); err != nil {
		return err
	}
	if err := unix.Listen(listener, 1); err != nil {
		return err
	}
	bound, err := unix.Getsockname(listener)
	if err != nil {
		return err
	}
	client, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(client)
	if err := unix.Connect(client, bound); err != nil {
		return err
	}
	accepted, _, err := unix.Accept(listener)
	if err != nil {
		return err
	}
	defer unix.Close(accepted)
	if _, err := unix.Write(client, []byte("word")); err != nil {
		return err
	}
	word := make([]byte, 4)
	if n, err := unix.Read(accepted, word); err != nil || string(word[:n]) != "word" {
		return fmt.Errorf("read %q, %w", word[:n], err)
	}
	return nil
}

func worksLoopback() *report {
	r := control()
	r.try("127.0.0.1", echo(unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	return r
}

func worksUnixSocket() *report {
	r := control()
	path := filepath.Join("/tmp", "works.sock")
	r.try("a path", echo(unix.AF_UNIX, &unix.SockaddrUnix{Name: path}))
	_ = os.Remove(path)
	r.try("an abstract name", echo(unix.AF_UNIX, &unix.SockaddrUnix{Name: "@works"}))
	return r
}

func worksFork() *report {
	r := control()
	var started []*exec.Cmd
	for range 20 {
		cmd := exec.Command("/proc/self/exe", "nap")
		if err := cmd.Start(); err != nil {
			r.try("twenty processes", err)
			break
		}
		started = append(started, cmd)
	}
	for _, cmd := range started {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	r.saw("twenty processes", len(started) == 20)
	return r
}

func worksThreads() *report {
	r := control()
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() { call(unix.SYS_SCHED_YIELD) })
	}
	work.Wait()
	r.try("threads", nil)
	return r
}

func worksProc() *report {
	r := control()
	link, err := os.Readlink("/proc/self")
	if err == nil && link != fmt.Sprint(os.Getpid()) {
		err = fmt.Errorf("/proc/self is %s", link)
	}
	r.try("/proc/self", err)
	for _, file := range []string{
		"/proc/self/status", "/proc/self/maps", "/proc/meminfo", "/proc/cpuinfo", "/proc/uptime", "/proc/self/mountinfo",
	} {
		text, err := os.ReadFile(file)
		if err == nil && len(text) == 0 {
			err = errors.New("empty")
		}
		r.try(file, err)
	}
	return r
}

// terminal returns both ends of a new terminal; its hangup does not end this process.
func terminal() (master, slave *os.File, err error) {
	signal.Ignore(syscall.SIGHUP)
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetUint32(m, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	s, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(m), "ptmx"), os.NewFile(uintptr(s), "pts"), nil
}

func worksTerminal() *report {
	r := control()
	master, slave, err := terminal()
	r.try("a terminal", err)
	if err != nil {
		return r
	}
	defer master.Close()
	cmd := exec.Command("/bin/sh", "-c", "tty >/dev/null && stty size </dev/tty && echo up")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 7, Col: 9}); err != nil {
		r.try("its size", err)
	}
	err = cmd.Run()
	slave.Close()
	out, _ := io.ReadAll(master) // EIO after the last process has closed it
	if err == nil && !bytes.Contains(out, []byte("7 9")) {
		err = fmt.Errorf("wrote %q", out)
	}
	r.try("a shell on it", err)
	return r
}

func worksDev() *report {
	r := control()
	for _, name := range []string{"/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"} {
		f, err := os.Open(name)
		if err == nil {
			_, err = f.Read(make([]byte, 16))
			f.Close()
		}
		r.try(name, err)
	}
	r.try("/dev/null", os.WriteFile("/dev/null", []byte("x"), 0))
	_, err := os.ReadDir("/dev/fd/")
	r.try("/dev/fd", err)
	return r
}

func worksSignals() *report {
	r := control()
	cmd := exec.Command("/proc/self/exe", "nap")
	if err := cmd.Start(); err != nil {
		r.try("a child", err)
		return r
	}
	r.try("SIGSTOP", cmd.Process.Signal(syscall.SIGSTOP))
	r.try("SIGCONT", cmd.Process.Signal(syscall.SIGCONT))
	r.try("SIGKILL", cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	return r
}

func worksIdentity() *report {
	r := control()
	var now unix.Timespec
	r.try("the clock", unix.ClockGettime(unix.CLOCK_REALTIME, &now))
	if d := time.Since(time.Unix(now.Unix())); d > time.Minute || d < -time.Minute {
		r.try("the right time", fmt.Errorf("off by %s", d))
	}
	name, err := os.Hostname()
	r.try("a host name", err)
	r.saw("host name that is not empty", name != "")
	out, err := exec.Command("/bin/sh", "-c", "id -un").CombinedOutput()
	r.try("a user name "+strings.TrimSpace(string(out)), err)
	return r
}

func worksLinks() *report {
	r := control()
	dir := filepath.Join(params.Work, "works-links")
	r.try("a folder", os.MkdirAll(dir, 0o755))
	target := filepath.Join(dir, "target")
	r.try("a file", os.WriteFile(target, []byte("x"), 0o600))
	r.try("a hard link", os.Link(target, filepath.Join(dir, "hard")))
	r.try("a symbolic link", os.Symlink("target", filepath.Join(dir, "soft")))
	_, err := os.ReadFile(filepath.Join(dir, "soft"))
	r.try("reading through it", err)
	r.try("a fifo", unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	r.try("a lock", flock(target))
	r.try("removing all", os.RemoveAll(dir))
	return r
}

func flock(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// worksInotify watches a folder of the project, as development servers do.
func worksInotify() *report {
	r := control()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	r.try("inotify_init", err)
	if err != nil {
		return r
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, params.Work, unix.IN_CREATE)
	r.try("a watch", err)
	file := filepath.Join(params.Work, "watched")
	r.try("a file", os.WriteFile(file, nil, 0o644))
	defer os.Remove(file)
	_, err = unix.Read(fd, make([]byte, 4096))
	r.try("an event", err)
	return r
}
