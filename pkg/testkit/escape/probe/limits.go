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
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	add(map[string]func() *report{
		"cross-processes": crossProcesses,
		"cross-tmp":       crossTmp,
		"cross-shm":       crossShm,
		"cross-abstract":  crossAbstract,
		"cross-loopback":  crossLoopback,
	})
}

// neighbours is the key, and the port, by which two cages could communicate.
const neighbours = 0x4b63

// plant leaves files that another cage must not see, reports that, and waits.
func plant() {
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", os.Getenv("HOME")} {
		if err := os.WriteFile(filepath.Join(dir, params.Neighbour), []byte(params.Secret), 0o666); err != nil {
			fatal(err)
		}
	}
	if _, err := result(unix.SYS_SHMGET, neighbours, 4096, unix.IPC_CREAT|0o666); err != nil {
		fatal(err)
	}
	for _, at := range []unix.Sockaddr{
		&unix.SockaddrUnix{Name: "@" + params.Neighbour}, &unix.SockaddrInet4{Port: neighbours, Addr: [4]byte{127, 0, 0, 1}},
	} {
		family := unix.AF_UNIX
		if _, ok := at.(*unix.SockaddrInet4); ok {
			family = unix.AF_INET
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Bind(fd, at)
		}
		if err == nil {
			err = unix.Listen(fd, 4)
		}
		if err != nil {
			fatal(err)
		}
		go func() {
			for {
				if c, _, err := unix.Accept(fd); err == nil {
					_, _ = unix.Write(c, []byte(params.Secret))
				}
			}
		}()
	}
	fmt.Println("planted")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func crossProcesses() *report {
	r := attack()
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, _ := os.ReadFile(file)
		r.saw("the other cage's process in "+file, bytes.HasSuffix(text, []byte("\x00plant\x00")))
	}
	return r
}

func crossTmp() *report {
	r := attack()
	for _, dir := range []string{"/tmp", "/var/tmp", os.Getenv("HOME")} {
		r.hidden(filepath.Join(dir, params.Neighbour))
	}
	return r
}

func crossShm() *report {
	r := attack()
	r.hidden(filepath.Join("/dev/shm", params.Neighbour))
	_, err := result(unix.SYS_SHMGET, neighbours, 4096, 0o600)
	r.try("the other's segment", err)
	return r
}

func crossAbstract() *report {
	r := attack()
	_, err := talk(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "@" + params.Neighbour})
	r.try("the other's abstract socket", err)
	return r
}

func crossLoopback() *report {
	r := attack()
	_, err := talk(unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Port: neighbours, Addr: [4]byte{127, 0, 0, 1}})
	r.try("the other's port", err)
	return r
}

// orphans starts processes that try everything to escape from the cage, and ends.
func orphans() {
	if len(os.Args) > 2 {
		depth, _ := strconv.Atoi(os.Args[2])
		if depth > 0 {
			orphan(depth - 1)
			return
		}
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)
		nap()
		return
	}
	orphan(3)
	orphan(0)
	fmt.Println("left")
}

func orphan(depth int) {
	cmd := exec.Command("/proc/self/exe", "orphans", strconv.Itoa(depth))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
}

// bomb starts processes until it is stopped, at most a thousand, and prints how many it started. It exits with 3 if it
// could not start more.
func bomb() {
	count := 0
	var last error
	for range 1000 {
		if last = exec.Command("/proc/self/exe", "nap").Start(); last != nil {
			break
		}
		count++
	}
	fmt.Println(count, last)
	if count == 1000 {
		return
	}
	// A failed fork is tried again, as fork bombs do.
	for range 1000 {
		_ = exec.Command("/proc/self/exe", "nap").Start()
	}
	os.Exit(3)
}

// hog allocates memory until it is stopped, at most two gigabytes.
func hog() {
	const piece = 4 << 20
	for i := range 512 {
		b, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			fmt.Println("refused after", i*piece, err)
			os.Exit(3)
		}
		for at := 0; at < piece; at += 4096 {
			*(*byte)(unsafe.Pointer(&b[at])) = 1
		}
	}
	fmt.Println("took it all")
}

// fill writes a file in the folder of its argument until it is stopped, at most a gigabyte, and then waits, because the
// measurement may come late.
func fill() {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i)
	}
	f, err := os.Create(filepath.Join(os.Args[2], "fill"))
	if err != nil {
		fatal(err)
	}
	for i := range 1024 {
		if _, err := f.Write(block); err != nil {
			full(i, "MiB", err)
		}
	}
	fmt.Println("wrote it all")
	<-time.After(10 * time.Second)
}

// fillMapped writes, by a mapping, to a file without a name and without a descriptor, in the folder of its argument.
func fillMapped() {
	const size = 256 << 20
	f, err := os.Create(filepath.Join(os.Args[2], "mapped"))
	if err == nil {
		err = errors.Join(os.Remove(f.Name()), f.Truncate(size))
	}
	if err != nil {
		fatal(err)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	f.Close()
	if err != nil {
		fatal(err)
	}
	for at := 0; at < size; at += 4096 {
		data[at] = 1
	}
	fmt.Println("wrote it all")
	<-time.After(10 * time.Second)
}

// inodes creates empty files in the folder of its argument until it is stopped, at most two million.
func inodes() {
	for i := range 2_000_000 {
		fd, err := unix.Open(filepath.Join(os.Args[2], strconv.Itoa(i)), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			full(i, "files", err)
		}
		unix.Close(fd)
	}
	fmt.Println("made them all")
}

// deaf keeps running and ignores requests to end.
func deaf() {
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	nap()
}

// full prints where an attempt was stopped, and exits: with 3 if space ran out, else with 4.
func full(count int, what string, err error) {
	fmt.Println("stopped after", count, what, err)
	if errors.Is(err, unix.ENOSPC) {
		os.Exit(3)
	}
	os.Exit(4)
}
