// Package audit is the append-only record of actions, their operators, and the requests sent to models.
//
// Records are written in the transaction of their subject if there is one, so that neither exists without the
// other: the store's AppendAudit takes the transaction. [Service.Record] is for records that stand alone. No
// content of a record makes its writing fail: [Encode] replaces text that Postgres cannot keep and bounds large
// values.
package audit

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
)

// Record is one entry, to append or as stored. Empty strings are absent values.
type Record struct {
	// ID is a ULID. The store gives one where it is empty.
	ID string
	// TS is when it happened in milliseconds since the Unix epoch; 0 stands for now.
	TS int64
	// EventType is the dotted type, such as project.loaded.
	EventType string
	// UserID is the operator it is about, "" if unknown. Such records are shown to every operator.
	UserID string
	// RequestID is the request it came from.
	RequestID string
	ProjectID string
	SessionID string
	RunID     string
	// AgentPath is the tree path of the agent it is about.
	AgentPath string
	// Payload are the facts of the event. Its values are those that encoding/json can write; the maker of a record
	// masks secrets.
	Payload map[string]any
}

// New returns a record of the caller that ctx carries, as of now.
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

// maxField bounds every text of a record but its payload, in bytes. Only a nonsensical record has more.
const maxField = 512

// Clean returns r in storable form: with id and time, and its texts free of characters that Postgres cannot hold.
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
		*field = cleanField(*field)
	}
	return r
}

func cleanField(s string) string {
	if len(s) > maxField {
		s = s[:maxField]
	}
	if utf8.ValidString(s) && !strings.ContainsRune(s, 0) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Query asks the store for entries, newest first.
type Query struct {
	// Owner selects those of one operator. Those without an operator come too, unless OnlyOwner is set.
	Owner     string
	OnlyOwner bool
	// Everyone selects the entries of all operators; their payloads are left out.
	Everyone bool
	// Since is at or after and Until before, in milliseconds; 0 does not filter.
	Since, Until int64
	// ProjectID and SessionID do not filter where they are empty.
	ProjectID, SessionID string
	// Types are patterns in which * matches any text; an empty list does not filter.
	Types []string
	// After is the place of the last entry of the page before: its time and id.
	After *page.Key
	// Limit is the most entries to return, at least 1.
	Limit int
}

// Store keeps the record.
type Store interface {
	// Record appends records in one transaction of their own; they are on disk when it returns.
	Record(ctx context.Context, records []Record) error
	// Query returns the entries q asks for, newest first, and whether there are more; among entries of one millisecond the
	// higher id is newer. It may return fewer than the limit, and at least one if there is one, where payloads are large.
	Query(ctx context.Context, q Query) (entries []Record, more bool, err error)
}

// Service answers for the record. It is safe for concurrent use and starts no goroutine.
type Service struct {
	store  Store
	shared bool
}

// NewService returns a Service on store. If shared, records without an operator are shown to no one.
func NewService(store Store, shared bool) *Service { return &Service{store, shared} }

// maxBatch is the most records of one request. The gateway sends one at a time; a flood is a mistake.
const maxBatch = 1000

// Record appends records of another service. They are on disk when it returns. It fails with validation_failed for a
// record without a type and for more than 1000 at once.
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
