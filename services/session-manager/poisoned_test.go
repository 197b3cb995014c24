package sessionmanager

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// poison has statements that corrupt the column named by the key in every session, as an older version, a bug or a
// manual edit may.
var poison = map[string]string{
	"the largest counts":   "update runs set tokens_in = 9223372036854775807, tokens_out = 9223372036854775807",
	"negative counts":      "update runs set tokens_in = -9223372036854775808, tokens_out = -1",
	"a cost that is none":  "update runs set cost_total = 'NaN'",
	"the largest costs":    "update runs set cost_total = 1.7e308",
	"a failure of a form":  `update runs set error = '"broken"'`,
	"prompts of a form":    `update runs set prompt_hashes = '[1]'`,
	"steps":                "update run_steps set body = '\\xff'",
	"blocks of a kind":     `update messages set blocks = '[{"type":"hologram"}]'`,
	"blocks of a form":     `update messages set blocks = '{"a":1}'`,
	"metadata":             `update messages set metadata = '[]'`,
	"a message's cost":     "update messages set cost_total = 'Infinity'",
	"approvals":            `update approvals set subject = '[]'`,
	"project's aliases":    `update projects set aliases = '"x"', diagnostics = '7'`,
	"deep input of a call": "",
}

// With any corrupt content of a session's rows, the service starts, and the session and its neighbours can be
// loaded, listed, read, used and ended.
func TestPoisonedDatabase(t *testing.T) {
	t.Parallel()
	for name, sql := range poison {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			n := w.start("a")
			s := n.session("ada")
			deep := `{"a":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9001)
			for range 2 {
				w.harness.expect(func(p *play) {
					p.model()
					p.turn(1, true, call("c"+p.start.GetRunId(), "file.read", deep))
					p.tool(1, "c"+p.start.GetRunId(), "file.read", deep, "x")
					p.done(1)
					p.finish(&harnessv1.RunFinished{
						Outcome: harnessv1.Outcome_OUTCOME_COMPLETED, StopReason: harnessv1.StopReason_STOP_REASON_STOP,
						Usage: &harnessv1.Usage{Input: 1 << 62, Output: 1 << 62, CacheRead: 1 << 62},
						Stats: &harnessv1.Stats{Cost: &harnessv1.Cost{Total: 1}},
					})
				})
				n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
			}
			n.Stop()
			if sql != "" {
				admin := w.connect(w.owner)
				defer admin.Close(t.Context())
				if _, err := admin.Exec(t.Context(), "set search_path to session_manager"); err != nil {
					t.Fatal(err)
				}
				if _, err := admin.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			n = w.start("a")
			readAll(t, n, s)
			if got := n.run("ada", s, n.post("ada", s, "And now?").GetRunId()); got.GetOutcome() != "completed" {
				t.Errorf("got %v, want the session to work", got)
			}
			readAll(t, n, s)
			if _, err := n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true}); err != nil {
				t.Errorf("got %v from ending the session, want none", err)
			}
		})
	}
}

// readAll reads a session through every RPC, and fails the test if a read fails or is incomplete.
func readAll(t *testing.T, n *node, s string) {
	t.Helper()
	if got := n.get("ada", s).GetTotals(); got.GetTokensIn() < 0 || got.GetTokensIn() > 1<<53 || got.GetTokensOut() < 0 ||
		got.GetCostUsd() < 0 {
		t.Errorf("got totals %v, want counts that JSON clients read exactly", got)
	}
	if got := n.messages("ada", s); len(got) < 4 || len(got) != int(n.get("ada", s).GetMessageCount()) {
		t.Errorf("got %d messages, want all %d", len(got), n.get("ada", s).GetMessageCount())
	}
	runs, err := n.Sessions.ListRuns(as(t, "ada"), &apiv1.ListRunsRequest{SessionId: s})
	if err != nil || len(runs.GetItems()) < 2 {
		t.Fatalf("got runs %v and error %v, want all", runs, err)
	}
	for _, r := range runs.GetItems() {
		resp, err := n.Sessions.GetRun(as(t, "ada"), &apiv1.GetRunRequest{SessionId: s, RunId: r.GetId()})
		if err != nil || len(resp.GetRun().GetSteps()) == 0 {
			t.Errorf("got run %v and error %v, want its steps", resp, err)
		}
		if c := resp.GetRun().GetCostTotal(); c < 0 || c > 1e12 {
			t.Errorf("got a cost of %v, want one within bounds", c)
		}
	}
	for what, ask := range map[string]func() (proto.Message, error){
		"sessions": func() (proto.Message, error) {
			return n.Sessions.ListSessions(as(t, "ada"), &apiv1.ListSessionsRequest{ProjectId: "music"})
		},
		"approvals": func() (proto.Message, error) {
			return n.Sessions.ListApprovals(as(t, "ada"), &apiv1.ListApprovalsRequest{SessionId: s})
		},
		"projects": func() (proto.Message, error) {
			return n.Projects.ListProjects(as(t, "ada"), &apiv1.ListProjectsRequest{})
		},
		"project": func() (proto.Message, error) {
			return n.Projects.GetProject(as(t, "ada"), &apiv1.GetProjectRequest{Id: "music"})
		},
		"audit": func() (proto.Message, error) {
			return n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s})
		},
	} {
		if _, err := ask(); err != nil {
			t.Errorf("got %v for the %s, want none", err, what)
		}
	}
}
