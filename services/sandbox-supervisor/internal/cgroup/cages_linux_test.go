package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup/tasks"
)

// entering is held while a thread of this process is in a cage's cgroups. If that is the first thread, its cgroup
// counts as the process's own.
var entering sync.Mutex

// openCages calls OpenCages while no thread is in another cgroup.
func openCages(name string) (*Cages, error) {
	entering.Lock()
	defer entering.Unlock()
	return OpenCages(name, ident.New(), func(int) bool { return false })
}

// open makes cgroups for cages, and removes them when the test ends.
func open(t testing.TB, name string) *Cages {
	t.Helper()
	c, err := openCages(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// limited makes a cage with a limit. Without the controller it checks that there is a reason, and returns nil.
func limited(t *testing.T, c *Cages, controller string, limits Limits) *Cage {
	t.Helper()
	by, why := c.Support(controller, true)
	if by == "" {
		if why == "" {
			t.Errorf("there is no %s and no reason", controller)
		}
		t.Logf("no %s here: %s", controller, why)
		return nil
	}
	cage, err := c.Make(ident.New(), limits, os.Getuid(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cage.Remove(); err != nil {
			t.Error(err)
		}
	})
	return cage
}

// run starts a shell script as the only command of a cage, in the way of an init: from a thread that enters its
// cgroups.
func run(t testing.TB, cage *Cage, script string) (*exec.Cmd, *Command) {
	t.Helper()
	command, err := cage.Command("cmd-" + ident.New())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	files, folder := command.Files()
	if folder {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, files[len(files)-1]
		files = files[:len(files)-1]
	}
	started := make(chan error)
	entering.Lock()
	defer entering.Unlock()
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		back, err := tasks.Enter(files)
		if err == nil {
			err = cmd.Start()
			back()
		}
		started <- err
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return cmd, command
}

// A command that exceeds its cage's memory limit is killed with its descendants; other commands are not.
func TestMemory(t *testing.T) {
	t.Parallel()
	cage := limited(t, open(t, "kaged-test-"+ident.New()), "memory", Limits{Memory: 32 << 20})
	if cage == nil {
		return
	}
	other, bystander := run(t, cage, "exec sleep 1000")
	// The waiting shell belongs to the same command as the hog and would continue without it.
	cmd, command := run(t, cage, `sleep 1000 & head -c 100m /dev/zero | tail; wait`)
	err := cmd.Wait()
	if hit := command.Release(); hit != HitMemory || err == nil {
		t.Errorf("the hog ended with %v, hit %v", err, hit)
	}
	if used, err := cage.Memory(); err != nil || used <= 0 || used > 32<<20 {
		t.Errorf("the cage uses %d, %v", used, err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other command: %v", err)
	}
	if err := bystander.Kill(); err != nil {
		t.Error(err)
	}
	if err := other.Wait(); err == nil {
		t.Error("the other command was not killed")
	}
	if hit := bystander.Release(); hit != HitNone {
		t.Errorf("the other command hit %v", hit)
	}
}

// A command that reaches the process limit is killed, however it forks; another command is not.
func TestPIDs(t *testing.T) {
	t.Parallel()
	cage := limited(t, open(t, "kaged-test-"+ident.New()), "pids", Limits{PIDs: 32})
	if cage == nil {
		return
	}
	other, bystander := run(t, cage, "exec sleep 1000")
	cmd, command := run(t, cage, `b() { b | b & }; b; sleep 1000; sleep 1000`)
	err := cmd.Wait()
	if hit := command.Release(); hit != HitPIDs || err == nil {
		t.Errorf("the bomb ended with %v, hit %v", err, hit)
	}
	if err := bystander.Kill(); err != nil {
		t.Error(err)
	}
	if err := other.Wait(); err == nil {
		t.Error("the other command was not killed")
	}
	if hit := bystander.Release(); hit != HitNone {
		t.Errorf("the other command hit %v", hit)
	}
}

// A cage gets no more CPU than its share, and reports its use.
func TestCPU(t *testing.T) {
	t.Parallel()
	cage := limited(t, open(t, "kaged-test-"+ident.New()), "cpu", Limits{CPU: 0.1})
	if cage == nil {
		return
	}
	began := time.Now()
	cmd, command := run(t, cage, `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if most := time.Since(began)/10 + 50*time.Millisecond; used > most { // one period and the time in flight
		t.Errorf("a tenth of a core gave %v in %v", used, time.Since(began))
	}
	if cpu, pids, err := command.Usage(); err == nil && (cpu < used/2 || len(pids) != 0) {
		t.Errorf("usage is %v of %v, by %v", cpu, used, pids)
	}
	if cpu, err := cage.CPU(); err == nil && cpu < used/2 {
		t.Errorf("the cage's usage is %v of %v", cpu, used)
	}
	if hit := command.Release(); hit != HitNone {
		t.Errorf("it hit %v", hit)
	}
}

// The next supervisor with the same name kills and removes the remains of a killed one, in every hierarchy.
func TestCagesLeft(t *testing.T) {
	t.Parallel()
	name := "kaged-test-" + ident.New()
	first, err := openCages(name)
	if err != nil {
		t.Fatal(err)
	}
	if first.v2 == "" && len(first.v1) == 0 {
		t.Logf("there are no cgroups for cages here: %v", first.why)
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	cage, err := first.Make(ident.New(), Limits{Memory: 64 << 20, PIDs: 50, CPU: 1}, os.Getuid(), true)
	if err != nil {
		t.Fatal(err)
	}
	cmd, _ := run(t, cage, `trap "" TERM; setsid sleep 1000 & while :; do sleep 1000; done`)
	other := open(t, name) // a live supervisor's folders are not touched
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another supervisor killed a living one's command: %v", err)
	}
	for _, h := range first.v1 { // simulates its end
		h.close()
	}
	if first.v2lock != nil {
		first.v2lock.Close()
	}
	second := open(t, name)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("what was left ended with %v", err)
	}
	for controller, h := range second.v1 {
		if _, err := os.Stat(first.v1[controller].dir); err == nil {
			t.Errorf("left is %s", h.dir)
		}
		if _, err := os.Stat(other.v1[controller].dir); err != nil {
			t.Error(err)
		}
	}
	if err := cage.Remove(); err != nil { // already removed
		t.Error(err)
	}
	if _, err := cage.Command("late"); !errors.Is(err, errRemoved) && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command in a cage that is gone: %v", err)
	}
	first.watch.close()
}

// A thread enters all cgroups or none, and returns.
func TestEnter(t *testing.T) {
	t.Parallel()
	var files []int
	var read []*os.File
	for range 4 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		files, read = append(files, int(w.Fd())), append(read, r)
	}
	back, err := tasks.Enter(files)
	if err != nil {
		t.Fatal(err)
	}
	back()
	if _, err := tasks.Enter([]int{files[0], -1, files[2], files[3]}); err == nil {
		t.Error("a cgroup that is none was entered")
	}
	if _, err := tasks.Enter(files[:3]); err == nil {
		t.Error("a cgroup without a way back was entered")
	}
	for i, want := range []string{"00", "0", "00", "0"} {
		got := make([]byte, 8)
		n, err := read[i].Read(got)
		if err != nil || string(got[:n]) != want {
			t.Errorf("file %d was written %q, %v", i, got[:n], err)
		}
	}
}

// BenchmarkCommand measures placing an init, and a command's cgroups (cages.md: 0.27 to 1.35 ms; writing the pid takes
// 8 to 27).
func BenchmarkCommand(b *testing.B) {
	c := open(b, "kaged-bench-"+ident.New())
	cage, err := c.Make(ident.New(), Limits{Memory: 256 << 20, PIDs: 200, CPU: 2}, os.Getuid(), true)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cmd, command := run(b, cage, "exit 0")
		_ = cmd.Wait()
		command.Release()
	}
	b.StopTimer()
	c.work.Wait()
	if err := cage.Remove(); err != nil {
		b.Error(err)
	}
}
