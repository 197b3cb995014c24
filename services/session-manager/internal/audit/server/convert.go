package server

import (
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

//convert:import apiv1 "kaged.dev/proto/gen/kaged/api/v1"
//convert:import structs "kaged.dev/pkg/structs"
//convert:one entry audit.Record *apiv1.AuditEntry >Payload=structs.Of(in.Payload)
//convert:one filter *apiv1.QueryAuditRequest audit.Filter Session=SessionID
