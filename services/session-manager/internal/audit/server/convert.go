package server

import (
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
)

func records(req *sessionmanagerv1.RecordAuditRequest) []audit.Record {
	list := make([]audit.Record, len(req.GetRecords()))
	for i, r := range req.GetRecords() {
		list[i] = recordFromProto(r, req)
	}
	return list
}

//convert:import commonv1 "kaged.dev/proto/gen/kaged/common/v1"
//convert:one recordFromProto(req *sessionmanagerv1.RecordAuditRequest) *commonv1.AuditRecord audit.Record
//convert:with >UserID=req.GetUserId() >RequestID=req.GetRequestId() >Payload=in.GetPayload().AsMap()
//convert:with >ID=- >ProjectID=- >SessionID=- >RunID=-
//convert:import apiv1 "kaged.dev/proto/gen/kaged/api/v1"
//convert:import structs "kaged.dev/pkg/structs"
//convert:one entry audit.Record *apiv1.AuditEntry >Payload=structs.Of(in.Payload)
//convert:one filter *apiv1.QueryAuditRequest audit.Filter Session=SessionID
