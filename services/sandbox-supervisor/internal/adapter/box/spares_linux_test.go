package box_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
)

// until waits for something to become true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("there is still not: " + what)
		}
	}
}

// spare waits for the init that is kept ready, and returns its process.
func spare(t *testing.T, b *box.Boxes) (pid int) {
	t.Helper()
	until(t, "a spare", func() bool { pid = box.SpareOf(b); return pid != 0 })
	return pid
}

// gone returns whether there is no such process, but for what somebody else may have to take note of.
func gone(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err != nil || strings.Contains(string(status), "State:\tZ")
}

// After a box an init is kept ready. The next box, which sees other folders, is made of it, and is what a box is; then there is
// another spare.
func TestSpare(t *testing.T) {
	t.Parallel()
	b := boxes(t)
	first, second := project(t), project(t)
	open(t, b, rw(first))
	for made, tries := 0, 0; made < 3; tries++ {
		waiting := spare(t, b)
		x := open(t, b, rw(second), ro(filepath.Join(second, "kept"), true))
		if box.InitOf(x) == waiting {
			made++
		} else if tries > 20 { // somebody else on this machine may mount something at any time
			t.Fatal("no spare is ever taken")
		}
		out, end := run(t, x, second, "echo a > written && cat written && ls "+first+"; echo b > kept/x; id -u; ls /tmp /var/tmp /dev/shm ~; grep Cap /proc/self/status")
		for _, want := range []string{"a\n", "cannot access '" + first, "Read-only file system", "CapBnd:\t0000000000000000"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s (%+v)", want, out, end)
			}
		}
	}
}

// A spare that was killed, or is of a time before something was mounted, is not taken; nor does it matter to the box that what
// starts inits was killed.
func TestSpareThatIsNoUse(t *testing.T) {
	t.Parallel()
	dir := project(t)
	disturb := map[string]func(t *testing.T, b *box.Boxes, pid int){
		"killed":          func(t *testing.T, _ *box.Boxes, pid int) { kill(t, pid) },
		"launcher killed": func(t *testing.T, b *box.Boxes, pid int) { kill(t, box.LauncherOf(b)); kill(t, pid) },
	}
	point := project(t)
	if err := unix.Mount("none", point, "tmpfs", 0, "size=4k"); err == nil { // only root can
		if err := unix.Unmount(point, 0); err != nil {
			t.Fatal(err)
		}
		disturb["mounted"] = func(t *testing.T, _ *box.Boxes, _ int) {
			if err := unix.Mount("none", point, "tmpfs", 0, "size=4k"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(point, 0) })
		}
	}
	for name, disturb := range disturb {
		t.Run(name, func(t *testing.T) {
			b := boxes(t)
			open(t, b, rw(dir))
			waiting := spare(t, b)
			disturb(t, b, waiting)
			x := open(t, b, rw(dir))
			if box.InitOf(x) == waiting {
				t.Error("the box is made of it")
			}
			if out, end := run(t, x, dir, "echo hello"); out != "hello\n" {
				t.Errorf("%q, %+v", out, end)
			}
			until(t, "an end of the spare", func() bool { return gone(waiting) })
		})
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// A spare that nobody takes goes after its time, and the one that is there when everything is closed goes with it, as does what
// started it: nothing stays open.
func TestSpareGoes(t *testing.T) {
	dir := project(t)
	before := openFiles(t)
	short := boxes(t, func(o *box.Options) { o.SpareIdle = time.Millisecond })
	long := boxes(t)
	open(t, short, rw(dir)).Close()
	open(t, long, rw(dir)).Close()
	waiting, launcher := spare(t, long), box.LauncherOf(long)
	long.Close()
	short.Close()
	if !gone(waiting) || !gone(launcher) {
		t.Error("a process is left")
	}
	if after := openFiles(t); after > before+1 { // and the program of inits, in memory
		t.Errorf("%d files are open, %d were before", after, before)
	}
}
