package sandboxsupervisor_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/ident"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// within is the policy of these tests with the given limits.
func within(limits *commonv1.CageLimits) *commonv1.CagePolicy {
	policy := grantsWork()
	policy.Limits = limits
	return policy
}

// Each limit that ends a command or a cage is reported by its name, to the command and to the cage's holder; a signal
// sent by the command itself is not reported as a limit.
func TestLimitsAreToldApart(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"KILL_GRACE": "200ms"})
	const none, oom, pids, walltime, disk = sandboxsupervisorv1.KillReason_KILL_REASON_UNSPECIFIED,
		sandboxsupervisorv1.KillReason_KILL_REASON_OOM,
		sandboxsupervisorv1.KillReason_KILL_REASON_PIDS, sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME,
		sandboxsupervisorv1.KillReason_KILL_REASON_DISK
	for name, c := range map[string]struct {
		limits  *commonv1.CageLimits
		command string
		want    sandboxsupervisorv1.KillReason
		ends    bool // whether the cage ends too
	}{
		"itself": {&commonv1.CageLimits{MemoryBytes: 128 << 20, Pids: 64, DiskBytes: 64 << 20}, "kill -9 $$", none, false},
		"memory": {
			&commonv1.CageLimits{MemoryBytes: 64 << 20}, "sleep 1000 & head -c 300m /dev/zero | tail >/dev/null; wait", oom,
			false,
		},
		"pids":     {&commonv1.CageLimits{Pids: 32}, "(while sleep 1000 & do :; done); exec sleep 1000", pids, false},
		"disk":     {&commonv1.CageLimits{DiskBytes: 4 << 20}, "while head -c 1m /dev/zero >>large; do :; done", disk, true},
		"walltime": {&commonv1.CageLimits{WalltimeMs: 300}, "trap '' TERM; while :; do sleep 1000; done", walltime, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := mustHold(t, client, project(t), within(c.limits))
			start := shell(t, c.command, pipes, held.in)
			start.Cwd = filepath.Join(held.root, "work")
			r := begin(t, client, start)
			if exit := r.wait(); exit.GetReason() != c.want {
				t.Errorf("the command ended with %v", exit)
			}
			if c.ends {
				if reason := held.ended(t); reason != c.want {
					t.Errorf("the cage ended with %v", reason)
				}
				return
			}
			after := shell(t, "true", pipes, held.in)
			after.Cwd = start.Cwd
			if exit := begin(t, client, after).wait(); exit.GetExitCode() != 0 || exit.GetReason() != none {
				t.Errorf("the next command ended with %v", exit)
			}
		})
	}
}

// Processes in a cage are listed with it and with their usage. The end of its session ends them and the cage, whatever
// they do, and the holder is told (design.md 7).
func TestEndOwnerWithBusyCages(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"CANCEL_GRACE": "100ms"})
	root := project(t)
	held := mustHold(t, client, root, within(&commonv1.CageLimits{MemoryBytes: 256 << 20, Pids: 200}))
	start := shell(t, stubborn, pipes, held.in, session("session"))
	start.Cwd = filepath.Join(root, "work")
	r := begin(t, client, start)
	r.until("pid")
	if _, err := client.StartProcess(t.Context(), &sandboxsupervisorv1.StartProcessRequest{
		ProcessId: ident.New(),
		Start:     start,
	}); err != nil {
		t.Fatal(err)
	}
	var processes *sandboxsupervisorv1.ListProcessesResponse
	waitFor(t, "both commands to use memory, which one that has just begun does not", func() bool {
		var err error
		processes, err = client.ListProcesses(t.Context(), &sandboxsupervisorv1.ListProcessesRequest{SessionId: "session"})
		if err != nil || len(processes.GetProcesses()) != 2 {
			t.Fatalf("what runs is %v, %v", processes, err)
		}
		return !slices.ContainsFunc(
			processes.GetProcesses(),
			func(p *sandboxsupervisorv1.Process) bool { return p.GetMemoryBytes() <= 0 },
		)
	})
	inside := descendants(t, initOf(t, int(processes.GetProcesses()[0].GetPid())))
	for _, p := range processes.GetProcesses() {
		if p.GetCageId() != held.id {
			t.Errorf("a process is %v", p)
		}
	}
	cages, err := client.ListCages(t.Context(), &sandboxsupervisorv1.ListCagesRequest{SessionId: "session"})
	if err != nil || len(cages.GetCages()) != 1 {
		t.Fatalf("the cages are %v, %v", cages, err)
	}
	if c := cages.GetCages()[0]; c.GetCageId() != held.id || c.GetProcesses() < 2 || c.GetMemoryBytes() <= 0 ||
		c.GetAgentPath() != "primary" ||
		c.GetTier() == "" {
		t.Errorf("the cage is %v", c)
	}
	if res, err := client.EndOwner(t.Context(), &sandboxsupervisorv1.EndOwnerRequest{SessionId: "session"}); err != nil ||
		res.GetKilled() != 2 {
		t.Errorf("EndOwner says %v, %v", res, err)
	}
	if reason := held.ended(t); reason != ownerEnded {
		t.Errorf("the cage ended with %v", reason)
	}
	if exit := r.wait(); exit.GetReason() != ownerEnded {
		t.Errorf("the command ended with %v", exit)
	}
	for _, pid := range inside {
		gone(t, pid)
	}
	cages, err = client.ListCages(t.Context(), &sandboxsupervisorv1.ListCagesRequest{})
	if err != nil || len(cages.GetCages()) != 0 {
		t.Errorf("cages are left: %v, %v", cages, err)
	}
	if stubs := noStubs(root); len(stubs) > 0 {
		t.Errorf("stubs are left: %v", stubs)
	}
}

// The probe names the mechanism behind each limit, and the fix for a missing one.
func TestProbeOfLimits(t *testing.T) {
	t.Parallel()
	probe, err := serve(t, nil).ProbeCages(t.Context(), &sandboxsupervisorv1.ProbeCagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, l := range probe.GetLayers() {
		if !strings.HasPrefix(l.GetName(), "limits.") {
			continue
		}
		found++
		switch l.GetState() {
		case "enforced":
			if l.GetBy() == "" || l.GetReason() != "" {
				t.Errorf("%v", l)
			}
		case "best_effort":
			if l.GetBy() == "" || l.GetReason() == "" {
				t.Errorf("%v", l)
			}
		case "missing":
			if l.GetReason() == "" || l.GetFix() == "" || l.GetName() != "limits.cpu" || os.Getuid() == 0 {
				t.Errorf("%v", l)
			}
		}
	}
	if found != 4 {
		t.Errorf("of four limits %d are told of", found)
	}
}
