package sessionmanager

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Audit records that a workspace produces between calls are stored for their session, once even if two processes
// receive them, and then acknowledged. Those of an ended session are left to the end of the session; those of its
// project, such as of a language server, are stored.
func TestLateRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	live, over := a.session("ada"), a.session("ada")
	if _, err := a.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: over, Confirm: true}); err != nil {
		t.Fatal(err)
	}
	a.Stop()
	event := func(session, project string) *toolrunnerv1.WorkspaceEvent {
		payload, err := structpb.NewStruct(map[string]any{"process_id": "p", "run_id": "r"})
		if err != nil {
			t.Fatal(err)
		}
		record := &commonv1.AuditRecord{
			EventType: "process.lost", Ts: time.Now().UnixMilli(), AgentPath: "primary", Payload: payload,
		}
		if project != "" {
			record.EventType = "code.lsp.server_stopped"
		}
		return &toolrunnerv1.WorkspaceEvent{
			Id: ident.New(), SessionId: session, ProjectId: project,
			Event: &toolrunnerv1.WorkspaceEvent_Record{Record: record},
		}
	}
	about, ended, none := event(live, ""), event(over, ""), event("no such session", "")
	server, foreign := event(over, "music"), event(live, "another")
	w.tools.mu.Lock()
	w.tools.late = []*toolrunnerv1.WorkspaceEvent{ended, none, foreign, about, server}
	w.tools.mu.Unlock()
	b := w.start("b")
	w.start("c")
	var got []string
	eventually(t, "both acknowledge the records", func() error {
		w.tools.mu.Lock()
		defer w.tools.mu.Unlock()
		if got = slices.Clone(w.tools.acknowledged); len(got) < 4 {
			return fmt.Errorf("acknowledged %v", got)
		}
		return nil
	})
	slices.Sort(got)
	if want := []string{about.GetId(), about.GetId(), server.GetId(), server.GetId()}; !slices.Equal(got, want) {
		t.Errorf("acknowledged %v, want %v", got, want)
	}
	for session, want := range map[string]*toolrunnerv1.WorkspaceEvent{live: about, over: server} {
		records, _, err := auditstore.NewAudit(b.pool).Query(t.Context(), audit.Query{
			Owner: "ada", SessionID: session, Types: []string{"process.lost", "code.lsp.server_stopped"}, Limit: 10,
		})
		if err != nil || len(records) != 1 {
			t.Errorf("got %d records, %v, want one", len(records), err)
			continue
		}
		if r := records[0]; r.ID != want.GetId() || r.RunID != "r" || r.ProjectID != "music" || r.AgentPath != "primary" ||
			r.EventType != want.GetRecord().GetEventType() {
			t.Errorf("got %+v", r)
		}
	}
}
