package e2e_test

import (
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// A kaged run without a slot prints that it waits, starts by itself when a slot is free, and withdraws its message if
// it is interrupted before.
func TestRunWaitsForASlot(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	gate := fakellm.NewGate()
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if r.N == 1 {
			return fakellm.Step{fakellm.Wait(gate), fakellm.Say("First.")}
		}
		return fakellm.Step{fakellm.Say("Later.")}
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")+"[limits]\nsessions_per_project = 1\n")
	dir := w.Project(t)
	w.Up(t, nil)
	c := w.SignIn(t)
	busy := kagedtest.Create(t, c, dir)
	busy.Send(t, "hold the slot")
	if err := gate.Reached(t.Context()); err != nil {
		t.Fatal(err)
	}
	start := func() *kagedtest.Process {
		p := kagedtest.Command(t, "kaged", w.Env, "run", "--project", dir, "wait your turn")
		kagedtest.Eventually(t, "the run says that it waits", func() bool {
			return strings.Contains(p.Stderr.String(), "kaged: queued: 1 of 1 sessions of the project are at work")
		})
		return p
	}
	withdrawn, waits := start(), start()
	withdrawn.Signal(syscall.SIGINT)
	if _, code := withdrawn.Rest(t); code != 130 {
		t.Errorf("interrupted, it exits %d: %s", code, withdrawn.Stderr.String())
	}
	gate.Open()
	if stdout, code := waits.Rest(t); code != 0 || !strings.Contains(stdout, "Later.") {
		t.Errorf("%d: %q, %s", code, stdout, waits.Stderr.String())
	}
	if !strings.Contains(waits.Stderr.String(), "a slot is free") {
		t.Error(waits.Stderr.String())
	}
}
