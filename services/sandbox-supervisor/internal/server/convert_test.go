package server

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// Every field of a start reaches core, and a cage is never dropped.
func TestCommandFromProto(t *testing.T) {
	t.Parallel()
	c, err := commandFromProto(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Start{
		Start: &sandboxsupervisorv1.ExecStart{
			Owner: &sandboxsupervisorv1.Owner{SessionId: "s", RunId: "r", CallId: "c", ProjectId: "p", AgentPath: "a"}, Argv: []string{"a", "b"},
			Cwd: "/dir", Env: map[string]string{"K": "V"}, Terminal: &sandboxsupervisorv1.Terminal{Cols: 1, Rows: 2}, TimeoutMs: 1500,
			Cage: &commonv1.CagePolicy{}, MergeStderr: true,
		},
	}})
	if err != nil || c.Owner != (core.Owner{SessionID: "s", RunID: "r", CallID: "c", ProjectID: "p", Agent: "a"}) || len(c.Argv) != 2 ||
		c.Dir != "/dir" || c.Env["K"] != "V" || *c.Terminal != (core.Size{Cols: 1, Rows: 2}) || c.Timeout != 1500*time.Millisecond || c.Cage == nil || !c.Merge {
		t.Errorf("the command is %+v, %v", c, err)
	}
	for _, req := range []*sandboxsupervisorv1.ExecRequest{nil, {}, {Request: &sandboxsupervisorv1.ExecRequest_Start{}}} {
		if _, err := commandFromProto(req); err == nil {
			t.Errorf("%v became a command", req)
		}
	}
}

// Milliseconds keep their order as durations, whatever the number: none overflows into one that would be allowed.
func TestMilliseconds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64().Draw(t, "ms")
		d := milliseconds(ms)
		if (ms < 0) != (d < 0) || ms > math.MaxInt64/int64(time.Millisecond) && d != math.MaxInt64 ||
			d > 0 && d != math.MaxInt64 && d.Milliseconds() != ms {
			t.Fatalf("%d ms are %s", ms, d)
		}
	})
}

// Every reason there is has a name on the wire, and each its own.
func TestReasons(t *testing.T) {
	t.Parallel()
	seen := map[sandboxsupervisorv1.KillReason]bool{}
	for reason := core.ReasonNone; reason <= core.ReasonSeccomp; reason++ {
		wire, ok := reasons[reason]
		if !ok || seen[wire] {
			t.Errorf("reason %d is %v on the wire", reason, wire)
		}
		seen[wire] = true
	}
	if len(seen) != len(sandboxsupervisorv1.KillReason_name) {
		t.Errorf("%d of %d reasons are ever sent", len(seen), len(sandboxsupervisorv1.KillReason_name))
	}
}

// A cage arrives as it was asked for, and is told as it is; so are attempts on its network and what a machine gives.
func TestCages(t *testing.T) {
	t.Parallel()
	owner := core.Owner{SessionID: "s", RunID: "r", CallID: "c", ProjectID: "p", Agent: "a"}
	spec := cageSpecFromProto(&sandboxsupervisorv1.HoldCageRequest{
		CageId: "id", Owner: ownerToProto(owner), AgentPath: "primary", ProjectRoot: "/p",
		Policy: &commonv1.CagePolicy{Seccomp: "relaxed", Limits: &commonv1.CageLimits{Pids: 3, WalltimeMs: 1500}},
	})
	if spec.ID != "id" || spec.Owner != owner || spec.Agent != "primary" || spec.Root != "/p" || spec.Policy.Seccomp != "relaxed" ||
		spec.Policy.Limits.PIDs != 3 || spec.Policy.Limits.Walltime != 1500*time.Millisecond {
		t.Errorf("the cage is %+v", spec)
	}
	if spec := cageSpecFromProto(&sandboxsupervisorv1.HoldCageRequest{}); spec.Policy != nil {
		t.Errorf("no policy became %+v", spec.Policy)
	}
	c := cageToProto(core.CageInfo{
		ID: "id", Owner: owner, Agent: "primary", StartedAt: time.UnixMilli(7), Tier: "userns", BestEffort: []string{"x"},
		Usage: core.Usage{Memory: 8, CPU: 9 * time.Millisecond}, Processes: 2,
	})
	if c.GetCageId() != "id" || ownerFromProto(c.GetOwner()) != owner || c.GetAgentPath() != "primary" || c.GetStartedAt() != 7 || c.GetTier() != "userns" ||
		len(c.GetBestEffort()) != 1 || c.GetMemoryBytes() != 8 || c.GetCpuMs() != 9 || c.GetProcesses() != 2 {
		t.Errorf("the cage is told as %v", c)
	}
	a := refusedToProto(core.Attempt{At: time.UnixMilli(7), Target: "h:1", Rule: "no", Count: 3}).GetRefused()
	if a.GetAt() != 7 || a.GetTarget() != "h:1" || a.GetAllowed() || a.GetRule() != "no" || a.GetCount() != 3 {
		t.Errorf("the attempt is told as %v", a)
	}
	probe := probeToProto(core.Report{Tier: "t", Unavailable: "u", Layers: []core.Layer{{Name: "n", State: "s", By: "b", Reason: "r", Fix: "f"}}})
	l := probe.GetLayers()[0]
	if probe.GetTier() != "t" || probe.GetUnavailable() != "u" || l.GetName() != "n" || l.GetState() != "s" || l.GetBy() != "b" || l.GetReason() != "r" || l.GetFix() != "f" {
		t.Errorf("the probe is told as %v", probe)
	}
}
