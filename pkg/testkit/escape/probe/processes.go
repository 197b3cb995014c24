//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	add(map[string]func() *report{
		"ptrace-traceme":     ptraceTraceme,
		"ptrace-attach":      ptraceAttach,
		"ptrace-memory":      ptraceMemory,
		"ptrace-own":         ptraceOwn,
		"ptrace-memory-own":  ptraceMemoryOwn,
		"ptrace-kcmp":        ptraceKcmp,
		"ptrace-pidfd-getfd": ptracePidfdGetfd,
		"ptrace-init":        ptraceInit,
		"pid-init-files":     pidInitFiles,
		"pid-host-hidden":    pidHostHidden,
		"pid-host-signal":    pidHostSignal,
		"pid-kill-init":      pidKillInit,
		"pid-threads":        pidThreads,
		"exe-overwrite":      exeOverwrite,
		"exe-interpreter":    exeInterpreter,
		"fd-leak":            fdLeak,
		"env-leak":           envLeak,
		"env-leak-proc":      envLeakProc,
		"prio-raise":         prioRaise,
		"prio-oom":           prioOOM,
		"core-off":           coreOff,
		"core-raise":         coreRaise,
		"prctl-mm":           prctlMM,
	})
}

// victim waits to be examined: it holds the secret of a test in its memory and prints its address.
func victim() {
	secret := []byte("the victim's secret")
	kept = []any{secret}
	fmt.Println(uintptr(unsafe.Pointer(unsafe.SliceData(secret))))
	var b [1]byte
	_, _ = os.Stdin.Read(b[:])
	os.Stdout.Write(append(secret, '\n'))
}

// withVictim runs an attempt against a child process.
func (r *report) withVictim(attempt func(pid int, at uintptr)) {
	cmd := exec.Command("/proc/self/exe", "victim")
	in, err := cmd.StdinPipe()
	if err != nil {
		fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		fatal(err)
	}
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
	line := make([]byte, 64)
	n, _ := out.Read(line)
	at, err := strconv.ParseUint(strings.TrimSpace(string(line[:n])), 10, 64)
	if err != nil {
		fatal(err)
	}
	attempt(cmd.Process.Pid, uintptr(at))
	in.Close()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func ptraceTraceme() *report {
	r := attack()
	cmd := exec.Command("/proc/self/exe", "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	err := cmd.Start()
	r.try("a child that asks to be traced", err)
	if err == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return r
}

func (r *report) attach(what string, pid int) {
	err := unix.PtraceAttach(pid)
	r.try("attaching to "+what, err)
	if err == nil {
		_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
		_ = unix.PtraceDetach(pid)
	}
	err = unix.PtraceSeize(pid)
	r.try("seizing "+what, err)
	if err == nil {
		_ = unix.PtraceInterrupt(pid)
		_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
		_ = unix.PtraceDetach(pid)
	}
}

func ptraceAttach() *report {
	r := attack()
	r.withVictim(func(pid int, _ uintptr) { r.attach("a child", pid) })
	return r
}

func ptraceOwn() *report {
	r := control()
	r.withVictim(func(pid int, _ uintptr) { r.attach("a child", pid) })
	return r
}

// peek reads another process's memory with process_vm_readv.
func peek(pid int, at uintptr) error {
	got := make([]byte, 12)
	n, err := unix.ProcessVMReadv(
		pid,
		[]unix.Iovec{{Base: &got[0], Len: uint64(len(got))}},
		[]unix.RemoteIovec{{Base: at, Len: len(got)}},
		0,
	)
	if err == nil && string(got[:n]) != "the victim's" {
		err = fmt.Errorf("read %q", got[:n])
	}
	return err
}

func (r *report) memory(pid int, at uintptr) {
	r.try("process_vm_readv", peek(pid, at))
	got := []byte("changed")
	_, err := unix.ProcessVMWritev(
		pid,
		[]unix.Iovec{{Base: &got[0], Len: uint64(len(got))}},
		[]unix.RemoteIovec{{Base: at, Len: len(got)}},
		0,
	)
	r.try("process_vm_writev", err)
}

func ptraceMemory() *report {
	r := attack()
	r.withVictim(r.memory)
	return r
}

func ptraceMemoryOwn() *report {
	r := control()
	r.withVictim(r.memory)
	return r
}

func ptraceKcmp() *report {
	r := attack()
	r.withVictim(func(pid int, _ uintptr) {
		r.entered("kcmp", call(unix.SYS_KCMP, os.Getpid(), pid, 0 /* KCMP_FILE */, 1, 1))
		r.entered("process_madvise", call(unix.SYS_PROCESS_MADVISE, -1, 0, 0, 0, 0))
	})
	return r
}

func ptracePidfdGetfd() *report {
	r := attack()
	r.withVictim(func(pid int, _ uintptr) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			_, err = unix.PidfdGetfd(fd, 0, 0)
		}
		r.try("a descriptor of a child's", err)
	})
	return r
}

func ptraceInit() *report {
	r := attack()
	r.attach("pid 1", 1)
	r.try("its memory", peek(1, 0x400000))
	fd, err := unix.PidfdOpen(1, 0)
	if err == nil {
		_, err = unix.PidfdGetfd(fd, 0, 0)
	}
	r.try("its descriptors", err)
	return r
}

// head reads the beginning of a file that may be endless.
func head(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, 4096)
	n, err := f.Read(text)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text[:max(n, 0)], err
}

func pidInitFiles() *report {
	r := attack()
	for _, file := range []string{
		"environ", "maps", "mem", "auxv", "stack", "syscall", "io", "smaps", "pagemap", "clear_refs", "wchan", "personality",
	} {
		text, err := head("/proc/1/" + file)
		if err == nil && (len(text) == 0 || bytes.Equal(bytes.TrimSpace(text), []byte("0"))) {
			err = errors.New("empty")
		}
		r.try(file, err)
	}
	for _, dir := range []string{"fd", "fdinfo", "map_files", "cwd/", "root/"} {
		_, err := os.ReadDir("/proc/1/" + dir)
		r.try(dir, err)
	}
	f, err := os.OpenFile("/proc/1/mem", os.O_RDWR, 0)
	r.try("writing its memory", err)
	if err == nil {
		f.Close()
	}
	return r
}

// taken reports whether the host process's pid is also a pid inside the cage, which is likely in small containers.
func taken(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && !bytes.Contains(text, []byte("host-"+params.Neighbour)) &&
		!bytes.Contains(text, []byte("/self\x00"))
}

func pidHostHidden() *report {
	r := attack()
	for name, pid := range map[string]int{"a process of the host": params.HostPID, "the supervisor": params.Supervisor} {
		if pid == 0 || taken(pid) {
			continue
		}
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		r.try(name, err)
		r.try("its number", unix.Kill(pid, 0))
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, _ := os.ReadFile(file)
		r.saw("the host's process in "+file, bytes.Contains(text, []byte("host-"+params.Neighbour)))
	}
	return r
}

func pidHostSignal() *report {
	r := attack()
	if taken(params.HostPID) {
		r.try("its number", unix.ESRCH)
		return r
	}
	r.try("SIGKILL", unix.Kill(params.HostPID, unix.SIGKILL))
	fd, err := unix.PidfdOpen(params.HostPID, 0)
	r.try("pidfd_open", err)
	if err == nil {
		r.try("pidfd_send_signal", unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0))
	}
	r.try("tgkill", unix.Tgkill(params.HostPID, params.HostPID, unix.SIGTERM))
	return r
}

// pidKillInit sends every signal to the first process. If one has an effect, no later case has a result.
func pidKillInit() *report {
	r := attack()
	if params.Uncaged {
		r.try("left alone", unix.EPERM)
		return r
	}
	for sig := 1; sig <= 64; sig++ {
		_ = unix.Kill(1, syscall.Signal(sig))
	}
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		fatal(err)
	}
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(polled, 200)
	if err != nil {
		fatal(err)
	}
	r.saw("end of pid 1", n != 0)
	text, _ := os.ReadFile("/proc/1/stat")
	r.saw("stop of pid 1", bytes.Contains(text, []byte(") T ")))
	return r
}

func pidThreads() *report {
	r := attack()
	tasks, _ := filepath.Glob("/proc/1/task/*")
	for _, task := range tasks {
		for _, file := range []string{"/mem", "/environ", "/maps"} {
			text, err := head(task + file)
			if err == nil && len(text) == 0 {
				err = errors.New("empty")
			}
			r.try(task+file, err)
		}
	}
	r.saw("thread to ask", false)
	return r
}

func exeOverwrite() *report {
	r := attack()
	for _, exe := range []string{"/proc/1/exe", fmt.Sprintf("/proc/%d/exe", params.Supervisor)} {
		for name, flags := range map[string]int{
			"writing": unix.O_WRONLY, "truncating": unix.O_WRONLY | unix.O_TRUNC, "reading": unix.O_RDONLY,
			"a path": unix.O_PATH,
		} {
			fd, err := unix.Open(exe, flags|unix.O_CLOEXEC, 0)
			if err == nil && name == "a path" {
				_, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY|unix.O_CLOEXEC, 0)
			}
			r.try(name+" "+exe, err)
		}
	}
	return r
}

func exeInterpreter() *report {
	r := attack()
	// CVE-2019-5736: a script whose interpreter is the program that starts it.
	script := link("interpreter")
	for _, interpreter := range []string{"/proc/1/exe", "/proc/self/exe"} {
		if err := os.WriteFile(script, []byte("#!"+interpreter+"\n"), 0o755); err != nil {
			fatal(err)
		}
		cmd := exec.Command(script)
		err := cmd.Run()
		r.try("running "+interpreter, err)
	}
	_ = os.Remove(script)
	return r
}

// inherited are the descriptors beyond the standard three at the start.
var inherited string

// openFiles lists the open descriptors from the fourth on with their targets, without its own descriptor of the list.
func openFiles() string {
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(dir)
	buf := make([]byte, 16<<10)
	n, err := unix.Getdents(dir, buf)
	if err != nil {
		return err.Error()
	}
	_, _, names := unix.ParseDirent(buf[:n], -1, nil)
	var found []string
	for _, name := range names {
		if number, err := strconv.Atoi(name); err == nil && number > 2 && number != dir {
			to, _ := os.Readlink("/proc/self/fd/" + name)
			if to != "anon_inode:[eventpoll]" && to != "anon_inode:[eventfd]" { // not one of the Go runtime
				found = append(found, name+" "+to)
			}
		}
	}
	return strings.Join(found, ", ")
}

func fdLeak() *report {
	r := attack()
	r.saw("descriptor but the three: "+inherited, inherited != "")
	for fd := range 1024 {
		if fd < 3 {
			continue
		}
		if at, err := unix.Openat(fd, params.Canary[1:], unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			r.try(fmt.Sprintf("the canary by descriptor %d", fd), nil)
			unix.Close(at)
		}
		if at, err := unix.Openat(fd, filepath.Base(params.Canary), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			r.try(fmt.Sprintf("the canary by descriptor %d", fd), nil)
			unix.Close(at)
		}
	}
	return r
}

func envLeak() *report {
	r := attack()
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		r.saw("secret in "+name, strings.Contains(value, params.Secret) && name != "KAGED_ESCAPE_PARAMS")
		r.saw(
			"variable of the supervisor's: "+name,
			name == "KAGED_HOST_SECRET" || name == "SUDO_USER" || name == "SSH_AUTH_SOCK",
		)
	}
	return r
}

func envLeakProc() *report {
	r := attack()
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	more, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*/environ")
	for _, file := range append(all, more...) {
		text, _ := os.ReadFile(file)
		r.saw("secret of the supervisor's in "+file, bytes.Contains(text, []byte("KAGED_HOST_SECRET=")))
	}
	return r
}

func prioRaise() *report {
	r := attack()
	r.try("nice", unix.Setpriority(unix.PRIO_PROCESS, 0, -10))
	priority := uint32(1)
	r.try("a real-time policy", call(unix.SYS_SCHED_SETSCHEDULER, 0, 1 /* SCHED_FIFO */, unsafe.Pointer(&priority)))
	r.try("a real-time I/O class", call(unix.SYS_IOPRIO_SET, 1, 0, 1<<13))
	return r
}

func prioOOM() *report {
	r := attack()
	for _, value := range []string{"-1000", "-1"} {
		r.try("oom_score_adj "+value, os.WriteFile("/proc/self/oom_score_adj", []byte(value), 0))
	}
	r.try("pid 1's", os.WriteFile("/proc/1/oom_score_adj", []byte("1000"), 0))
	return r
}

func coreOff() *report {
	r := attack()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		fatal(err)
	}
	r.saw("room for a core dump", limit.Cur != 0 || limit.Max != 0)
	return r
}

func coreRaise() *report {
	r := attack()
	for name, limit := range map[string]int{"core": unix.RLIMIT_CORE} {
		r.try(name, unix.Prlimit(0, limit, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil))
	}
	return r
}

func prctlMM() *report {
	r := attack()
	// This would change the name of the running program as seen by others.
	r.try("PR_SET_MM_EXE_FILE", unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_EXE_FILE, 0, 0, 0))
	r.try("PR_SET_MM_START_BRK", unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_START_BRK, 4096, 0, 0))
	return r
}
