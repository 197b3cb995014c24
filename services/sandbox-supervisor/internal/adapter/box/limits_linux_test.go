package box_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// limited opens a box with limits, with cgroups where they can be had; boxes that have them say so by having no best effort.
func limited(t testing.TB, limits dsl.Limits, grants ...cage.Grant) core.Box {
	t.Helper()
	b := boxes(t, func(o *box.Options) { o.Cgroups = "kaged-test-" + ident.New() + "-" })
	opened, err := b.Open(t.Context(), core.BoxSpec{ID: ident.New(), View: &cage.View{Grants: grants, Limits: limits}}, func(contract.Attempt) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

// spawn starts a shell command whose output nobody wants; it is killed when the test ends.
func spawn(t testing.TB, b core.Box, command string) core.Process {
	t.Helper()
	p, err := b.Spawn(t.Context(), core.Spec{Argv: []string{"/bin/sh", "-c", command}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Copy(func(core.Stream, []byte) {})
	}()
	t.Cleanup(func() {
		p.Kill()
		<-done
	})
	return p
}

// A command that takes more memory than its cage may have is killed as a whole and told so; the cage lives.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	b := limited(t, dsl.Limits{Memory: 96 << 20})
	other := spawn(t, b, "exec sleep 1000")
	_, end := run(t, b, "/", `sleep 1000 & head -c 300m /dev/zero | tail >/dev/null; wait`)
	if end.Hit != contract.ReasonOOM {
		t.Errorf("the hog ended with %+v", end)
	}
	if out, end := run(t, b, "/", "echo alive"); out != "alive\n" || end.Hit != contract.ReasonNone || end.Code != 0 {
		t.Errorf("after it %q, %+v", out, end)
	}
	other.Kill()
	<-other.Exited()
	if end := other.End(); end.Hit != contract.ReasonNone {
		t.Errorf("another command ended with %+v", end)
	}
}

// A command that reaches the bound of processes and threads is killed; the cage lives.
func TestProcessLimit(t *testing.T) {
	t.Parallel()
	b := limited(t, dsl.Limits{PIDs: 40})
	_, end := run(t, b, "/", `(while sleep 1000 & do :; done); exec sleep 1000`)
	if end.Hit != contract.ReasonPIDs {
		t.Errorf("the bomb ended with %+v", end)
	}
	if out, end := run(t, b, "/", "echo alive"); out != "alive\n" || end.Hit != contract.ReasonNone {
		t.Errorf("after it %q, %+v", out, end)
	}
}

// A share of the CPU is held, and what was used is told; where no cgroup can hold it, the cage is refused by the limit's name.
func TestCPULimit(t *testing.T) {
	t.Parallel()
	b := boxes(t, func(o *box.Options) { o.Cgroups = "kaged-test-" + ident.New() + "-" })
	opened, err := b.Open(t.Context(), core.BoxSpec{ID: ident.New(), View: &cage.View{Limits: dsl.Limits{CPU: 0.2}}}, func(contract.Attempt) {})
	if err != nil {
		var f *fault.Error
		if !errors.As(err, &f) || !errors.Is(err, fault.CageUnavailable) || f.Details["layer"] != "limits.cpu" || os.Getuid() == 0 {
			t.Errorf("the cage is refused with %v", err)
		}
		return
	}
	t.Cleanup(opened.Close)
	began := time.Now()
	if _, end := run(t, opened, "/", `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`); end.Code != 0 {
		t.Errorf("it ended with %+v", end)
	}
	usage, processes := opened.Usage()
	if most := time.Since(began)/5 + 100*time.Millisecond; usage.CPU <= 0 || usage.CPU > most || processes != 0 {
		t.Errorf("a fifth of a core gave %v in %v; %d processes are left", usage.CPU, time.Since(began), processes)
	}
}

// Filling the private folders fills them and nothing else: the command is told that the device is full, and the cage lives,
// with memory for others.
func TestPrivateFoldersAreBounded(t *testing.T) {
	t.Parallel()
	b := limited(t, dsl.Limits{Memory: 64 << 20})
	out, end := run(t, b, "/", `for d in /tmp /var/tmp /dev/shm /home/agent; do head -c 100m /dev/zero >$d/x 2>/dev/null || echo full; done`)
	if out != strings.Repeat("full\n", 4) || end.Hit != contract.ReasonNone {
		t.Errorf("it wrote %q and ended with %+v", out, end)
	}
	out, end = run(t, b, "/", `rm /tmp/x /var/tmp/x /dev/shm/x /home/agent/x; i=0; while true >/tmp/$i; do i=$((i+1)); [ $i -lt 100000 ] || break; done 2>/dev/null; [ $i -lt 100000 ] && echo full`)
	if out != "full\n" || end.Hit != contract.ReasonNone {
		t.Errorf("many files: it wrote %q and ended with %+v", out, end)
	}
}

// What a killed supervisor left of its boxes' cgroups is gone after the next sweep, and a living one's is not.
func TestCgroupsAreSwept(t *testing.T) {
	t.Parallel()
	name := "kaged-test-" + ident.New() + "-"
	named := func(o *box.Options) { o.Cgroups = name }
	b := boxes(t, named)
	opened, err := b.Open(t.Context(), core.BoxSpec{ID: ident.New(), View: &cage.View{Limits: dsl.Limits{Memory: 64 << 20, PIDs: 50}}}, func(contract.Attempt) {})
	if err != nil {
		t.Fatal(err)
	}
	boxes(t, named).Sweep()
	if out, end := run(t, opened, "/", "echo alive"); out != "alive\n" || end.Code != 0 {
		t.Errorf("after another's sweep %q, %+v", out, end)
	}
	opened.Close()
	b.Close()
	left, err := filepath.Glob("/sys/fs/cgroup/*/" + name + "*")
	if err != nil || len(left) > 0 {
		t.Errorf("left is %v, %v", left, err)
	}
}

// A cage that writes more than it may ends with everything in it, and says why: by bytes, by the number of its files, or in files
// that nobody can see any more.
func TestDiskLimit(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"bytes":   `while :; do head -c 1m /dev/zero >>large; done`,
		"files":   `i=0; while :; do : >f$i; i=$((i+1)); done`,
		"removed": `exec 3>gone; rm gone; while :; do head -c 1m /dev/zero >&3; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := project(t)
			b := limited(t, dsl.Limits{Disk: 4 << 20}, rw(dir))
			quiet := spawn(t, b, "exec sleep 1000")
			p, err := b.Spawn(t.Context(), core.Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}})
			if err != nil {
				t.Fatal(err)
			}
			p.Copy(func(core.Stream, []byte) {})
			<-b.Gone()
			if why := b.Why(); why != contract.ReasonDisk {
				t.Errorf("the cage ended with %v", why)
			}
			for _, p := range []core.Process{p, quiet} {
				if <-p.Exited(); !p.End().Lost {
					t.Errorf("a command ended with %+v", p.End())
				}
			}
		})
	}
}

// What was in the project before does not count, and what is removed counts no more.
func TestDiskWithinLimit(t *testing.T) {
	t.Parallel()
	dir := project(t)
	write(t, dir+"/large", strings.Repeat("x", 8<<20), 0o644)
	b := limited(t, dsl.Limits{Disk: 4 << 20}, rw(dir))
	out, end := run(t, b, dir, `cat large >/dev/null; head -c 1m large >part; rm large; head -c 9m /dev/zero >other; echo done`)
	if out != "done\n" || end.Code != 0 {
		t.Errorf("it wrote %q and ended with %+v", out, end)
	}
	select {
	case <-b.Gone():
		t.Errorf("the cage ended with %v", b.Why())
	default:
	}
}

// What is proposed for limits that no cgroup holds can be done: systemd's help where it runs the machine, else the container's own limits.
func TestLimitFix(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := box.LimitFix(dir); !strings.Contains(got, "systemd-run") {
		t.Errorf("with systemd: %s", got)
	}
	if got := box.LimitFix(dir + "/absent"); strings.Contains(got, "systemd") || strings.Contains(got, "root") || !strings.Contains(got, "mem_limit") {
		t.Errorf("without systemd: %s", got)
	}
}
