package sessionmanager

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
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

// refused fails the test unless err has the code; it returns the fault.
func refused(t testing.TB, err error, code fault.Code) *fault.Error {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
	return fault.From(err)
}

// recorded returns the types of a session's audit records, oldest first.
func (n *node) recorded(user, session string) []string {
	n.w.t.Helper()
	resp, err := n.Audit.QueryAudit(as(n.w.t, user), &apiv1.QueryAuditRequest{Session: session, Limit: 200})
	if err != nil {
		n.w.t.Fatalf("querying the record: %v", err)
	}
	var out []string
	for i := len(resp.GetItems()) - 1; i >= 0; i-- {
		out = append(out, resp.GetItems()[i].GetEventType())
	}
	return out
}

// count returns the number of frames of a type.
func count(list []string, kind string) int {
	n := 0
	for _, f := range list {
		if strings.HasPrefix(f, kind+" ") {
			n++
		}
	}
	return n
}

func failure(code commonv1.ErrorCode, message string, status float64) *harnessv1.RunFinished {
	detail, _ := structpb.NewStruct(map[string]any{"status": status})
	return &harnessv1.RunFinished{
		Outcome: harnessv1.Outcome_OUTCOME_FAILED, StopReason: harnessv1.StopReason_STOP_REASON_ERROR,
		Error: &commonv1.Error{Code: code, Message: message}, Detail: detail,
	}
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func unmarshal(t testing.TB, data string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), into); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
}
