// Package auditlog sends the gateway's audit records to session-manager, in order and in the background.
package auditlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
	"kaged.dev/pkg/structs"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// pauses has the pauses between the attempts to store one record.
var pauses = retry.Pauses{First: time.Second, Last: time.Second, Tries: 3}

const (
	tryTimeout = 5 * time.Second // for one attempt
	flushLimit = 5 * time.Second // for the records that wait when the gateway stops
)

// Limits configures a Log.
type Limits struct {
	// Queue is the number of records that may wait.
	Queue int
	// Denials is the number of refusals that are recorded in each Window; further refusals are only counted.
	Denials int
	Window  time.Duration
}

// Log queues audit records for session-manager and implements access.Audit. Make one with [New]; records are sent
// while [Log.Run] runs. It is safe for concurrent use.
type Log struct {
	client sessionmanagerv1.AuditServiceClient
	log    *slog.Logger
	limits Limits
	queue  chan *sessionmanagerv1.RecordAuditRequest

	mu         sync.Mutex // guards the fields below
	windowEnds time.Time
	denied     int
	suppressed int
}

// New returns a Log that writes through client.
func New(client sessionmanagerv1.AuditServiceClient, log *slog.Logger, limits Limits) *Log {
	return &Log{
		client: client, log: log, limits: limits, queue: make(chan *sessionmanagerv1.RecordAuditRequest, limits.Queue),
	}
}

// Record implements access.Audit.
func (l *Log) Record(ctx context.Context, e access.Entry) error {
	select {
	case l.queue <- request(e):
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

// Denied implements access.Audit.
func (l *Log) Denied(e access.Entry) {
	suppressed, ok := l.admit(time.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		e.Payload["suppressed"] = suppressed
	}
	select {
	case l.queue <- request(e):
	default:
		l.log.Warn("audit queue is full", "event_type", e.Type, "request_id", e.RequestID)
	}
}

// admit counts a refusal. It reports whether the refusal is recorded, and the number of unrecorded refusals before
// it.
func (l *Log) admit(now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.After(l.windowEnds) {
		l.windowEnds, l.denied = now.Add(l.limits.Window), 0
	}
	l.denied++
	if l.denied > l.limits.Denials {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}

// Run sends records until ctx ends, then up to flushLimit those that wait. A record that cannot be stored is
// written to the log.
func (l *Log) Run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushLimit, cancel) })()
	for {
		select {
		case r := <-l.queue:
			l.send(sending, r)
		case <-ctx.Done():
			l.flush(sending)
			return
		}
	}
}

func (l *Log) flush(ctx context.Context) {
	for {
		select {
		case r := <-l.queue:
			l.send(ctx, r)
		default:
			return
		}
	}
}

// send stores one record. On failure it writes the record to the log.
func (l *Log) send(ctx context.Context, r *sessionmanagerv1.RecordAuditRequest) {
	var err error
	for range pauses.Each(ctx) {
		if err = l.try(ctx, r); err == nil || !fault.CodeOf(err).Spec().GetRetryable() {
			break
		}
	}
	if err != nil {
		l.log.Error("audit record was not stored", "event_type", r.GetRecords()[0].GetEventType(), "user_id", r.GetUserId(),
			"request_id", r.GetRequestId(), "payload", r.GetRecords()[0].GetPayload(), "error", err)
	}
}

func (l *Log) try(ctx context.Context, r *sessionmanagerv1.RecordAuditRequest) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	_, err := l.client.RecordAudit(ctx, r)
	return err
}

func request(e access.Entry) *sessionmanagerv1.RecordAuditRequest {
	return &sessionmanagerv1.RecordAuditRequest{
		UserId: e.UserID, RequestId: e.RequestID,
		Records: []*commonv1.AuditRecord{{
			EventType: e.Type, Ts: time.Now().UnixMilli(), Payload: structs.Of(e.Payload),
		}},
	}
}
