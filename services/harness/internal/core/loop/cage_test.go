package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// box is a cage that reports the test's events until it is released.
type box struct {
	opened contract.Cage
	happen chan happening
	life   context.Context
	caller contract.Caller
	leaves []contract.Finding
	// asked, unless nil, delays the cage until asked is closed. refused is the error of a cage that cannot be made
	// then.
	asked   chan struct{}
	refused error
}

func (b *box) Release(context.Context) ([]contract.Finding, error) { return b.leaves, b.life.Err() }

func (b *box) Opened() (contract.Cage, error) {
	if b.asked != nil {
		<-b.asked
	}
	return b.opened, b.refused
}

// happening is an event of a cage, or the error that ends the cage's events.
type happening struct {
	contract.CageEvent
	err error
}

func tried(a contract.Attempt) happening {
	return happening{CageEvent: contract.CageEvent{Network: &a}}
}

func over(reason string) happening {
	return happening{CageEvent: contract.CageEvent{Ended: reason}}
}

func (b *box) Next() (contract.CageEvent, error) {
	select {
	case e := <-b.happen:
		return e.CageEvent, e.err
	case <-b.life.Done():
		return contract.CageEvent{}, b.life.Err()
	}
}

// caged is a bench with an agent in a cage.
func caged(t *testing.T, answers ...play) (*bench, *box) {
	b := newBench(t, answers...)
	b.start.Agent.Cage = &dsl.Cage{Seccomp: "default", Limits: dsl.Limits{Walltime: time.Minute, Disk: 7}}
	made := &box{
		opened: contract.Cage{ID: "cage1", Tier: "userns", BestEffort: []string{"memory is watched"}, Summary: "fs none"},
		happen: make(chan happening),
	}
	b.tools.hold = func(ctx context.Context, id string, caller *contract.Caller) (Cage, error) {
		if id == "" || b.model.calls() > 0 {
			t.Errorf("the cage %q is made after %d model calls", id, b.model.calls())
		}
		made.life, made.caller = ctx, *caller
		return made, nil
	}
	return b, made
}

// aboutCages returns a run's records about cages and their network attempts, in order.
func aboutCages(s *sink) []contract.Record {
	var out []contract.Record
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		switch e := e.(type) {
		case contract.CageChanged:
			out = append(out, e.Audit)
		case contract.NetworkTried:
			out = append(out, e.Audit)
		case contract.Record:
			if e.Payload["caller"] != nil {
				out = append(out, e)
			}
		}
	}
	return out
}

// A caged agent's cage is up before any model is asked. The agent's tools are called in the cage, which is released
// at the end of the run (H-SUP-CAGE-01, H-SCOPE-06).
func TestCage(t *testing.T) {
	t.Parallel()
	b, made := caged(t, wants(call("c1", "file.read", "{}")), says("Done."))
	b.tools.run["file.read"] = func(context.Context, string) (string, error) {
		made.happen <- tried(contract.Attempt{At: 5, Target: "a.example:443", Rule: "No rule allows it.", Count: 2})
		made.happen <- tried(contract.Attempt{At: 6, Target: "b.example:443", Allowed: true, Rule: "b.example:443", Count: 1})
		if made.life.Err() != nil {
			t.Error("the cage was released while the run is under way")
		}
		return "read", nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if made.life.Err() == nil {
		t.Error("the cage is held after the run")
	}
	if c := made.caller; c.Cage != b.start.Agent.Cage || c.SessionID != "session1" || c.Agent != "primary" {
		t.Errorf("the cage was asked for by %+v", c)
	}
	if c := b.tools.seen[0].Context; c.CageID != "cage1" || c.Cage == nil {
		t.Errorf("the tool was called from %+v", c)
	}
	changed := of[contract.CageChanged](b.sink)
	if len(changed) != 1 || changed[0].Status != contract.Caged || changed[0].Tier != "userns" ||
		changed[0].Summary != "fs none" || len(changed[0].BestEffort) != 1 {
		t.Errorf("%+v", changed)
	}
	if tried := of[contract.NetworkTried](b.sink); len(tried) != 2 || tried[0].Attempt.Allowed ||
		!tried[1].Attempt.Allowed {
		t.Errorf("%+v", tried)
	}
	if got := recorded(aboutCages(b.sink)); got != "cage.opened net.denied net.allowed cage.ended" {
		t.Errorf("recorded %s", got)
	}
	for _, r := range aboutCages(b.sink) {
		if r.Payload["cage_id"] != "cage1" || r.Payload["run_id"] != "run1" || r.Agent != "primary" {
			t.Errorf("%+v", r)
		}
	}
	if denied := aboutCages(b.sink)[1]; denied.At != 5 || denied.Payload["target"] != "a.example:443" ||
		denied.Payload["count"] != int64(2) {
		t.Errorf("%+v", denied)
	}
}

// boxed returns a family with a caged child. The child's first model call runs while its cage is made.
func boxed(t *testing.T, answers ...play) (*family, *box) {
	f := newFamily(t, wants(asks("c1", "a", "Go.")), says("Done."))
	made := &box{
		opened: contract.Cage{ID: "cage1", Tier: "userns"}, happen: make(chan happening), asked: make(chan struct{}),
	}
	first := answers[0]
	answers[0] = func(ctx context.Context, yield func(llm.Event) bool) error {
		close(made.asked)
		return first(ctx, yield)
	}
	f.child(f.start.Agent, "a", answers...).Cage = &dsl.Cage{Seccomp: "default"}
	f.tools.hold = func(ctx context.Context, _ string, caller *contract.Caller) (Cage, error) {
		made.life, made.caller = ctx, *caller
		return made, nil
	}
	return f, made
}

// A child's cage is made while its model is asked, and no tool runs before the cage is up (H-SUP-CAGE-01).
func TestAChildsCageIsMadeBesideItsFirstRequest(t *testing.T) {
	t.Parallel()
	f, made := boxed(t, wants(call("x", "file.read", "{}")), says("a"))
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if got := f.answers()["c1"]; got.failed || got.Text != "a" {
		t.Errorf("the parent reads %+v", got)
	}
	if c := f.tools.seen[0].Context; c.CageID != "cage1" || made.life.Err() == nil {
		t.Errorf("the tool was called from %+v, the cage is held after: %v", c, made.life.Err() == nil)
	}
	if changed := of[contract.CageChanged](f.sink); len(changed) != 1 || changed[0].Status != contract.Caged {
		t.Errorf("%+v", changed)
	}
}

// A child fails with the text of H-SUP-ERR-01 if its cage cannot be made after the check. None of its tools runs,
// even if its model asked for none, and its paid model call is charged.
func TestAChildsCageFailsBesideItsFirstRequest(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]play{"a call": wants(call("x", "file.read", "{}")), "a text": says("a")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, made := boxed(t, answer)
			made.refused = fault.New(fault.CageUnavailable, "There is no room.")
			if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
			var got string
			for _, r := range results(f.model.requests[1]) {
				got = r.Content
			}
			if !strings.Contains(got, "Sub-agent a could not be started: There is no room.") || len(f.tools.seen) != 0 {
				t.Errorf("the parent reads %s, %d calls", got, len(f.tools.seen))
			}
			if n := f.models["a"].calls(); n != 1 || made.life.Err() == nil {
				t.Errorf("%d model calls, the cage is held: %v", n, made.life.Err() == nil)
			}
			paid := 0
			f.sink.mu.Lock()
			for i, e := range f.sink.events {
				if _, settled := e.(contract.CallSettled); settled && f.sink.whose[i] != "" {
					paid++
				}
			}
			f.sink.mu.Unlock()
			if paid != 1 || len(of[contract.CageChanged](f.sink)) != 0 {
				t.Errorf("%d calls are settled, cages %+v", paid, of[contract.CageChanged](f.sink))
			}
		})
	}
}

// An agent without its cage does not run: no model is asked, and the run fails with the cage's error (A-FAIL-05).
func TestNoCageNoRun(t *testing.T) {
	t.Parallel()
	for _, code := range []fault.Code{fault.CagePolicyInvalid, fault.CageUnavailable, fault.Unavailable} {
		b, _ := caged(t)
		b.tools.hold = func(context.Context, string, *contract.Caller) (Cage, error) { return nil, fault.New(code, "no") }
		if fin := b.run(t.Context()); fin.Outcome != contract.Failed || fin.Err.Code != code || len(b.sink.events) != 0 ||
			fin.Stats != nil {
			t.Errorf("%s: %+v", code, fin)
		}
	}
}

// With cages switched off, an agent with a cage runs without it, and the record has a warning. Its file tools still
// obey the policy (decision 17).
func TestNoSandbox(t *testing.T) {
	t.Parallel()
	b, made := caged(t, wants(call("c1", "file.read", "{}")), says("Done."))
	b.start.NoSandbox = true
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed || made.life != nil {
		t.Fatalf("%+v", fin)
	}
	changed := of[contract.CageChanged](b.sink)
	if len(changed) != 1 || changed[0].Status != contract.Uncaged || changed[0].Audit.Type != "subagent.spawn.uncaged" ||
		changed[0].Audit.Payload["level"] != "warning" {
		t.Errorf("%+v", changed)
	}
	if c := b.tools.seen[0].Context; c.CageID != "" || c.Cage == nil {
		t.Errorf("the tool was called from %+v", c)
	}
}

// If cages are required, an agent without one is refused before any model is asked.
func TestCagesOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, says("Done."))
	b.deps.CagesOnly = true
	fin := b.run(t.Context())
	if fin.Outcome != contract.Failed || fin.Err == nil || fin.Err.Code != fault.CageUnavailable ||
		fin.Err.Details["reason"] != "cage_required" || fin.Steps != 0 {
		t.Errorf("the run is %+v, want cage_unavailable", fin)
	}
}

// A cage that ends before its run ends the run. The error of the run names the reason: a limit, the session's end, or
// a loss, which the operator's crash policy covers.
func TestCageEndsTheRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		happens happening
		outcome contract.Outcome
		code    fault.Code
		reason  string
		says    string
	}{
		{
			over("walltime"), contract.Failed, fault.Timeout, "walltime",
			"limits.walltime of its cage is 1m. Raise the limit, or ",
		},
		{
			over("disk"), contract.Failed, fault.CageLimitReached, "disk",
			"its limits.disk of 7 bytes; what was written stays. Raise the limit, or ",
		},
		{over("oom"), contract.Failed, fault.CageLimitReached, "oom", "at a limit (oom). Raise it, or "},
		{over("lost"), contract.Failed, fault.Interrupted, "lost", "was lost"},
		{
			happening{err: fault.New(fault.Unavailable, "The sandbox went away.")},
			contract.Failed, fault.Interrupted, "lost",
			"was lost",
		},
		{over("owner_ended"), contract.Cancelled, 0, "owner_ended", ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			b, made := caged(t, wants(call("c1", "shell.bash", "{}")))
			b.tools.run["shell.bash"] = func(ctx context.Context, _ string) (string, error) {
				made.happen <- tt.happens
				<-ctx.Done() // like a command that dies with its cage
				return "", ctx.Err()
			}
			fin := b.run(t.Context())
			if fin.Outcome != tt.outcome || tt.code != 0 &&
				(fin.Err == nil || fin.Err.Code != tt.code || !strings.Contains(fin.Err.Msg, tt.says)) {
				t.Errorf("%+v", fin)
			}
			changed := of[contract.CageChanged](b.sink)
			if last := changed[len(changed)-1]; len(changed) != 2 || last.Ended != tt.reason ||
				last.Audit.Payload["reason"] != tt.reason {
				t.Errorf("%+v", changed)
			}
			if got := recorded(aboutCages(b.sink)[:2]); got != "cage.opened cage.ended" {
				t.Errorf("recorded %s", got)
			}
			if len(of[contract.ToolFinished](b.sink)) != 1 {
				t.Error("the call that was cut off has no result")
			}
		})
	}
}

// A run reports a limited number of network attempts, and then the number of omitted ones.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	b, made := caged(t, wants(call("c1", "file.read", "{}")), says("Done."))
	b.tools.run["file.read"] = func(context.Context, string) (string, error) {
		for i := range 3 * maxAttempts {
			made.happen <- tried(contract.Attempt{Target: fmt.Sprint(i), Allowed: i%2 == 0, Count: 3})
		}
		return "read", nil
	}
	b.run(t.Context())
	if n := len(of[contract.NetworkTried](b.sink)); n != maxAttempts {
		t.Errorf("%d attempts were reported", n)
	}
	all := aboutCages(b.sink)
	more := all[len(all)-2]
	if more.Type != "net.omitted" || more.Payload["allowed"] != int64(3*maxAttempts) ||
		more.Payload["denied"] != int64(3*maxAttempts) {
		t.Errorf("%+v", more)
	}
}

// A cancelled run releases its cage last: the cage is held until the tools have ended, so that commands get their
// signal.
func TestCancelledRunLeavesItsCageLast(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	b, made := caged(t, wants(call("c1", "shell.bash", "{}")))
	b.tools.run["shell.bash"] = func(ctx context.Context, _ string) (string, error) {
		cancel(fault.New(fault.Cancelled, "Enough."))
		<-ctx.Done()
		if made.life.Err() != nil {
			t.Error("the cage was released before the command was told")
		}
		return "", ctx.Err()
	}
	if fin := b.run(ctx); fin.Outcome != contract.Cancelled || made.life.Err() == nil {
		t.Errorf("%+v", fin)
	}
}

// A run that is cancelled while its cage is made does not wait for the cage.
func TestCancelledBeforeItsCage(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	b, _ := caged(t)
	b.tools.hold = func(ctx context.Context, _ string, _ *contract.Caller) (Cage, error) {
		cancel(fault.New(fault.Cancelled, "Enough."))
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if fin := b.run(ctx); fin.Outcome != contract.Cancelled || len(b.sink.events) != 0 {
		t.Errorf("%+v", fin)
	}
	// The cage can also be up at that moment.
	ctx, cancel = context.WithCancelCause(t.Context())
	b, made := caged(t)
	hold := b.tools.hold
	b.tools.hold = func(ctx context.Context, id string, caller *contract.Caller) (Cage, error) {
		cancel(fault.New(fault.Cancelled, "Enough."))
		<-ctx.Done()
		return hold(ctx, id, caller)
	}
	if fin := b.run(ctx); fin.Outcome != contract.Cancelled || made.life.Err() == nil {
		t.Errorf("%+v", fin)
	}
}

// A call that ended with the cage may return before the cage's end is reported. The run then waits for that report:
// no further model call is made, and the call's result is kept.
func TestResultOvertakesTheEndOfTheCage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, made := caged(t, wants(call("c1", "shell.bash", "{}")))
		b.tools.run["shell.bash"] = func(context.Context, string) (string, error) { return "cage over", nil }
		go func() {
			time.Sleep(time.Second)
			made.happen <- over("walltime")
		}()
		fin := b.run(t.Context())
		if fin.Outcome != contract.Failed || fin.Err.Code != fault.Timeout || b.model.calls() != 1 {
			t.Errorf("%+v after %d model calls", fin, b.model.calls())
		}
		if done := of[contract.ToolFinished](b.sink); len(done) != 1 || done[0].Result.Content != "cage over" ||
			len(of[contract.StepDone](b.sink)) != 1 {
			t.Errorf("%+v", done)
		}
	})
}
