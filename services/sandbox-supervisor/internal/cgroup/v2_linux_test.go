package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/ident"
)

// fakeV2 is a tree on disk in the form of cgroup2, with controllers.
func fakeV2(t *testing.T) *Cages {
	t.Helper()
	watch, err := newWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.close)
	c := &Cages{
		name:  "kaged",
		v1:    map[string]*home{},
		why:   map[string]error{},
		watch: watch,
		v2:    t.TempDir(),
		v2has: controllers,
	}
	c.mkdir = func(path string) error {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		files := map[string]string{
			"cgroup.subtree_control": "", "cgroup.procs": "", "cgroup.kill": "", "cpu.stat": "usage_usec 5000\n",
			"memory.max": "", "memory.swap.max": "", "memory.oom.group": "0\n", "memory.current": "9000\n",
			"memory.stat": "anon 1\ninactive_file 4000\n", "memory.events": "low 0\noom_kill 0\n",
			"pids.max": "", "pids.events": "max 0\n", "pids.current": "0\n", "cpu.max": "",
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(data))
}

// With cgroup2's controllers the limits apply to the commands' cgroup and not to the init's, swap is off, and a command
// is killed as a whole. Its limit is found by its own counters, or, if only the cage's counter has counted, by the
// number of threads.
func TestV2Files(t *testing.T) {
	t.Parallel()
	c := fakeV2(t)
	cage := &Cage{
		cages:    c,
		id:       "a",
		limits:   Limits{Memory: 5 << 20, CPU: 1.5, PIDs: 9},
		uid:      os.Getuid(),
		into:     true,
		commands: map[*Command]struct{}{},
	}
	if err := cage.make(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(c.v2, "a")
	for file, want := range map[string]string{
		"cgroup.subtree_control": "+cpu +memory +pids", "box/cgroup.subtree_control": "+cpu +memory +pids",
		"box/memory.max": strconv.Itoa(5 << 20), "box/memory.swap.max": "0", "box/cpu.max": "150000 100000",
		"box/pids.max":    "9",
		"init/memory.max": "", "init/pids.max": "", "box/memory.oom.group": "0",
	} {
		if got := content(t, filepath.Join(dir, file)); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if used, err := cage.Memory(); used != 5000 || err != nil {
		t.Errorf("memory is %d, %v", used, err)
	}
	if cpu, err := cage.CPU(); cpu != 5*time.Millisecond || err != nil {
		t.Errorf("CPU is %v, %v", cpu, err)
	}
	var commands [3]*Command
	for i := range commands {
		command, err := cage.Command("cmd-" + strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		commands[i] = command
		if err := os.WriteFile(filepath.Join(dir, "box", command.name, "pids.current"), []byte(strconv.Itoa(2*i)),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(dir, "box", "cmd-0")
	if group, most := content(t, filepath.Join(own, "memory.oom.group")),
		content(t, filepath.Join(own, "pids.max")); group != "1" ||
		most != "9" {
		t.Errorf("the command's memory.oom.group is %q, its pids.max %q", group, most)
	}
	if err := os.WriteFile(filepath.Join(own, "memory.events"), []byte("low 0\noom_kill 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "box", "pids.events"), []byte("max 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cage.look()
	c.work.Wait()
	for i, want := range []Hit{HitMemory, HitNone, HitPIDs} {
		if commands[i].hit != want {
			t.Errorf("command %d has hit %v, want %v", i, commands[i].hit, want)
		}
		killed := content(t, filepath.Join(dir, "box", commands[i].name, "cgroup.kill"))
		if (killed == "1") != (want != HitNone) {
			t.Errorf("command %d: cgroup.kill is %q", i, killed)
		}
	}
}

// A cgroup that contains processes cannot delegate controllers: kaged's are moved aside, reparented ones included, and
// no other supervisor mistakes them for remains. Foreign processes are not moved, and limits work once they have left.
// The test uses any controller that cgroup2 has here.
func TestGrant(t *testing.T) {
	parent, err := own()
	if err != nil {
		t.Logf("no cgroup2 here: %v", err)
		return
	}
	available := strings.Fields(content(t, filepath.Join(parent, "cgroup.controllers")))
	if len(available) == 0 {
		c := &Cages{name: "kaged", own: parent}
		if err := c.handOut("memory"); err == nil || !strings.Contains(err.Error(), "Delegate=yes") {
			t.Errorf("without a controller: %v", err)
		}
		t.Log("cgroup2 has no controllers here")
		return
	}
	defer func(all []string) { controllers = all }(controllers)
	controller := available[0]
	controllers = available[:1]
	dir := filepath.Join(parent, "kaged-test-"+ident.New())
	tree, err := openAt(dir)
	if err != nil {
		t.Logf("the own cgroup is not ours to change: %v", err)
		return
	}
	defer func() {
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
	}()
	if !lend(t, parent, controller, tree) {
		return
	}
	child, orphan, stranger := startIn(t, dir, false), startIn(t, dir, true), startIn(t, dir, true)
	if err := enable(dir, controller); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("a cgroup with processes hands out a controller: %v", err)
	}
	watch, err := newWatcher()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cages{
		name:  "kaged",
		v1:    map[string]*home{},
		why:   map[string]error{},
		mkdir: mkdir,
		watch: watch,
		ours:  func(pid int) bool { return pid == orphan },
	}
	if err := c.openV2(dir); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if by, why := c.Support(controller, true); by != "" || why != errShared.Error() {
		t.Errorf("beside a stranger's process the controller is by %q, because of %q", by, why)
	}
	if pids := processesIn(dir); len(pids) != 3 {
		t.Errorf("in the cgroup are only %v", pids)
	}
	if err := unix.Kill(stranger, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); slices.Contains(processesIn(dir), stranger); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("a killed process stays")
		}
	}
	if by, why := c.Support(controller, true); by == "" {
		t.Errorf("the controller is not there because of %q", why)
	}
	sweep(dir, "kaged", remove)
	moved := processesIn(filepath.Join(dir, "kaged-self"))
	slices.Sort(moved)
	if want := []int{min(child, orphan), max(child, orphan)}; !slices.Equal(moved, want) {
		t.Errorf("moved aside are %v, want %v", moved, want)
	}
	if c.mine(1) && os.Getpid() != 1 {
		t.Error("the first process is taken for ours")
	}
}

// lend enables a controller for the cgroups below parent until the test's end, when tree is removed first. It reports
// whether the controller is enabled.
func lend(t *testing.T, parent, controller string, tree *Tree) bool {
	t.Helper()
	if strings.Contains(content(t, filepath.Join(parent, "cgroup.subtree_control")), controller) {
		return true
	}
	if err := enable(parent, controller); err != nil {
		t.Logf("the own cgroup is not ours to change: %v", err)
		return false
	}
	t.Cleanup(func() {
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
		if err := put(filepath.Join(parent, "cgroup.subtree_control"), "-"+controller); err != nil {
			t.Error(err)
		}
	})
	return true
}

// startIn starts a process in a cgroup, a child of this one or an orphan, and returns its
// id. It ends with the cgroup.
func startIn(t *testing.T, dir string, orphan bool) (pid int) {
	t.Helper()
	folder, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(folder)
	attr := &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: folder}
	if orphan {
		cmd := exec.Command("/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
		cmd.SysProcAttr = attr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(out))); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it was killed with its cgroup
	return cmd.Process.Pid
}
