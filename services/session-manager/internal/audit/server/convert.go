package server

import (
	"kaged.dev/pkg/structs"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
)

func records(req *sessionmanagerv1.RecordAuditRequest) []audit.Record {
	list := make([]audit.Record, len(req.GetRecords()))
	for i, r := range req.GetRecords() {
		list[i] = audit.Record{
			TS: r.GetTs(), EventType: r.GetEventType(), UserID: req.GetUserId(), RequestID: req.GetRequestId(),
			AgentPath: r.GetAgentPath(), Payload: r.GetPayload().AsMap(),
		}
	}
	return list
}

func entry(r audit.Record) *apiv1.AuditEntry {
	e := &apiv1.AuditEntry{
		Id: r.ID, Ts: r.TS, EventType: r.EventType, UserId: r.UserID, RequestId: r.RequestID,
		ProjectId: optional(r.ProjectID), SessionId: optional(r.SessionID), RunId: r.RunID, AgentPath: r.AgentPath,
	}
	e.Payload = structs.Of(r.Payload)
	return e
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
