package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/ident"
)

// The folder is found in a plain, a hybrid and a namespaced hierarchy.
func TestFolder(t *testing.T) {
	t.Parallel()
	const v1 = "40 31 0:37 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
	for name, c := range map[string]struct{ mounts, cgroups, want string }{
		"plain": {
			"30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n", "0::/user.slice/a\n", "/sys/fs/cgroup/user.slice/a",
		},
		"hybrid": {
			v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n", "8:pids:/x\n0::/\n",
			"/sys/fs/cgroup/unified",
		},
		"sub mount": {
			"30 24 0:26 /docker/c1 /sys/fs/cgroup ro - cgroup2 cgroup ro\n", "0::/docker/c1/job\n", "/sys/fs/cgroup/job",
		},
		"outside":    {"30 24 0:26 /docker/c1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/elsewhere\n", "/sys/fs/cgroup"},
		"with space": {`30 24 0:26 / /a\040b rw - cgroup2 cgroup rw` + "\n", "0::/\n", "/a b"},
		"v1 only":    {v1, "8:pids:/x\n", ""},
		"empty":      {"", "", ""},
	} {
		if got := hierarchiesIn(c.mounts, c.cgroups); got.v2 != c.want {
			t.Errorf("%s: %q, want %q", name, got.v2, c.want)
		}
	}
}

// Killing a cgroup kills its processes, cgroups below included, and its tree can be opened again without a close.
func TestLeftoversAreKilled(t *testing.T) {
	t.Parallel()
	name := "kaged-test-" + ident.New()
	tree, err := Open(name)
	if err != nil {
		// Without cgroups Open must fail and leave no folder behind.
		t.Logf("no cgroups here: %v", err)
		if parent, err := own(); err == nil {
			if _, err := os.Stat(filepath.Join(parent, name)); err == nil {
				t.Error("a failed Open left its folder")
			}
		}
		return
	}
	leaf, err := tree.Leaf("cmd")
	if err != nil {
		t.Fatal(err)
	}
	if full, err := Populated(leaf.FD()); full || err != nil {
		t.Errorf("a new leaf is populated: %v, %v", full, err)
	}
	cmd := exec.Command(
		"/bin/sh",
		"-c",
		`trap "" TERM HUP; mkdir "$1/inner" && (echo 0 >"$1/inner/cgroup.procs"; setsid sleep 1000) & echo up; wait`,
		"sh",
		leaf.path,
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: leaf.FD()}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if pids, err := Processes(leaf.FD()); err != nil || len(pids) < 2 {
		t.Errorf("the leaf holds %v, %v, want the shell and what it started", pids, err)
	}
	if cpu, err := leaf.CPU(); err != nil || cpu < 0 {
		t.Errorf("CPU is %v, %v", cpu, err)
	}
	again, err := Open(name)
	if err != nil {
		t.Fatalf("opening over leftovers: %v", err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("the leftover ended with %v", err)
	}
	if err := leaf.Remove(); err != nil {
		t.Errorf("removing a leaf that is gone: %v", err)
	}
	if err := again.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(again.path); err == nil {
		t.Error("the tree is still there")
	}
}
