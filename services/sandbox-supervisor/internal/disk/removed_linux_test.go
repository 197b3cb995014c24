package disk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("KAGED_TEST_MAPPED"); dir != "" {
		if os.Getenv("KAGED_TEST_THREAD") != "" {
			threadRemoved(dir)
		} else {
			mapRemoved(dir)
		}
		return
	}
	os.Exit(m.Run())
}

// mapRemoved maps a removed file, closes it, writes to it, reports that and waits for the end of its input.
func mapRemoved(dir string) {
	f, err := os.Create(dir + "/mapped")
	if err != nil {
		panic(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		panic(err)
	}
	if err := f.Truncate(64 << 20); err != nil {
		panic(err)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, 64<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	f.Close()
	for at := 0; at < 16<<20; at += 4096 {
		data[at] = 1
	}
	_, _ = os.Stdout.WriteString("written\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// threadRemoved holds a removed file of 16 MiB in a thread with a separate table of descriptors.
func threadRemoved(dir string) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		fd := -1
		err := unix.Unshare(unix.CLONE_FILES)
		if err == nil {
			fd, err = unix.Open(dir+"/held", unix.O_CREAT|unix.O_RDWR, 0o600)
		}
		if err == nil {
			_, err = unix.Write(fd, make([]byte, 16<<20))
		}
		done <- errors.Join(err, unix.Unlink(dir+"/held"))
		select {} // keeps the thread
	}()
	if err := <-done; err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("written\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// A removed file counts even if only one thread of a process holds it.
func TestFileOfAThreadCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := New(time.Now(), []string{dir}, nil, nil)
	pid, end := holder(t, dir, "KAGED_TEST_THREAD=1")
	if got := grown(m, pid); got < 16<<20 || got > 17<<20 {
		t.Errorf("a file that a thread holds counts %d bytes, want 16 MiB", got)
	}
	end()
}

// A file that was removed and closed counts while it is mapped: for root by its blocks and otherwise by its dirty
// pages.
func TestMappedFileCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := New(time.Now(), []string{dir}, nil, nil)
	pid, end := holder(t, dir)
	got := grown(m, pid)
	if got < 16<<20 || got > 17<<20 {
		t.Errorf("a mapped file without a name counts %d bytes, want 16 MiB", got)
	}
	// An ordinary user cannot follow the mapping; only its dirty pages are known, and stay counted after they are written
	// back.
	id := inode{}
	for of, size := range written(fmt.Sprintf("/proc/%d/task/%d", pid, pid)) {
		id = of
		if size < 16<<20 || size > 17<<20 {
			t.Errorf("%d bytes of it are dirty, want 16 MiB", size)
		}
	}
	if id == (inode{}) {
		t.Error("no dirty mapping was found")
	}
	end()
	if got := grown(m, pid); got > 1<<20 {
		t.Errorf("after the end of its process it counts %d bytes", got)
	}
}

// holder starts a process that holds a removed file in dir. end ends it.
func holder(t *testing.T, dir string, env ...string) (pid int, end func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), "KAGED_TEST_MAPPED="+dir), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, func() {
		in.Close()
		_ = cmd.Wait() // its exit status does not matter
	}
}

// Only shared mappings of files without a name count as dirty; unreadable entries count as zero.
func TestDirtyOf(t *testing.T) {
	t.Parallel()
	got := dirtyOf(strings.NewReader(`7f00-7f01 rw-s 00000000 fd:01 7   /p/a (deleted)
Size:                 64 kB
Shared_Dirty:          8 kB
Private_Dirty:         4 kB
7f01-7f02 rw-s 00001000 fd:01 7   /p/a (deleted)
Private_Dirty:         4 kB
7f02-7f03 rw-p 00000000 fd:01 8   /p/b (deleted)
Private_Dirty:       400 kB
7f03-7f04 rw-s 00000000 fd:01 9   /p/named
Private_Dirty:       400 kB
7f04-7f05 rw-s 00000000 00:00 0
Private_Dirty:       400 kB
7f05-7f06 rw-s 00000000 fd:zz 9   /p/c (deleted)
Private_Dirty:       400 kB
VmFlags: rd wr
`))
	if want := (inode{unix.Mkdev(0xfd, 1), 7}); len(got) != 1 || got[want] != 16<<10 {
		t.Errorf("got %v, want 16 KiB of %v", got, want)
	}
}

// FuzzDirtyOf checks that no text of a process stops the measurement or gives a negative count.
func FuzzDirtyOf(f *testing.F) {
	f.Add("7f00-7f01 rw-s 00000000 fd:01 7   /p/a (deleted)\nShared_Dirty:          8 kB\n")
	f.Add("x y: (deleted)\n Shared_Dirty: -1 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		for id, size := range dirtyOf(strings.NewReader(text)) {
			if size < 0 {
				t.Errorf("%v counts %d", id, size)
			}
		}
	})
}
