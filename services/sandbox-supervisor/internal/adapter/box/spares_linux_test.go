package box_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// until waits until is returns true; what names the condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("there is still not: " + what)
		}
	}
}

// spare waits for the spare and returns its process id.
func spare(t *testing.T, b *box.Boxes) (pid int) {
	t.Helper()
	until(t, "a spare", func() bool { pid = box.SpareOf(b); return pid != 0 })
	return pid
}

// gone reports whether a process has ended; a zombie counts as ended, because its parent may be another process.
func gone(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err != nil || strings.Contains(string(status), "State:\tZ")
}

// After a cage was made, a spare is started. The next cage, with other grants, uses it and is like any other; then
// there is a new spare.
func TestSpare(t *testing.T) {
	t.Parallel()
	b := boxes(t)
	first, second := project(t), project(t)
	open(t, b, rw(first))
	for pid, name := range map[int]string{spare(t, b): "kaged-cage\n", box.LauncherOf(b): "kaged-cages\n"} {
		until(t, "the name "+name, func() bool {
			comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
			return err == nil && string(comm) == name
		})
	}
	for made, tries := 0, 0; made < 3; tries++ {
		waiting := spare(t, b)
		x := open(t, b, rw(second), ro(filepath.Join(second, "kept"), true))
		if box.InitOf(x) == waiting {
			made++
		} else if tries > 20 { // a mount by another process makes a spare stale at any time
			t.Fatal("no spare is ever taken")
		}
		out, end := run(t, x, second, "echo a > written && cat written && ls "+first+"; echo b > kept/x; id -u; "+
			"ls /tmp /var/tmp /dev/shm ~; grep Cap /proc/self/status")
		for _, want := range []string{
			"a\n", "cannot access '" + first,
			"Read-only file system", "CapBnd:\t0000000000000000",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s (%+v)", want, out, end)
			}
		}
	}
}

// A killed spare, and one older than a change of mounts, is not used. A killed launcher does not prevent the next cage.
func TestSpareThatIsNoUse(t *testing.T) {
	t.Parallel()
	dir := project(t)
	disturb := map[string]func(t *testing.T, b *box.Boxes, pid int){
		"killed":          func(t *testing.T, _ *box.Boxes, pid int) { kill(t, pid) },
		"launcher killed": func(t *testing.T, b *box.Boxes, pid int) { kill(t, box.LauncherOf(b)); kill(t, pid) },
		"launcher stopped": func(t *testing.T, b *box.Boxes, pid int) {
			if err := unix.Kill(box.LauncherOf(b), unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			kill(t, pid)
		},
	}
	point := project(t)
	if err := unix.Mount("none", point, "tmpfs", 0, "size=4k"); err == nil { // succeeds for root only
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
			b := boxes(t, func(o *box.Options) {
				if name == "launcher stopped" {
					o.StartTimeout = 5 * time.Second // the time after which the launcher is replaced
				}
			})
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

// An unused spare ends after its idle time; Close ends a present spare and the launcher. No descriptor stays open.
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
		t.Error("the spare's process is still there")
	}
	if after := openFiles(t); after > before+1 { // plus the init program in memory
		t.Errorf("%d files are open, %d were before", after, before)
	}
}

// A spare keeps an unmounted file system busy only briefly.
func TestSpareLetsGoOfMounts(t *testing.T) {
	t.Parallel()
	point := project(t)
	if err := unix.Mount("none", point, "tmpfs", 0, "size=4k"); err != nil {
		t.Skip("only root can mount: ", err)
	}
	mounted := true
	t.Cleanup(func() {
		if mounted {
			_ = unix.Unmount(point, 0)
		}
	})
	b := boxes(t)
	open(t, b, rw(project(t)))
	waiting := spare(t, b)
	if err := unix.Unmount(point, 0); err != nil {
		t.Fatal(err)
	}
	mounted = false
	until(t, "an end of the spare", func() bool { return gone(waiting) })
}

// The failed layer is named, however early the init fails, because the choice of another tier depends on it.
func TestFailedLayerIsNamed(t *testing.T) {
	t.Parallel()
	b := boxes(t, func(o *box.Options) { o.System = append(o.System, "/etc/passwd/none") })
	for range 30 {
		_, err := b.Open(t.Context(), core.BoxSpec{ID: ident.New(), View: &cage.View{Root: "/"}}, func(contract.Attempt) {})
		if layer := box.LayerOf(err); layer != blueprint.LayerMount {
			t.Fatalf("the layer is %q: %v", layer, err)
		}
	}
}

// The loss of the launcher does not count against user namespaces: no weaker tier is tried.
func TestLostLauncherIsNoTier(t *testing.T) {
	t.Parallel()
	if layer := box.LayerOfLost(); layer == "" || box.MayBeOtherwise(layer) {
		t.Errorf("it is layer %q", layer)
	}
}

// A launcher survives the SIGTERM that a service manager sends to every process of a service.
func TestLauncherStays(t *testing.T) {
	t.Parallel()
	b := boxes(t, func(o *box.Options) { o.SpareIdle = 0 })
	dir := project(t)
	open(t, b, rw(dir))
	launcher := box.LauncherOf(b)
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM} {
		if err := unix.Kill(launcher, sig); err != nil {
			t.Fatal(err)
		}
	}
	open(t, b, rw(dir))
	if now := box.LauncherOf(b); now != launcher {
		t.Errorf("the launcher is %d, it was %d", now, launcher)
	}
}

// A subreaper, such as pid 1 of a container, reaps the inits of a killed launcher.
func TestOrphanedInit(t *testing.T) { // alone: other tests leave orphans too
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	b := boxes(t, func(o *box.Options) { o.SpareIdle = 0 })
	dir := project(t)
	x := open(t, b, rw(dir))
	init := box.InitOf(x)
	kill(t, box.LauncherOf(b))
	until(t, "an orphan", func() bool {
		children, _ := proc.Children()
		return slices.Contains(children, init)
	})
	x.Close()
	if _, err := os.Stat("/proc/" + strconv.Itoa(init)); err == nil {
		t.Error("the orphaned init is a zombie")
	}
}
