package auditlog_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/adapter/auditlog"
	"kaged.dev/services/gateway/internal/core/access"
)

// store keeps records after a number of failures.
type store struct {
	sessionmanagerv1.AuditServiceClient
	mu    sync.Mutex
	fails int
	kept  []*sessionmanagerv1.RecordAuditRequest
}

func (s *store) RecordAudit(
	_ context.Context, r *sessionmanagerv1.RecordAuditRequest, _ ...grpc.CallOption,
) (*sessionmanagerv1.RecordAuditResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails > 0 {
		s.fails--
		return nil, fault.New(fault.Unavailable, "down")
	}
	s.kept = append(s.kept, r)
	return &sessionmanagerv1.RecordAuditResponse{}, nil
}

var limits = auditlog.Limits{Queue: 1024, Denials: 100, Window: 10 * time.Second}

// run calls work while the audit log runs, then stops the log and waits for its end.
func run(t *testing.T, l *auditlog.Log, work func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	work()
	cancel()
	wg.Wait()
}

// Records arrive in order, despite a short outage, and those that wait when the gateway stops arrive too.
func TestRecordsArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{fails: 2}
		l := auditlog.New(s, slog.New(slog.DiscardHandler), limits)
		run(t, l, func() {
			for i := range 10 {
				e := access.Entry{Type: "auth.request", UserID: "ann", RequestID: fmt.Sprint(i), Payload: map[string]any{"n": i}}
				if err := l.Record(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
		})
		if len(s.kept) != 10 {
			t.Fatalf("%d records arrived", len(s.kept))
		}
		for i, r := range s.kept {
			if r.GetRequestId() != fmt.Sprint(i) || r.GetUserId() != "ann" ||
				r.GetRecords()[0].GetPayload().AsMap()["n"] != float64(i) {
				t.Errorf("record %d is %v", i, r)
			}
		}
	})
}

// While records cannot be stored they wait for a bounded time and are written to the log.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{fails: 1 << 20}
		var text bytes.Buffer
		l := auditlog.New(s, slog.New(slog.NewTextHandler(&text, nil)), limits)
		start := time.Now()
		run(t, l, func() {
			for i := range 20 {
				if err := l.Record(t.Context(), access.Entry{Type: "auth.denied", RequestID: fmt.Sprint(i)}); err != nil {
					t.Fatal(err)
				}
			}
		})
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("stopping took %s", took)
		}
		if n := strings.Count(text.String(), "audit record was not stored"); n != 20 {
			t.Errorf("%d of 20 records are in the log", n)
		}
	})
}

// Refusals of a burst are counted and not recorded, and the next record has their number.
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		l := auditlog.New(s, slog.New(slog.DiscardHandler), limits)
		run(t, l, func() {
			for range 1000 {
				l.Denied(access.Entry{Type: "auth.denied", Payload: map[string]any{}})
			}
			time.Sleep(11 * time.Second)
			l.Denied(access.Entry{Type: "auth.denied", Payload: map[string]any{}})
		})
		if len(s.kept) != 101 {
			t.Fatalf("%d records", len(s.kept))
		}
		if n := s.kept[100].GetRecords()[0].GetPayload().AsMap()["suppressed"]; n != float64(900) {
			t.Errorf("suppressed %v, want 900", n)
		}
	})
}
