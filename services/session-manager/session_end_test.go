package sessionmanager

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	sessionsstore "kaged.dev/services/session-manager/internal/sessions/store"
)

// Ending a session cancels its run, tells its socket and its workspace, and leaves it readable but refuses changes.
// A-SESS-DEL-01, A-MSG-POST-09.
func TestEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.hang()
		p.finish(&harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_CANCELLED, StopReason: harnessv1.StopReason_STOP_REASON_ABORTED,
		})
	})
	hold := n.attach("ada", s, false)
	posted := n.post("ada", s, "Work.")
	w.await(s, "output", "message.start")
	_, err := n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s})
	if f := refused(t, err, fault.BadRequest); f.Details["reason"] != "confirm_required" {
		t.Errorf("details = %v", f.Details)
	}
	ended, err := n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true})
	if err != nil || ended.GetSession().GetState() != apiv1.SessionState_SESSION_STATE_ENDED ||
		ended.GetSession().EndedAt == nil {
		t.Fatalf("ended = %v, %v", ended.GetSession(), err)
	}
	if got := hold.ended(); got.GetCode() != "session_ended" {
		t.Errorf("the socket was told %v", got)
	}
	if got := n.run("ada", s, posted.GetRunId()).GetOutcome(); got != "cancelled" {
		t.Errorf("the run is %s", got)
	}
	if d := cmp.Diff([]string{s}, w.tools.ended); d != "" {
		t.Error(d)
	}
	w.await(s, "events", `session.state {"state":"ended"}`)
	content := "More?"
	_, err = n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: s, Content: &content})
	refused(t, err, fault.Gone)
	_, err = n.Sessions.UpdateSession(as(t, "ada"), &apiv1.UpdateSessionRequest{
		Id:    s,
		Label: structpb.NewStringValue("x"),
	})
	refused(t, err, fault.Gone)
	_, err = n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true})
	refused(t, err, fault.Gone)
	stream, err := n.Attach.Attach(as(t, "ada"), &sessionmanagerv1.AttachRequest{SessionId: s})
	if err == nil {
		_, err = stream.Recv()
	}
	refused(t, err, fault.Gone)
	if len(n.messages("ada", s)) != 2 {
		t.Error("its messages are gone")
	}
}

// A workspace that could not be told of a session's end is told once it is reachable, also by another process than
// the one that ended the session, and only once.
func TestEndIsToldInTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	soon := func(c *Config) { c.ToolsTimeout = config.Duration(100 * time.Millisecond) }
	a := w.start("a", soon)
	told, untold := a.session("ada"), a.session("ada")
	end := func(s string) {
		if _, err := a.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true}); err != nil {
			t.Fatal(err)
		}
	}
	away := func(is bool) (ended []string) {
		w.tools.mu.Lock()
		defer w.tools.mu.Unlock()
		w.tools.away = is
		return slices.Clone(w.tools.ended)
	}
	end(told)
	away(true)
	end(untold)
	a.Stop()
	before := len(away(false))
	b := w.start("b", soon)
	eventually(t, "the workspace is told", func() error {
		if ended := away(false); !slices.Contains(ended[before:], untold) {
			return fmt.Errorf("it was told %v", ended)
		}
		return nil
	})
	eventually(t, "every workspace is told", func() error {
		left, err := sessionsstore.NewSessions(b.pool).ToolsToEnd(t.Context(), math.MaxInt64, nil, 10)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%v", left)
		}
		return err
	})
	// The audit records of the ended processes are stored once, even if two processes tell the workspace.
	pool := b.pool
	if err := sessionsstore.NewSessions(pool).ToolsEnded(t.Context(), untold,
		[]contract.Record{{Type: "shell.executed"}}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{told, untold} {
		records, _, err := auditstore.NewAudit(pool).
			Query(t.Context(), audit.Query{Owner: "ada", SessionID: s, Types: []string{"shell.executed"}, Limit: 10})
		if err != nil || len(records) != 1 || records[0].RunID != "r" || records[0].AgentPath != "primary" ||
			records[0].ProjectID != "music" {
			t.Errorf("recorded: %+v, %v", records, err)
		}
	}
}

// Unregistering a project ends its sessions in every process that holds them. A-PROJ-DEL-01.
func TestUnregister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.start("a"), w.start("b")
	first, second := a.session("ada"), a.session("ada")
	holdA, holdB := a.attach("ada", first, false), b.attach("ada", second, false)
	resp, err := a.Projects.UnregisterProject(as(t, "ada"), &apiv1.UnregisterProjectRequest{Id: "music", Confirm: true})
	if err != nil || resp.GetSessionsEnded() != 2 {
		t.Fatalf("unregistered = %v, %v", resp, err)
	}
	for _, hold := range []*hold{holdA, holdB} {
		if got := hold.ended(); got.GetCode() != "session_ended" {
			t.Errorf("a socket was told %v", got)
		}
	}
	for _, s := range []string{first, second} {
		if got := a.get("ada", s).GetState(); got != apiv1.SessionState_SESSION_STATE_ENDED {
			t.Errorf("a session is %s", got)
		}
	}
}
