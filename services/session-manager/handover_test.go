package sessionmanager

import (
	"context"
	"errors"
	"testing"
	"time"

	"kaged.dev/pkg/config"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// drained drains a node in the background; the channel closes when its runs are handed over.
func (n *node) drained(t *testing.T) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		n.Drain(ctx)
	}()
	t.Cleanup(func() { <-done })
	return done
}

// A run of a draining session-manager continues in another one under the same id, whether or not the project wants
// interrupted runs resumed. The next harness receives its steps, its beginning is shown once, and its message is
// written once.
func TestHandOver(t *testing.T) {
	t.Parallel()
	for name, resume := range map[string]bool{"stop": false, "resume": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if resume {
				w.primary(onCrashResume)
			}
			long := func(c *Config) { c.LeaseTTL = config.Duration(time.Hour) }
			a := w.start("a", long)
			b := w.start("b", long)
			s := a.session("ada")
			w.harness.expect(func(p *play) {
				p.model()
				p.turn(1, true, call("c1", "file.read", `{}`))
				p.tool(1, "c1", "file.read", `{}`, "x")
				p.done(1)
				p.handsOver()
			}, func(p *play) {
				p.delta("More.")
				p.turn(2, false, text("More."))
				p.complete(2)
			})
			posted := a.post("ada", s, "Read.")
			w.await(s, "output", "message.tool_result")
			w.harness.next()
			<-a.drained(t)
			again := w.harness.next()
			if again.start.GetRunId() != posted.GetRunId() || len(again.continued) != 1 || again.continued[0].GetSteps() != 1 ||
				again.continued[0].GetOpen() != nil || len(again.history) != 3 {
				t.Errorf("the next harness is given %v, %v", again.start.GetRunId(), again.continued)
			}
			got := b.run("ada", s, posted.GetRunId())
			if got.GetOutcome() != "completed" || len(got.GetSteps()) != 2 {
				t.Errorf("run = %v", got)
			}
			events := w.await(s, "events", `session.state {"state":"idle"}`)
			if count(events, "run.ended") != 1 || count(events, "run.started") != 1 {
				t.Errorf("events = %q", events)
			}
			if output := w.channel(s, "output"); count(output, "message.start") != 1 || count(output, "message.end") != 1 ||
				count(output, "message.tool_result") != 1 {
				t.Errorf("output = %q", output)
			}
			a.halt()
		})
	}
}

// A question stays open during a handover: it is asked once and answered at the next session-manager, and the next
// harness receives the answer.
func TestHandOverWithAQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := func(c *Config) { c.LeaseTTL = config.Duration(time.Hour) }
	a := w.start("a", long)
	b := w.start("b", long)
	s := a.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "file.read", `{}`), call("c2", "shell.bash", `{}`))
		p.result(1, "c1", "file.read", "x")
		p.asks("apr_1", "c2", "git push")
		p.handsOver()
	}, func(p *play) {
		p.asks("apr_1", "c2", "git push")
		if d := p.decision(); d.GetVerdict() != harnessv1.ApprovalVerdict_APPROVAL_VERDICT_APPROVED {
			t.Errorf("the next harness hears %v", d)
		}
		p.result(1, "c2", "shell.bash", "y")
		p.done(1)
		p.turn(2, false, text("Done."))
		p.complete(2)
	})
	posted := a.post("ada", s, "Push.")
	w.await(s, "events", "approval.requested")
	w.harness.next()
	<-a.drained(t)
	again := w.harness.next()
	if c := again.continued[0]; c.GetOpen().GetStep() != 1 || len(c.GetResults()) != 1 ||
		c.GetAsked()[0].GetApprovalId() != "apr_1" {
		t.Errorf("the next harness is given %v", c)
	}
	if _, err := b.answer("ada", s, "apr_1", "approve", ""); err != nil {
		t.Fatal(err)
	}
	got := b.run("ada", s, posted.GetRunId())
	if got.GetOutcome() != "completed" || len(got.GetSteps()) != 2 {
		t.Errorf("run = %v", got)
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	if count(events, "approval.requested") != 1 || count(events, "approval.resolved") != 1 ||
		count(events, "run.ended") != 1 {
		t.Errorf("events = %q", events)
	}
	a.halt()
}

// A harness that stops hands its runs over to another harness through the session-manager that holds them, which
// keeps the lease.
func TestHarnessHandsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	s := a.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "file.read", `{}`))
		p.tool(1, "c1", "file.read", `{}`, "x")
		p.done(1)
		w.harness.away.Store(true) // until one attempt has found no harness
		p.handedOver()
	}, func(p *play) {
		p.turn(2, false, text("Done."))
		p.complete(2)
	})
	posted := a.post("ada", s, "Read.")
	first := w.harness.next()
	eventually(t, "a harness is asked again", func() error {
		if w.harness.refused.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	w.harness.away.Store(false)
	if again := w.harness.next(); again.start.GetRunId() != first.start.GetRunId() {
		t.Errorf("run %s continues as %s", first.start.GetRunId(), again.start.GetRunId())
	}
	if got := a.run("ada", s, posted.GetRunId()); got.GetOutcome() != "completed" || len(got.GetSteps()) != 2 {
		t.Errorf("run = %v", got)
	}
	if events := w.await(s, "events", `session.state {"state":"idle"}`); count(events, "run.ended") != 1 {
		t.Errorf("events = %q", events)
	}
}
