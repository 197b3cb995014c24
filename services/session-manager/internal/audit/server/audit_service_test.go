package server_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit/pgtest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/audit/server"
	"kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/database/migrations"
)

func as(t *testing.T, user string) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: user})
}

// The operator of an event finds the records of another service, page by page. A-AUDIT-01, A-AUDIT-02, A-AUDIT-03.
func TestRecordAndQuery(t *testing.T) {
	s := server.New(audit.NewService(store.NewAudit(pgtest.New(t, migrations.Files, migrations.Schema)), false))
	payload, _ := structpb.NewStruct(map[string]any{"ip": "127.0.0.1"})
	_, err := s.RecordAudit(t.Context(), &sessionmanagerv1.RecordAuditRequest{
		UserId: "ada", RequestId: "r1",
		Records: []*commonv1.AuditRecord{
			{EventType: "auth.login", Ts: 5, Payload: payload}, {EventType: "auth.logout", Ts: 6, AgentPath: "primary"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{EventType: "auth.*", Limit: 1})
	if err != nil || len(first.GetItems()) != 1 || !first.GetHasMore() || first.NextCursor == nil {
		t.Fatalf("first = %v, %v", first, err)
	}
	second, err := s.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{
		EventType: "auth.*", Limit: 1, Cursor: first.GetNextCursor(),
	})
	if err != nil || len(second.GetItems()) != 1 || second.GetHasMore() || second.NextCursor != nil {
		t.Fatalf("second = %v, %v", second, err)
	}
	want := []*apiv1.AuditEntry{
		{
			Id: first.GetItems()[0].GetId(), Ts: 6, EventType: "auth.logout", UserId: "ada", RequestId: "r1",
			AgentPath: "primary", Payload: &structpb.Struct{},
		},
		{Id: second.GetItems()[0].GetId(), Ts: 5, EventType: "auth.login", UserId: "ada", RequestId: "r1", Payload: payload},
	}
	if d := cmp.Diff(want, append(first.GetItems(), second.GetItems()...), protocmp.Transform()); d != "" {
		t.Error(d)
	}
	for user, want := range map[string]int{"eve": 0, "": 0, "ada": 2} {
		if got, err := s.QueryAudit(as(t, user), &apiv1.QueryAuditRequest{}); err != nil || len(got.GetItems()) != want {
			t.Errorf("%q sees %d, %v", user, len(got.GetItems()), err)
		}
	}
	if got, err := s.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{ProjectId: "none"}); err != nil ||
		len(got.GetItems()) != 0 || got.GetHasMore() {
		t.Errorf("an empty project: %v, %v", got, err)
	}
}

// Invalid requests are refused.
func TestRefusals(t *testing.T) {
	s := server.New(audit.NewService(store.NewAudit(pgtest.New(t, migrations.Files, migrations.Schema)), false))
	for name, req := range map[string]*apiv1.QueryAuditRequest{
		"limit": {Limit: -1}, "cursor": {Cursor: "garbage"}, "since": {Since: -1}, "session": {Session: "\x00"},
	} {
		_, err := s.QueryAudit(as(t, "ada"), req)
		if !errors.Is(err, fault.ValidationFailed) || !cmp.Equal(fault.From(err).Details["fields"], any([]string{name})) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := s.RecordAudit(t.Context(), &sessionmanagerv1.RecordAuditRequest{Records: []*commonv1.AuditRecord{{}}})
	if !errors.Is(err, fault.ValidationFailed) {
		t.Errorf("a record without a type: %v", err)
	}
}
