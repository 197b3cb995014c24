//go:build faults

package e2e_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// comparison is the answer of GET /projects/ID/approval.
type comparison struct {
	State        string
	ApprovedHash *string `json:"approved_hash"`
	PendingHash  *string `json:"pending_hash"`
	Widened      []struct {
		AgentPath string `json:"agent_path"`
		Key       string
		From, To  *string
	}
	Diff string
}

func comparisonOf(t *testing.T, c *client.Client, id string) comparison {
	t.Helper()
	return kagedtest.Get[comparison](t, c, "/api/v1/projects/"+id+"/approval")
}

// guarded is a project with an agent that may read, free the project file that gives it all rights.
const guarded = `version: 1
project: guarded
primary:
  model: smart-generalist
  system_prompt: ./prompt.md
  tools: {"*": {enabled: false}, file.read: {enabled: true}}
  cage: disabled
`

var free = strings.ReplaceAll(guarded, `"*": {enabled: false}, file.read`, `"shell.*"`)

// A change that widens the approved version gets the answer 409 with the list of widenings. The project is ready, and a
// session runs on the approved version, until the hash in the answer is approved. All of it is recorded.
func TestProjectApprovalOverHTTP(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("Done.")} })
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	kagedtest.Write(t, dir, ".kaged/project.yaml", guarded)
	kagedtest.Write(t, dir, "prompt.md", "You work.")
	w.Up(t, nil)
	c := w.SignIn(t)
	s := kagedtest.Create(t, c, dir)
	first := comparisonOf(t, c, "guarded")
	if first.State != "approved" || first.ApprovedHash == nil || first.PendingHash != nil || first.Diff != "" ||
		first.Widened == nil {
		t.Errorf("at first: %+v", first)
	}
	tools := func() []string {
		return kagedtest.Get[struct{ Tools struct{ Enabled []string } }](t, c,
			"/api/v1/projects/guarded/capabilities").Tools.Enabled
	}
	had := tools()

	kagedtest.Write(t, dir, ".kaged/project.yaml", free)
	err := c.Do(t.Context(), "POST", "/api/v1/projects/guarded/reload", map[string]any{}, nil)
	f := fault.From(err)
	if f.HTTP != 409 || f.Code != fault.Conflict || f.Details["reason"] != "approval_required" ||
		!strings.Contains(f.Details["diff"].(string), "+  tools:") {
		t.Fatalf("reload: %v %v", err, f.Details)
	}
	now := comparisonOf(t, c, "guarded")
	if now.State != "required" || *now.ApprovedHash != *first.ApprovedHash || *now.PendingHash != f.Details["hash"] ||
		now.Diff != f.Details["diff"] {
		t.Errorf("the approval: %+v", now)
	}
	if len(now.Widened) != 1 || now.Widened[0].AgentPath != "primary" || now.Widened[0].Key != "tools" ||
		now.Widened[0].From != nil || !strings.Contains(*now.Widened[0].To, "shell.bash") {
		t.Errorf("widened: %+v", now.Widened)
	}
	project := kagedtest.Get[struct {
		State       string
		Diagnostics []struct{ Code, Severity, Path string }
	}](t, c, "/api/v1/projects/guarded")
	if project.State != "ready" || len(project.Diagnostics) != 0 {
		t.Errorf("the project: %+v", project)
	}
	s.Attach(t, nil)
	if outcome := s.Run(t, "go on"); outcome != "completed" {
		t.Errorf("a run meanwhile %s", outcome)
	}
	if got := tools(); len(got) != len(had) {
		t.Errorf("unapproved tools count: %v, had %v", got, had)
	}

	approve := func(hash string) error {
		return c.Do(t.Context(), "POST", "/api/v1/projects/guarded/approve", map[string]any{"hash": hash}, nil)
	}
	if f := fault.From(approve(*first.ApprovedHash + "0")); f.HTTP != 409 || f.Details["reason"] != "approval_changed" ||
		f.Details["hash"] != *now.PendingHash {
		t.Errorf("another hash: %v %v", f, f.Details)
	}
	var done struct {
		Hash       string
		ApprovedAt int64  `json:"approved_at"`
		ApprovedBy string `json:"approved_by"`
	}
	if err := c.Do(t.Context(), "POST", "/api/v1/projects/guarded/approve", map[string]any{"hash": *now.PendingHash},
		&done); err != nil ||
		done.Hash != *now.PendingHash || done.ApprovedBy != "operator" || done.ApprovedAt == 0 {
		t.Errorf("approved: %+v, %v", done, err)
	}
	if got := tools(); len(got) <= len(had) {
		t.Errorf("approved tools do not count: %v", got)
	}
	records := kagedtest.Get[struct {
		Items []struct {
			EventType string `json:"event_type"`
			Payload   map[string]any
		}
	}](t, c, "/api/v1/audit?project_id=guarded&limit=100")
	var by []string
	for _, r := range records.Items {
		if r.EventType == "project.approved" {
			by = append(by, r.Payload["by"].(string)+" "+r.Payload["hash"].(string))
		}
	}
	if len(by) != 2 || by[0] != "operator "+done.Hash || by[1] != "first_load "+*first.ApprovedHash {
		t.Errorf("the record has %v", by)
	}
}

// After kill -9 between the steps of an approval, either the old or the new version is approved, never a mix. The
// approval can be repeated.
func TestKilledWhileApproving(t *testing.T) {
	t.Parallel()
	for point, approved := range map[crash.Point]bool{crash.ApprovedTextsStored: false, crash.ProjectApproved: true} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			llm := fakellm.Start(t)
			w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
			dir := w.Project(t)
			kagedtest.Write(t, dir, ".kaged/project.yaml", guarded)
			kagedtest.Write(t, dir, "prompt.md", "You work.")
			at := string(point)
			if point == crash.ApprovedTextsStored {
				at += ":2" // the first load approves too
			}
			d := w.Up(t, []string{"KAGED_CRASH_AT=" + at})
			c := w.SignIn(t)
			kagedtest.Create(t, c, dir)
			kagedtest.Write(t, dir, ".kaged/project.yaml", free)
			before := comparisonOf(t, c, "guarded")
			_ = c.Do(t.Context(), "POST", "/api/v1/projects/guarded/approve", map[string]any{"hash": *before.PendingHash}, nil)
			if _, code := d.Rest(t); code != 128+int(syscall.SIGKILL) {
				t.Fatalf("the daemon ended with %d instead of being killed", code)
			}
			w.Up(t, nil)
			c = w.SignIn(t)
			after := comparisonOf(t, c, "guarded")
			if (after.State == "approved") != approved || (*after.ApprovedHash == *before.PendingHash) != approved {
				t.Errorf("after the restart: %+v, want approved %t", after, approved)
			}
			if err := c.Do(t.Context(), "POST", "/api/v1/projects/guarded/approve", map[string]any{"hash": *before.PendingHash},
				nil); err != nil {
				t.Error(err)
			}
			if err := c.Do(t.Context(), "POST", "/api/v1/projects/guarded/reload", map[string]any{}, nil); err != nil ||
				errors.Is(err, fault.Conflict) {
				t.Error(err)
			}
		})
	}
}
