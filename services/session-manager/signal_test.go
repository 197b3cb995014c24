package sessionmanager

import (
	"slices"
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// An operator sends a signal to a command of an own session, and the audit log has it. An unsupported signal, a
// command that does not run for the session, and another operator's session are refused before the workspace is
// called.
func TestSignalProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s, quiet := n.session("ada"), n.session("ada")
	w.tools.runs = []string{s}
	send := func(user, session, process, signal string) error {
		_, err := n.Sessions.SignalProcess(as(t, user), &apiv1.SignalProcessRequest{
			SessionId: session, ProcessId: process, Signal: signal,
		})
		return err
	}
	if err := send("ada", s, "p", "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	refused(t, send("eve", s, "p", "SIGTERM"), fault.NotFound)
	refused(t, send("ada", s, "p", "SIGSEGV"), fault.ValidationFailed)
	refused(t, send("ada", s, "p", "TERM"), fault.ValidationFailed)
	refused(t, send("ada", s, "other", "SIGTERM"), fault.ProcessNotFound)
	refused(t, send("ada", quiet, "p", "SIGTERM"), fault.ProcessNotFound)
	w.tools.mu.Lock()
	calls := slices.DeleteFunc(slices.Clone(w.tools.calls), func(c string) bool { return c[:3] != "SIG" })
	w.tools.mu.Unlock()
	if want := []string{"SIGTERM " + s + " p"}; !slices.Equal(calls, want) {
		t.Errorf("the workspace was asked %q, want %q", calls, want)
	}
	recorded, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s, EventType: "process.signaled"})
	if err != nil || len(recorded.GetItems()) != 1 || recorded.GetItems()[0].GetRunId() != "r" {
		t.Errorf("recorded %v, %v", recorded, err)
	}
}
