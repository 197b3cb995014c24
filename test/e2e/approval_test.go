package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// unlinker is a model that deletes doomed.txt and repeats the answer it got.
func unlinker(r *fakellm.Request) fakellm.Step {
	switch {
	case strings.Contains(r.LastText(), "again"):
		return fakellm.Step{fakellm.Say("Still here.")}
	case r.Turns() == 0:
		return fakellm.Step{fakellm.Say("Deleting."), fakellm.Tool("shell.bash", `{"command":"unlink doomed.txt"}`)}
	}
	return fakellm.Step{fakellm.Say("Done.")}
}

// pendingApproval is a session with an agent that waits for approval to delete doomed.txt.
type pendingApproval struct {
	*kagedtest.Session
	world  *kagedtest.World
	daemon *kagedtest.Daemon
	llm    *fakellm.Server
	dir    string
	id     string
	run    string
}

func waitForApproval(t *testing.T, toml string, env ...string) *pendingApproval {
	t.Helper()
	p := &pendingApproval{llm: fakellm.Start(t)}
	p.llm.Handle(unlinker)
	p.world = kagedtest.NewWorld(t, kagedtest.FakeModels(p.llm, "anthropic")+toml)
	p.dir = p.world.Project(t)
	kagedtest.Write(t, p.dir, "doomed.txt", "doomed\n")
	p.daemon = p.world.Up(t, env)
	p.Session = kagedtest.Open(t, p.world.SignIn(t), p.dir)
	p.run = p.Send(t, "clean up")
	var asked struct {
		ApprovalID string `json:"approval_id"`
		Subject    struct{ Command string }
	}
	kagedtest.Payload(t, p.Until(t, "approval.requested"), &asked)
	if asked.Subject.Command != "unlink doomed.txt" {
		t.Errorf("asked about %q", asked.Subject.Command)
	}
	p.id = asked.ApprovalID
	return p
}

func (p *pendingApproval) path() string {
	return "/api/v1/sessions/" + p.ID + "/approvals/" + p.id
}

// end reads to the end of the run and returns its outcome.
func (p *pendingApproval) end(t *testing.T) (outcome string) {
	t.Helper()
	kagedtest.Payload(t, p.Until(t, "run.ended"), &struct{ Outcome *string }{&outcome})
	return outcome
}

// there reports whether the file still exists.
func (p *pendingApproval) there() bool {
	_, err := os.Stat(filepath.Join(p.dir, "doomed.txt"))
	return err == nil
}

// result returns the tool result that the model received for its call.
func (p *pendingApproval) result(t *testing.T) string {
	t.Helper()
	for _, m := range kagedtest.Get[messagePage](t, p.Client, "/api/v1/sessions/"+p.ID+"/messages").Items {
		for _, part := range m.Parts {
			if part.Type == "tool_result" {
				return part.Output
			}
		}
	}
	return ""
}

// events returns the types of the audit records about the session.
func (p *pendingApproval) events(t *testing.T) map[string]int {
	t.Helper()
	page := kagedtest.Get[struct {
		Items []struct {
			EventType string `json:"event_type"`
		}
	}](t, p.Client, "/api/v1/audit?session="+p.ID+"&limit=200")
	times := map[string]int{}
	for _, item := range page.Items {
		times[item.EventType]++
	}
	return times
}

// The operator's answer decides about a destructive command: after an approval the command runs once; after a denial or
// without an answer in time it does not run, and the agent reads a code it can act on. All of it is audited (T-CAT-04,
// T-AUD-01..03).
func TestApprovalDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, toml, decision string
		result, event        string
		there                bool
	}{
		{"approved", "", "approve", `"exit_code":0`, "tool.approval.granted", false},
		{"denied", "", "deny", `"code":"approval_denied"`, "tool.approval.denied", true},
		{
			"expired", "\n[services.session-manager]\napproval_timeout = \"200ms\"\n", "", `"code":"approval_expired"`,
			"tool.approval.expired", true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := waitForApproval(t, c.toml, databaseEnv(t)...)
			if !p.there() {
				t.Error("it was done before anybody was asked")
			}
			if c.decision != "" {
				list := kagedtest.Get[struct {
					Items []struct{ ID, State string }
				}](t, p.Client, "/api/v1/sessions/"+p.ID+"/approvals?state=pending")
				if len(list.Items) != 1 || list.Items[0].ID != p.id {
					t.Errorf("pending: %+v", list)
				}
				answered := kagedtest.Post[struct{ State, Comment string }](t, p.Client, p.path(), map[string]any{
					"decision": c.decision, "comment": "mind the data",
				})
				if answered.State != c.name || answered.Comment != "mind the data" {
					t.Errorf("answered %+v", answered)
				}
			}
			if outcome := p.end(t); outcome != "completed" {
				t.Errorf("the run %s", outcome)
			}
			if p.there() != c.there {
				t.Errorf("the file is there: %v", p.there())
			}
			if got := p.result(t); !strings.Contains(got, c.result) ||
				c.decision == "deny" && !strings.Contains(got, "mind the data") {
				t.Errorf("the agent was told %s", got)
			}
			events := p.events(t)
			for _, want := range []string{"tool.called", "tool.approval.requested", c.event, "tool.completed"} {
				if events[want] != 1 {
					t.Errorf("%s is recorded %d times: %v", want, events[want], events)
				}
			}
			if ran := events["shell.executed"]; ran != map[bool]int{true: 0, false: 1}[c.there] {
				t.Errorf("the command is recorded %d times", ran)
			}
			p.Contiguous(t)
		})
	}
}

// Cancelling a run while its call waits closes the request without running the call.
func TestCancelledWhileAsked(t *testing.T) {
	t.Parallel()
	p := waitForApproval(t, "", databaseEnv(t)...)
	kagedtest.Post[struct{}](t, p.Client, "/api/v1/sessions/"+p.ID+"/runs/"+p.run+"/cancel", map[string]any{})
	if outcome := p.end(t); outcome != "cancelled" || !p.there() {
		t.Errorf("the run %s, the file is there: %v", outcome, p.there())
	}
	p.closed(t)
	if got := p.result(t); !strings.Contains(got, "was not made") {
		t.Errorf("the agent was told %s", got)
	}
}

// closed checks that the request can no longer be answered.
func (p *pendingApproval) closed(t *testing.T) {
	t.Helper()
	if got := kagedtest.Get[struct{ State string }](t, p.Client, p.path()); got.State != "closed" {
		t.Errorf("the request is %s", got.State)
	}
	err := p.Client.Do(t.Context(), http.MethodPost, p.path(), map[string]any{"decision": "approve"}, nil)
	if f := fault.From(err); f == nil || f.Code != fault.Conflict || f.Details["current_state"] != "closed" {
		t.Errorf("an answer that is too late: %v", err)
	}
	if events := p.events(t); events["tool.approval.closed"] != 1 || events["shell.executed"] != 0 {
		t.Errorf("recorded: %v", events)
	}
}

// kill -9 of the daemon while a call waits: after the restart the run has ended as interrupted, the request is closed,
// the command has not run and does not run later, and the session accepts the next message (P14).
func TestKilledWhileAsked(t *testing.T) {
	t.Parallel()
	p := waitForApproval(t, "")
	p.daemon.Kill()
	<-p.daemon.Done()
	asked := len(p.llm.Requests())
	p.again(t)
	if !p.there() || len(p.llm.Requests()) != asked {
		t.Errorf("the file is there: %v; %d model calls after the restart", p.there(), len(p.llm.Requests())-asked)
	}
	p.closed(t)
	if outcome := p.Run(t, "once again"); outcome != "completed" {
		t.Errorf("the next run %s", outcome)
	}
	p.Contiguous(t)
}

// again starts the daemon again and attaches from the first frame.
func (p *pendingApproval) again(t *testing.T) {
	t.Helper()
	p.daemon = p.world.Up(t, nil)
	c := p.world.SignIn(t)
	p.Session = &kagedtest.Session{ID: p.ID, Project: p.Project, Client: c}
	kagedtest.Eventually(t, "the session is idle", func() bool {
		return kagedtest.Get[struct{ State string }](t, c, "/api/v1/sessions/"+p.ID).State == "idle"
	})
	p.Attach(t, nil)
}
