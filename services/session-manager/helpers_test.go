package sessionmanager

import (
	"crypto/sha256"
	"encoding/hex"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

func auditRecords(types ...string) []*commonv1.AuditRecord {
	var out []*commonv1.AuditRecord
	for _, t := range types {
		out = append(out, &commonv1.AuditRecord{EventType: t, Ts: 1700000000001, AgentPath: "primary"})
	}
	return out
}
