package sandboxsupervisor_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
)

func init() { helpers["cages"] = helperCages }

// When the supervisor is killed, every cage is gone at once, and the host has no trace of them: no process, mount,
// cgroup, stub or file. This needs neither another start nor a running launcher, inits or shim, which may be stopped.
func TestKilledSupervisorOfCages(t *testing.T) {
	t.Parallel()
	for _, stopped := range [][]string{nil, {"kaged-cages"}, {"kaged-cage"}, {"kaged-cages", "kaged-cage", "kaged-shim"}} {
		t.Run(fmt.Sprint("stopped=", stopped), func(t *testing.T) {
			t.Parallel()
			h := startHolder(t, 2, "")
			h.until(t, "running", 4)
			if len(below(h.project)) == 0 {
				t.Error("there are no stubs")
			}
			processes := descendants(t, h.cmd.Process.Pid)
			if len(processes) < 2*5 {
				t.Errorf("only %v run", processes)
			}
			for _, pid := range processes {
				comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				if err == nil && slices.Contains(stopped, strings.TrimSpace(string(comm))) {
					freeze(t, pid)
				}
			}
			if err := h.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = h.cmd.Wait()
			for _, pid := range processes {
				gone(t, pid)
			}
			h.clean(t)
			h.nothingLeft(t, nil)
		})
	}
}

// A stub exists as long as a process is in the cage that it protects, whichever process was killed: the next supervisor
// removes it once the cage is gone.
func TestStubsOutlastTheSupervisor(t *testing.T) {
	t.Parallel()
	h := startHolder(t, 1, "")
	h.until(t, "running", 2)
	stubs := below(h.project)
	processes := descendants(t, h.cmd.Process.Pid)
	init := 0
	for _, name := range []string{"kaged-cage", "kaged-cages"} {
		for _, pid := range processes {
			if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil ||
				strings.TrimSpace(string(comm)) != name {
				continue
			}
			if name == "kaged-cages" { // the launcher would report the init's end
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				gone(t, pid)
			} else if len(descendants(t, pid)) > 0 { // not a spare
				freeze(t, pid)
				init = pid
			}
		}
	}
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
	restart(t, h.data)
	if now := below(h.project); len(stubs) == 0 || !slices.Equal(now, stubs) {
		t.Errorf("while the cage is there the stubs are %v, they were %v", now, stubs)
	}
	if err := unix.Kill(init, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	h.nothingLeft(t, processes)
}

// The same holds for a kill while twenty cages are being made, at any stage.
func TestKilledWhileMakingCages(t *testing.T) {
	t.Parallel()
	for _, opened := range []int{1, 7, 15} {
		t.Run(fmt.Sprint(opened), func(t *testing.T) {
			t.Parallel()
			h := startHolder(t, 20, "")
			h.until(t, "opened", opened)
			// Once stopped, it starts no further processes.
			freeze(t, h.cmd.Process.Pid)
			processes := descendants(t, h.cmd.Process.Pid)
			if err := h.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = h.cmd.Wait()
			h.nothingLeft(t, processes)
		})
	}
}

// initOf returns the first process of a process's cage.
func initOf(t testing.TB, pid int) int {
	t.Helper()
	space := func(pid int) string {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	inside := space(pid)
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		parent, _ := strconv.Atoi(strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[1])
		if parent == 0 || space(parent) != inside {
			return pid
		}
		pid = parent
	}
}

// When the first process of a cage is killed, all its processes end, each command is reported as lost, the holders are
// told, and other cages continue.
func TestKilledInit(t *testing.T) {
	t.Parallel()
	client, root := serve(t, nil), project(t)
	c, other := mustHold(t, client, root, grantsWork()), mustHold(t, client, root, grantsWork())
	spared := begin(t, client, shell(t, "echo up; read x; echo still", pipes, other.in))
	spared.until("up")
	var commands []*running
	for _, kind := range []func(*sandboxsupervisorv1.ExecStart){pipes, timeout(60_000)} {
		r := begin(t, client, shell(t, stubborn, kind, c.in))
		r.until("pid")
		commands = append(commands, r)
	}
	detached := shell(t, stubborn, c.in)
	started, err := client.StartProcess(
		t.Context(),
		&sandboxsupervisorv1.StartProcessRequest{ProcessId: ident.New(), Start: detached},
	)
	if err != nil {
		t.Fatal(err)
	}
	first := initOf(t, int(commands[0].started.GetPid()))
	processes := descendants(t, first)
	if len(processes) < 5 {
		t.Errorf("only %v run in the cage", processes)
	}
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, r := range commands {
		if exit := r.wait(); exit.GetReason() != lost {
			t.Errorf("a command ended with %v", exit)
		}
	}
	if reason := c.ended(t); reason != lost {
		t.Errorf("the cage ended with %v", reason)
	}
	for _, pid := range append(processes, int(started.GetProcess().GetPid())) {
		gone(t, pid)
	}
	refusal := shell(t, "true", c.in)
	if _, err := tryBegin(t, client, refusal); err == nil {
		t.Error("a command was started in a cage that is gone")
	}
	spared.write("\n")
	spared.wait()
	if !strings.Contains(spared.stdout.String(), "still") {
		t.Errorf("another cage's command wrote %q", spared.stdout.String())
	}
	if err := errors.Join(noStubs(root)...); err == nil {
		return
	}
	other.release()
	waitFor(t, "the stubs to go", func() bool { return len(noStubs(root)) == 0 })
}

// Hundreds of commands in one cage, and many cages in a row, leak no open file, process, cgroup or stub.
func TestCagesLeakNothing(t *testing.T) {
	opts := testkit.Options(t)
	settings := settings{"CAGE_SPARE": "0s"} // spares come and go
	opts.Getenv = func(name string) string {
		return settings[strings.TrimPrefix(name, "KAGED_SERVICES_SANDBOX_SUPERVISOR_")]
	}
	h, err := host.New(opts, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	running := testkit.Start(t, h)
	defer testkit.Stop(t, running)
	client, root := sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor")), project(t)
	one := func(start *sandboxsupervisorv1.ExecStart) {
		if exit, err := caged(client, start, func([]byte) {}); err != nil || exit.GetExitCode() != 0 {
			t.Fatalf("%v, %v", exit, err)
		}
	}
	alone := shell(t, "true", pipes, inCage(root, grantsWork()))
	one(shell(t, "true", pipes)) // starts the shim
	one(alone)                   // makes the next cage's spare
	settled := func() [3]int {
		return [3]int{openFiles(t), len(descendants(t, os.Getpid())), len(cgroups(t, opts.DataDir.String()))}
	}
	before, now := settled(), [3]int{}
	defer func() {
		if t.Failed() {
			t.Errorf("files, processes and cgroups are %v, were %v; in the project stand %v", now, before, noStubs(root))
		}
	}()
	c := mustHold(t, client, root, grantsWork())
	for i := range 300 {
		start := shell(t, "(setsid sleep 1000 &) ; true", pipes, c.in)
		if i%10 == 0 {
			start.Terminal = &sandboxsupervisorv1.Terminal{}
		}
		start.Cwd = filepath.Join(root, "work")
		one(start)
	}
	c.release()
	for range 20 {
		one(alone)
	}
	waitFor(t, "what was used to be given back", func() bool {
		now = settled()
		return now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2] && len(noStubs(root)) == 0
	})
}

// A command that writes endlessly to a caller that does not read blocks, uses no further memory, and continues when the
// caller reads again.
func TestOutputFloodFromACage(t *testing.T) {
	client, root := serve(t, nil), project(t)
	start := shell(t, "", pipes, inCage(root, grantsWork()))
	start.Argv = []string{"head", "-c", strconv.Itoa(1 << 30), "/dev/zero"}
	r := begin(t, client, start)
	written := func() (n int64) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", r.started.GetPid()))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Sscanf(string(text[bytes.Index(text, []byte("wchar: ")):]), "wchar: %d", &n)
		return n
	}
	// It is blocked once several checks in a row find no new output.
	last, same := int64(-1), 0
	waitFor(t, "the command to stand still", func() bool {
		n := written()
		if n != last {
			last, same = n, 0
		}
		same++
		return same > 2000
	})
	if last > 64<<20 {
		t.Errorf("it wrote %d bytes that nobody has read", last)
	}
	for total := int64(0); total < last+(32<<20); { // the blocked command continues
		event, err := r.stream.Recv()
		if err != nil || event.GetExited() != nil {
			t.Fatalf("after %d bytes: %v, %v", total, event, err)
		}
		total += int64(len(event.GetOutput().GetData()))
	}
	r.cancel()
	gone(t, int(r.started.GetPid()))
}
