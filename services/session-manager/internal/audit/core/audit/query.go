package audit

import (
	"context"
	"strings"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/page"
)

// Filter restricts a query, in the terms of the API; zero fields do not filter.
type Filter struct {
	// Since selects entries at or after it, Until entries before it, in milliseconds.
	Since, Until int64
	ProjectID    string
	SessionID    string
	// EventType has types separated by commas; * matches any text, including dots.
	EventType string
}

// maxPatterns is the maximum number of types in one query.
const maxPatterns = 50

// list is the name of the audit's pages.
const list = "audit"

// Query returns a page of the entries that owner may read, newest first: the entries of owner and, unless operators
// share the deployment, those without an operator. It fails with validation_failed and the name of an invalid
// parameter.
func (s *Service) Query(
	ctx context.Context, owner string, f Filter, limit int32, cursor string,
) (page.Page[Record], error) {
	return s.query(ctx, Query{Owner: owner, OnlyOwner: s.shared}, f, limit, cursor)
}

// Everyone returns a page of the entries of all operators, or of one, without their facts, for administrators. It fails
// as Query does.
func (s *Service) Everyone(
	ctx context.Context, operator string, f Filter, limit int32, cursor string,
) (page.Page[Record], error) {
	p, err := s.query(ctx, Query{Owner: operator, OnlyOwner: operator != "", Everyone: operator == ""}, f, limit, cursor)
	for i := range p.Items {
		p.Items[i].Payload = nil
	}
	return p, err
}

// query completes a query and asks it.
func (s *Service) query(
	ctx context.Context, q Query, f Filter, limit int32, cursor string,
) (page.Page[Record], error) {
	req, err := page.Parse(list, limit, cursor)
	if err != nil {
		return page.Page[Record]{}, err
	}
	types, err := f.check()
	if err != nil {
		return page.Page[Record]{}, err
	}
	q.Since, q.Until, q.ProjectID, q.SessionID = f.Since, f.Until, f.ProjectID, f.SessionID
	q.Types, q.After, q.Limit = types, req.After, req.Limit
	entries, more, err := s.store.Query(ctx, q)
	if err != nil {
		return page.Page[Record]{}, err
	}
	return page.Of(req, entries, more, func(r Record) page.Key { return page.Key{N: r.TS, S: r.ID} }), nil
}

// check validates f and returns the patterns of f.EventType.
func (f Filter) check() ([]string, error) {
	for field, n := range map[string]int64{"since": f.Since, "until": f.Until} {
		if n < 0 {
			return nil, check.Field(field, "%s must be a time in milliseconds.", field)
		}
	}
	for field, s := range map[string]string{"project_id": f.ProjectID, "session": f.SessionID, "event_type": f.EventType} {
		if err := check.Text(field, s, 0); err != nil {
			return nil, err
		}
	}
	var types []string
	for _, pattern := range strings.Split(f.EventType, ",") {
		pattern = strings.TrimSpace(pattern)
		switch {
		case pattern == "":
			continue
		case len(pattern) > check.MaxID:
			return nil, check.Field("event_type", "A type in event_type must have at most %d characters.", check.MaxID)
		}
		types = append(types, pattern)
	}
	if len(types) > maxPatterns {
		return nil, check.Field("event_type", "event_type must name at most %d types.", maxPatterns)
	}
	return types, nil
}
