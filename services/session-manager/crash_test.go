//go:build faults

package sessionmanager

import (
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// doomed starts a session-manager in a process of its own that dies at a point.
func (w *world) doomed(t *testing.T, name string, at crash.Point) (*node, process) {
	t.Helper()
	return w.spawn(t, name, crash.Variable+"="+string(at))
}

// died waits until the process has killed itself.
func (p process) died(t *testing.T) {
	t.Helper()
	_ = p.Wait()
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v instead of being killed", p.ProcessState)
	}
}

// A run that an operator cancelled, or whose session an operator wanted to end, has been cancelled also if kaged is killed
// before the harness has reacted: it is not resumed, where runs that are cut off would be.
func TestKilledWhileCancelled(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*node, string, string) error{
		"run": func(n *node, s, run string) error {
			_, err := n.Sessions.CancelRun(as(n.w.t, "ada"), &sessionmanagerv1.CancelRunRequest{SessionId: s, RunId: run})
			return err
		},
		"session": func(n *node, s, _ string) error {
			_, err := n.Sessions.EndSession(as(n.w.t, "ada"), &sessionmanagerv1.EndSessionRequest{Id: s, Confirm: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.network(t)
			w.harness.root.OnCrash = crashPolicy(true)
			first, p := w.doomed(t, "one", crash.CancelStored)
			s := first.session("ada")
			begun := make(chan struct{})
			w.harness.expect(func(p *play) {
				p.model()
				p.turn(1, true, call("c1", "file.write", `{}`))
				close(begun)
				<-p.stream.Context().Done() // deaf to the cancel
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
