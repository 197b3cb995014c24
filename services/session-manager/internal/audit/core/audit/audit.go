// Package audit is the append-only record of actions, their operators, and the requests sent to models.
//
// A record is written in the transaction of its subject if there is one, so that both are stored or neither: the
// store's AppendAudit takes the transaction. [Service.Record] is for records without such a transaction. No content of
// a record makes its write fail: [Encode] replaces text that Postgres cannot store, and limits large values.
package audit

import (
	"context"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
)

// Record is one entry, either to append or stored. Empty strings are absent values.
type Record struct {
	// ID is a ULID. The store sets an empty one.
	ID string
	// TS is the time of the event in milliseconds since the Unix epoch; 0 stands for now.
	TS int64
	// EventType is the dotted type, such as project.loaded.
	EventType string
	// UserID is the operator of the event, "" if unknown. Records without an operator are shown to every operator.
	UserID string
	// RequestID is the request that caused the event.
	RequestID string
	ProjectID string
	SessionID string
	RunID     string
	// AgentPath is the tree path of the agent of the event.
	AgentPath string
	// Payload has the facts of the event. Its values are those that encoding/json can write; the creator of a record masks
	// secrets.
	Payload map[string]any
}

// New returns a record of the caller in ctx, with the present time.
func New(ctx context.Context, eventType string, payload map[string]any) Record {
	caller := ident.CallerFrom(ctx)
	return Record{
		ID: ident.New(), TS: time.Now().UnixMilli(), EventType: eventType,
		UserID: caller.UserID, RequestID: caller.RequestID, Payload: payload,
	}
}

//convert:import contract "kaged.dev/pkg/contract"
//convert:one Of contract.Record Record At=TS Type=EventType Agent=AgentPath >ID=- >UserID=- >RequestID=- >ProjectID=-
//convert:with >SessionID=- >RunID=-

// maxField is the maximum size of every text of a record except its payload, in bytes. Valid records have less.
const maxField = 512

// Clean returns r in a form that can be stored: with id and time, and with texts without characters that Postgres
// cannot store.
func (r Record) Clean() Record {
	if r.ID == "" {
		r.ID = ident.New()
	}
	if r.TS == 0 {
		r.TS = time.Now().UnixMilli()
	}
	for _, field := range []*string{
		&r.EventType, &r.UserID, &r.RequestID, &r.ProjectID, &r.SessionID, &r.RunID, &r.AgentPath,
	} {
		*field = check.Storable(clip.Bytes(*field, maxField))
	}
	return r
}

// Query is a request to the store for entries, newest first.
type Query struct {
	// Owner selects the entries of one operator. Entries without an operator are included, unless OnlyOwner is true.
	Owner     string
	OnlyOwner bool
	// Everyone selects the entries of all operators, without their payloads.
	Everyone bool
	// Since selects entries at or after it, Until entries before it, in milliseconds; 0 does not filter.
	Since, Until int64
	// ProjectID and SessionID do not filter if they are empty.
	ProjectID, SessionID string
	// Types are patterns in which * matches any text; an empty list does not filter.
	Types []string
	// After is the time and the id of the last entry of the previous page.
	After *page.Key
	// Limit is the maximum number of entries, at least 1.
	Limit int
}

// Store stores the record.
type Store interface {
	// Record appends records in one transaction. They are on disk when it returns.
	Record(ctx context.Context, records []Record) error
	// Query returns the selected entries, newest first, and whether there are more. Of entries in the same millisecond the
	// one with the higher id is newer. If payloads are large it may return fewer entries than the limit, but at least one
	// if there is one.
	Query(ctx context.Context, q Query) (entries []Record, more bool, err error)
}

// Service has the operations on the record. It is safe for concurrent use and starts no goroutine.
type Service struct {
	store  Store
	shared bool
}

// NewService returns a Service on store. If shared is true, operators cannot read records without an operator.
func NewService(store Store, shared bool) *Service { return &Service{store, shared} }

// maxBatch is the maximum number of records of one request. The gateway sends one at a time; a larger number is a
// mistake.
const maxBatch = 1000

// Record appends records of another service. They are on disk when it returns. It fails with validation_failed for a
// record without a type and for more than 1000 records.
func (s *Service) Record(ctx context.Context, records []Record) error {
	if len(records) > maxBatch {
		return fault.New(fault.ValidationFailed, "At most %d records can be appended at once.", maxBatch).
			With("fields", []string{"records"})
	}
	for _, r := range records {
		if r.EventType == "" {
			return fault.New(fault.ValidationFailed, "A record needs an event_type.").With("fields", []string{"records"})
		}
	}
	if len(records) == 0 {
		return nil
	}
	return s.store.Record(ctx, records)
}
