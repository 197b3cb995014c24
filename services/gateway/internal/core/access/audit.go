package access

import "context"

// Entry is a record of the audit log.
type Entry struct {
	// Type is the dotted event type, such as auth.denied.
	Type string
	// UserID is the operator's id, "" if unknown.
	UserID string
	// RequestID is the id of the request that caused the record.
	RequestID string
	// Payload has strings, numbers and booleans. The receiver owns it and may change it.
	Payload map[string]any
}

// Audit accepts the gateway's audit records. It is safe for concurrent use.
type Audit interface {
	// Record queues a record, and waits while the queue is full. It fails with ctx's fault.
	Record(ctx context.Context, e Entry) error
	// Denied queues the record of a refusal and never waits. Refusals above a rate are only counted; the payload of
	// the next record has their number as suppressed.
	Denied(e Entry)
}
