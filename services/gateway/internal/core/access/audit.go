package access

import "context"

// Entry is a record of the audit.
type Entry struct {
	// Type is the dotted type, such as auth.denied.
	Type string
	// UserID is the operator, "" if unknown.
	UserID string
	// RequestID is the request it is about.
	RequestID string
	// Payload are the facts: strings, numbers and booleans. It is the receiver's.
	Payload map[string]any
}

// Audit takes the gateway's records. It is safe for concurrent use.
type Audit interface {
	// Record takes a record and waits until there is room for it. It fails with ctx's fault.
	Record(ctx context.Context, e Entry) error
	// Denied takes the record of a refusal and never waits. A burst of refusals does not fill the store: past a
	// rate refusals are only counted, and the next record carries their number as suppressed.
	Denied(e Entry)
}
