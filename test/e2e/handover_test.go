package e2e_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// count returns how many frames of a kind a session has shown.
func count(s *kagedtest.Session, kind string) (n int) {
	for _, f := range s.Frames {
		if f.Type == kind {
			n++
		}
	}
	return n
}

// ends reads to the end of a run and returns its outcome.
func ends(t *testing.T, s *kagedtest.Session, run string) string {
	t.Helper()
	var end struct {
		RunID   string `json:"run_id"`
		Outcome string
	}
	kagedtest.Payload(t, s.Until(t, "run.ended"), &end)
	if end.RunID != run {
		t.Errorf("run %s ended, want %s", end.RunID, run)
	}
	return end.Outcome
}

// A run whose session-manager, or whose harness, drains in the middle of a step goes on in another one under its id,
// over mTLS: its step is finished where it began, no request is made twice, and its frames follow each other.
func TestARunIsHandedOver(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"session-manager", "harness"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			gate := fakellm.NewGate()
			llm := fakellm.Start(t)
			llm.Script(fakellm.Steps(
				fakellm.Step{fakellm.Say("I look."), fakellm.Tool("file.read", `{"path":"go.mod"}`)},
				fakellm.Step{
					fakellm.Say("Half"), fakellm.Wait(gate), fakellm.Say(" done."), fakellm.Tool("file.list", `{"path":"."}`),
				},
				fakellm.Step{fakellm.Say("All done.")},
				fakellm.Step{fakellm.Say("Again.")}))
			f := startFleet(t, llm, 2, "")
			s := kagedtest.Open(t, f.signIn(t), f.Project(t))
			run := s.Send(t, "look around")
			if err := gate.Reached(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.add(t, replicaOf(service, 1))
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				f.drain(t, replicaOf(service, 0))
			}()
			kagedtest.Eventually(t, "the process drains", func() bool { return f.stopping(t, replicaOf(service, 0)) })
			gate.Open()
			<-drained
			if outcome := ends(t, s, run); outcome != "completed" {
				t.Errorf("the run %s", outcome)
			}
			if n := len(llm.Requests()); n != 3 {
				t.Errorf("the model was asked %d times, want 3", n)
			}
			if outcome := s.Run(t, "and again"); outcome != "completed" {
				t.Errorf("the next run %s", outcome)
			}
			s.Contiguous(t)
			if n := count(s, "message.start"); n != 2 {
				t.Errorf("%d messages began, want 2", n)
			}
			s.SameAgain(t)
		})
	}
}

// A workspace that is restarted hands its runs over: the run stops between two steps, waits for the workspace, and goes
// on under its id. Until then no message is accepted.
func TestAWorkspaceDrains(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(
		fakellm.Step{
			fakellm.Say("Half"), fakellm.Wait(gate), fakellm.Say(" done."), fakellm.Tool("file.list", `{"path":"."}`),
		},
		fakellm.Step{fakellm.Say("All done.")}, fakellm.Step{fakellm.Say("Again.")}))
	f := startFleet(t, llm, 1, "")
	c, dir := f.signIn(t), f.Project(t)
	s, other := kagedtest.Open(t, c, dir), kagedtest.Open(t, c, dir)
	run := s.Send(t, "look around")
	if err := gate.Reached(t.Context()); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		f.drain(t, "tool-runner")
	}()
	kagedtest.Eventually(t, "the workspace drains", func() bool { return f.stopping(t, "tool-runner") })
	gate.Open()
	<-drained
	if n := len(llm.Requests()); n != 1 {
		t.Errorf("the model was asked %d times before the workspace is back, want once", n)
	}
	body := map[string]any{"content": "now"}
	err := c.Do(t.Context(), http.MethodPost, "/api/v1/sessions/"+other.ID+"/messages", body, nil)
	if !errors.Is(err, fault.Unavailable) {
		t.Errorf("a message while the workspace is away: %v", err)
	}
	f.add(t, "tool-runner")
	if outcome := ends(t, s, run); outcome != "completed" {
		t.Errorf("the run %s", outcome)
	}
	if outcome := other.Run(t, "and again"); outcome != "completed" {
		t.Errorf("the next run %s", outcome)
	}
	if n := count(s, "message.start"); n != 1 {
		t.Errorf("%d messages began, want 1", n)
	}
	s.Contiguous(t)
	s.SameAgain(t)
}

// A question stays open while its run is handed over: it is asked once, and the call is made once, when an operator
// allows it at the next session-manager.
func TestAQuestionIsHandedOver(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"session-manager", "harness"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			llm := fakellm.Start(t)
			llm.Handle(unlinker)
			f := startFleet(t, llm, 2, "")
			dir := f.Project(t)
			kagedtest.Write(t, dir, "doomed.txt", "doomed\n")
			s := kagedtest.Open(t, f.signIn(t), dir)
			run := s.Send(t, "clean up")
			var asked struct {
				ApprovalID string `json:"approval_id"`
			}
			kagedtest.Payload(t, s.Until(t, "approval.requested"), &asked)
			f.add(t, replicaOf(service, 1))
			f.drain(t, replicaOf(service, 0))
			path := "/api/v1/sessions/" + s.ID + "/approvals/" + asked.ApprovalID
			if got := kagedtest.Get[struct{ State string }](t, s.Client, path); got.State != "pending" {
				t.Errorf("after the drain the question is %s", got.State)
			}
			kagedtest.Eventually(t, "the answer is taken", func() bool {
				err := s.Client.Do(t.Context(), http.MethodPost, path, map[string]any{"decision": "approve"}, nil)
				return err == nil
			})
			if outcome := ends(t, s, run); outcome != "completed" {
				t.Errorf("the run %s", outcome)
			}
			if _, err := os.Stat(filepath.Join(dir, "doomed.txt")); err == nil {
				t.Error("the allowed call was not made")
			}
			if count(s, "approval.requested") != 1 || count(s, "approval.resolved") != 1 ||
				count(s, "message.tool_result") != 1 {
				t.Errorf("asked %d times, resolved %d, results %d", count(s, "approval.requested"), count(s, "approval.resolved"),
					count(s, "message.tool_result"))
			}
			s.Contiguous(t)
		})
	}
}

// kill -9 hands nothing over: the run ends as interrupted, and the session goes on.
func TestAKilledHolderHandsNothingOver(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(
		fakellm.Step{fakellm.Say("Half"), fakellm.Wait(gate), fakellm.Say(" done.")},
		fakellm.Step{fakellm.Say("Again.")}))
	f := startFleet(t, llm, 2, "")
	defer gate.Open()
	s := kagedtest.Open(t, f.signIn(t), f.Project(t))
	run := s.Send(t, "look around")
	if err := gate.Reached(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.add(t, replicaOf("session-manager", 1))
	f.kill(replicaOf("session-manager", 0))
	if outcome := ends(t, s, run); outcome != "failed" {
		t.Errorf("the run %s, want failed", outcome)
	}
	if outcome := s.Run(t, "and again"); outcome != "completed" {
		t.Errorf("the next run %s", outcome)
	}
	s.Contiguous(t)
}
