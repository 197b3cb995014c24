package server

import (
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
)

// Entry returns an entry of the record as clients see it.
func Entry(r audit.Record) *apiv1.AuditEntry { return entry(r) }
