package sandboxwire_test

import (
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/sandboxwire"
	"kaged.dev/pkg/dsl"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

var owner = contract.Owner{SessionID: "s", RunID: "r", CallID: "c", ProjectID: "p", Agent: "primary"}

// Every reason has its own enum value, and every value a reason.
func TestReasons(t *testing.T) {
	t.Parallel()
	seen := map[sandboxsupervisorv1.KillReason]bool{}
	for reason := contract.ReasonNone; reason <= contract.ReasonSeccomp; reason++ {
		wire := sandboxwire.Reason(reason)
		if seen[wire] || sandboxwire.FromReason(wire) != reason {
			t.Errorf("got %v for reason %d, want a value of its own", wire, reason)
		}
		seen[wire] = true
	}
	if want := len(sandboxsupervisorv1.KillReason_name); len(seen) != want {
		t.Errorf("got %d values, want all %d", len(seen), want)
	}
}

// Processes are equal after encoding and decoding, ended ones with their end.
func TestProcessesRoundTrip(t *testing.T) {
	t.Parallel()
	want := contract.Process{
		RunningProcess: contract.RunningProcess{
			ID: "i", Owner: owner, CageID: "c", PID: 7, Command: "sleep 1", StartedAt: 5, Use: contract.Use{Memory: 1, CPU: 2},
			Background: true,
		},
		Exit: &contract.Exit{
			Code: 137, Signal: "SIGKILL", Reason: contract.ReasonOOM, Started: true, Duration: time.Second,
			Found: []contract.Finding{{Kind: "name", Path: "/p/.envrc", Text: "Made."}},
		},
		OutputStart: 3, OutputEnd: 9,
	}
	if d := cmp.Diff(want, sandboxwire.FromProcess(sandboxwire.Process(want))); d != "" {
		t.Error(d)
	}
	want.Exit = nil
	if got := sandboxwire.FromProcess(sandboxwire.Process(want)); got.Exit != nil {
		t.Errorf("got exit %+v of a process that runs, want nil", got.Exit)
	}
}

// The description of a cage is equal after encoding and decoding, with any policy.
func TestCageSpecsRoundTrip(t *testing.T) {
	t.Parallel()
	same := func(id, root string, policy dsl.Cage) bool {
		want := contract.CageSpec{ID: id, Owner: owner, Policy: dsl.CageFromProto(policy.Proto()), Root: root}
		return cmp.Equal(want, sandboxwire.FromCageSpec(sandboxwire.CageSpec(want)))
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
	if got := sandboxwire.FromCageSpec(&sandboxsupervisorv1.HoldCageRequest{}); got.Policy != nil {
		t.Errorf("got policy %+v of a request without one, want nil", got.Policy)
	}
}

// Cages and their events are equal after encoding and decoding.
func TestCagesRoundTrip(t *testing.T) {
	t.Parallel()
	cage := contract.RunningCage{
		Cage:  contract.Cage{ID: "i", Tier: "userns", BestEffort: []string{"b"}, Notes: []string{"n"}},
		Owner: owner, StartedAt: 5, Use: contract.Use{Memory: 1, CPU: 2}, Processes: 3,
	}
	if d := cmp.Diff(cage, sandboxwire.FromCage(sandboxwire.Cage(cage))); d != "" {
		t.Error(d)
	}
	attempt := contract.Attempt{At: 5, Target: "t", Rule: "r", Count: 2}
	for name, tt := range map[string]struct {
		event *sandboxsupervisorv1.HoldCageEvent
		want  contract.CageEvent
	}{
		"opened": {
			&sandboxsupervisorv1.HoldCageEvent{Event: &sandboxsupervisorv1.HoldCageEvent_Opened{Opened: sandboxwire.Cage(cage)}},
			contract.CageEvent{Opened: &cage.Cage},
		},
		"network": {
			&sandboxsupervisorv1.HoldCageEvent{Event: &sandboxsupervisorv1.HoldCageEvent_Network{Network: attempt.Proto()}},
			contract.CageEvent{Network: &attempt},
		},
		"disk":      {ended(contract.ReasonDisk), contract.CageEvent{Ended: "disk"}},
		"no reason": {ended(contract.ReasonNone), contract.CageEvent{Ended: "lost"}},
		"unknown":   {&sandboxsupervisorv1.HoldCageEvent{}, contract.CageEvent{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, sandboxwire.FromCageEvent(tt.event)); d != "" {
				t.Error(d)
			}
		})
	}
}

func ended(reason contract.Reason) *sandboxsupervisorv1.HoldCageEvent {
	return &sandboxsupervisorv1.HoldCageEvent{Event: &sandboxsupervisorv1.HoldCageEvent_Ended{
		Ended: &sandboxsupervisorv1.CageEnded{Reason: sandboxwire.Reason(reason)},
	}}
}
