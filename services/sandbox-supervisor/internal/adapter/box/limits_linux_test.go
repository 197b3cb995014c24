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

// limited opens a cage with limits, enforced by cgroups where possible; such a cage has no BestEffort entries.
func limited(t testing.TB, limits dsl.Limits, grants ...cage.Grant) core.Box {
	t.Helper()
	b := boxes(t, func(o *box.Options) { o.Cgroups = "kaged-test-" + ident.New() + "-" })
	spec := core.BoxSpec{ID: ident.New(), View: &cage.View{Grants: grants, Limits: limits}}
	opened, err := b.Open(t.Context(), spec, func(contract.Attempt) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

// spawn starts a shell command and discards its output; it is killed at the test's end.
func spawn(t testing.TB, b core.Box, command string) core.Process {
	t.Helper()
	spec := core.Spec{Argv: []string{"/bin/sh", "-c", command}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}}
	p, err := b.Spawn(t.Context(), spec)
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

// A command that exceeds its cage's memory limit is killed with its children, and its end has the reason oom; the cage
// survives.
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

// A command that reaches the process limit is killed; the cage survives.
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

// A CPU limit is enforced and the usage reported. Without a cgroup the cage is refused, and the error names the limit.
func TestCPULimit(t *testing.T) {
	t.Parallel()
	b := boxes(t, func(o *box.Options) { o.Cgroups = "kaged-test-" + ident.New() + "-" })
	opened, err := b.Open(t.Context(),
		core.BoxSpec{ID: ident.New(), View: &cage.View{Limits: dsl.Limits{CPU: 0.2}}}, func(contract.Attempt) {})
	if err != nil {
		var f *fault.Error
		named := errors.As(err, &f) && f.Details["layer"] == "limits.cpu"
		if !named || !errors.Is(err, fault.CageUnavailable) || os.Getuid() == 0 {
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
		t.Errorf("a fifth of a core gave %v in %v; %d processes remain", usage.CPU, time.Since(began), processes)
	}
}

// A command that fills the private folders gets the error of a full device. The cage survives and memory remains for
// other commands.
func TestPrivateFoldersAreBounded(t *testing.T) {
	t.Parallel()
	b := limited(t, dsl.Limits{Memory: 64 << 20})
	out, end := run(t, b, "/",
		`for d in /tmp /var/tmp /dev/shm /home/agent; do head -c 100m /dev/zero >$d/x 2>/dev/null || echo full; done`)
	if out != strings.Repeat("full\n", 4) || end.Hit != contract.ReasonNone {
		t.Errorf("it wrote %q and ended with %+v", out, end)
	}
	out, end = run(t, b, "/", `rm /tmp/x /var/tmp/x /dev/shm/x /home/agent/x; `+
		`i=0; while true >/tmp/$i; do i=$((i+1)); [ $i -lt 100000 ] || break; done 2>/dev/null; `+
		`[ $i -lt 100000 ] && echo full`)
	if out != "full\n" || end.Hit != contract.ReasonNone {
		t.Errorf("many files: it wrote %q and ended with %+v", out, end)
	}
}

// A sweep removes the cgroups of killed supervisors and keeps those of a living one.
func TestCgroupsAreSwept(t *testing.T) {
	t.Parallel()
	name := "kaged-test-" + ident.New() + "-"
	named := func(o *box.Options) { o.Cgroups = name }
	b := boxes(t, named)
	spec := core.BoxSpec{ID: ident.New(), View: &cage.View{Limits: dsl.Limits{Memory: 64 << 20, PIDs: 50}}}
	opened, err := b.Open(t.Context(), spec, func(contract.Attempt) {})
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

// A cage that exceeds its disk limit ends with every command, and the reason is disk: by bytes, by the number of files,
// or in deleted files that are still open.
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
			spec := core.Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}}
			p, err := b.Spawn(t.Context(), spec)
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

// The disk limit does not count earlier files of the project, and no longer counts removed ones.
func TestDiskWithinLimit(t *testing.T) {
	t.Parallel()
	dir := project(t)
	write(t, dir+"/large", strings.Repeat("x", 8<<20), 0o644)
	b := limited(t, dsl.Limits{Disk: 4 << 20}, rw(dir))
	out, end := run(t, b, dir,
		`cat large >/dev/null; head -c 1m large >part; rm large; head -c 9m /dev/zero >other; echo done`)
	if out != "done\n" || end.Code != 0 {
		t.Errorf("it wrote %q and ended with %+v", out, end)
	}
	select {
	case <-b.Gone():
		t.Errorf("the cage ended with %v", b.Why())
	default:
	}
}

// The proposed fix suits the machine: systemd's delegation under systemd, else the container's own limits.
func TestLimitFix(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := box.LimitFix(dir); !strings.Contains(got, "systemd-run") {
		t.Errorf("with systemd: %s", got)
	}
	got := box.LimitFix(dir + "/absent")
	if strings.Contains(got, "systemd") || strings.Contains(got, "root") || !strings.Contains(got, "mem_limit") {
		t.Errorf("without systemd: %s", got)
	}
}
