package server

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// Every field of a start reaches core, and a cage is never dropped.
func TestCommandFromProto(t *testing.T) {
	t.Parallel()
	c, err := commandFromProto(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Start{
		Start: &sandboxsupervisorv1.ExecStart{
			Owner: &sandboxsupervisorv1.Owner{
				SessionId: "s",
				RunId:     "r",
				CallId:    "c",
				ProjectId: "p",
				AgentPath: "a",
			},
			Argv: []string{"a", "b"},
			Cwd:  "/dir", Env: map[string]string{"K": "V"}, Terminal: &sandboxsupervisorv1.Terminal{Cols: 1, Rows: 2},
			TimeoutMs: 1500,
			Cage:      &commonv1.CagePolicy{}, MergeStderr: true,
		},
	}})
	if err != nil || c.Owner != (contract.Owner{SessionID: "s", RunID: "r", CallID: "c", ProjectID: "p", Agent: "a"}) ||
		len(c.Argv) != 2 ||
		c.Dir != "/dir" || c.Env["K"] != "V" || *c.Terminal != (core.Size{Cols: 1, Rows: 2}) ||
		c.Timeout != 1500*time.Millisecond ||
		c.Cage == nil ||
		!c.Merge {
		t.Errorf("the command is %+v, %v", c, err)
	}
	for _, req := range []*sandboxsupervisorv1.ExecRequest{nil, {}, {Request: &sandboxsupervisorv1.ExecRequest_Start{}}} {
		if _, err := commandFromProto(req); err == nil {
			t.Errorf("%v became a command", req)
		}
	}
}

// Milliseconds keep their order as durations: no number overflows into an allowed duration.
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

// A machine's layers arrive unchanged.
func TestProbe(t *testing.T) {
	t.Parallel()
	probe := probeToProto(
		core.Report{
			Tier:        "t",
			Unavailable: "u",
			Layers:      []core.Layer{{Name: "n", State: "s", By: "b", Reason: "r", Fix: "f"}},
		},
	)
	l := probe.GetLayers()[0]
	if probe.GetTier() != "t" || probe.GetUnavailable() != "u" || l.GetName() != "n" || l.GetState() != "s" ||
		l.GetBy() != "b" ||
		l.GetReason() != "r" ||
		l.GetFix() != "f" {
		t.Errorf("the probe is told as %v", probe)
	}
}
