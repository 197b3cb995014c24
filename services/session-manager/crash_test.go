//go:build faults

package sessionmanager

import (
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// died waits until the process has killed itself at its crash point.
func (p process) died(t *testing.T) {
	t.Helper()
	_ = p.Wait()
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v instead of being killed", p.ProcessState)
	}
}

// A run that an operator cancelled, or whose session the operator ended, ends as cancelled even if kaged is killed
// before the harness has reacted. It is not resumed, although other interrupted runs are.
func TestKilledWhileCancelled(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*node, string, string) error{
		"run": func(n *node, s, run string) error {
			_, err := n.Sessions.CancelRun(as(n.w.t, "ada"), &apiv1.CancelRunRequest{SessionId: s, RunId: run})
			return err
		},
		"session": func(n *node, s, _ string) error {
			_, err := n.Sessions.EndSession(as(n.w.t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.network(t)
			w.primary(onCrashResume)
			first, p := w.spawn(t, "one", crash.Variable+"="+string(crash.CancelStored))
			s := first.session("ada")
			begun := make(chan struct{})
			w.harness.expect(func(p *play) {
				p.model()
				p.turn(1, true, call("c1", "file.write", `{}`))
				close(begun)
				<-p.stream.Context().Done() // ignores the cancellation
				panic(errGone)
			})
			posted := first.post("ada", s, "Go.")
			<-begun
			if err := stop(first, s, posted.GetRunId()); err == nil {
				t.Error("stopping it succeeded")
			}
			p.died(t)

			second := w.start("one")
			run := second.run("ada", s, posted.GetRunId())
			if run.GetOutcome() != "cancelled" || len(run.GetSteps()) != 1 || run.GetStopReason() != "aborted" {
				t.Errorf("run = %v", run)
			}
			second.run("ada", s, second.post("ada", s, "Again.").GetRunId())
			if n := len(w.harness.began); n != 2 {
				t.Errorf("%d runs began for two messages", n)
			}
		})
	}
}

// A run that was cut off by a kill is resumed even if the process that repairs it is killed before the new run
// begins.
func TestKilledBeforeTheResumption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.network(t)
	w.primary(onCrashResume)
	first, p := w.spawn(t, "one")
	s := first.session("ada")
	stored := make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "file.write", `{}`))
		p.tool(1, "c1", "file.write", `{}`, "written")
		p.done(1)
		p.claims(2, 1) // the results are stored with the audit record of the next request
		close(stored)
		p.hang()
	})
	posted := first.post("ada", s, "Write.")
	<-stored
	w.harness.next()
	p.kill()
	_, p = w.launch(t, "one", crash.Variable+"="+string(crash.RecoveryStored))
	p.died(t)
	if n := len(w.harness.began); n != 0 {
		t.Fatalf("%d runs began before the process died", n)
	}

	third := w.start("one")
	if run := third.run("ada", s, posted.GetRunId()); run.GetError().
		GetCode() != commonv1.ErrorCode_ERROR_CODE_INTERRUPTED || len(run.GetSteps()) != 1 {
		t.Errorf("run = %v", run)
	}
	next := w.harness.next()
	if h := next.history; len(h) != 3 || h[2].GetBlocks()[0].GetToolResult().GetContent() != "written" {
		t.Errorf("it was given %v", h)
	}
	if run := third.run("ada", s, next.start.GetRunId()); run.GetOutcome() != "completed" {
		t.Errorf("the second run = %v", run)
	}
}
