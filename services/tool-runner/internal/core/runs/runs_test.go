package runs_test

import (
	"errors"
	"fmt"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/runs"
)

// A run ends when its last holder leaves; its calls are then refused until a caller holds it again.
func TestHold(t *testing.T) {
	t.Parallel()
	r := runs.New()
	a, b := runs.Run{Session: "s", ID: "a"}, runs.Run{Session: "s", ID: "b"}
	if err := r.Check(a); err != nil || r.Active("s") {
		t.Errorf("got %v for a run that was never held, active %v", err, r.Active("s"))
	}
	first, second, other := r.Hold(a), r.Hold(a), r.Hold(b)
	for _, step := range []struct {
		name                string
		release             func() (bool, bool)
		ended, last, active bool
		refused             error
	}{
		{"one of two holders", first, false, false, true, nil},
		{"the last holder", second, true, false, true, fault.Unavailable},
		{"the last run of the session", other, true, true, false, fault.Unavailable},
	} {
		ended, last := step.release()
		if ended != step.ended || last != step.last || r.Active("s") != step.active {
			t.Errorf("%s: got ended %v, last %v, active %v", step.name, ended, last, r.Active("s"))
		}
		if err := r.Check(a); !errors.Is(err, step.refused) {
			t.Errorf("%s: got %v for a call, want %v", step.name, err, step.refused)
		}
	}
	again := r.Hold(a)
	if err := r.Check(a); err != nil || !r.Active("s") {
		t.Errorf("got %v for a run that is held again, active %v", err, r.Active("s"))
	}
	again()
}

// The oldest ended runs are dropped, which limits the memory.
func TestEndedRunsAreBounded(t *testing.T) {
	t.Parallel()
	r := runs.New()
	const many = 5000
	for i := range many {
		r.Hold(runs.Run{Session: fmt.Sprint(i % 7), ID: fmt.Sprint(i)})()
	}
	for id, want := range map[int]error{0: nil, many - 1: fault.Unavailable} {
		if err := r.Check(runs.Run{Session: fmt.Sprint(id % 7), ID: fmt.Sprint(id)}); !errors.Is(err, want) {
			t.Errorf("run %d: got %v, want %v", id, err, want)
		}
	}
}
