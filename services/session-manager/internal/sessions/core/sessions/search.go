package sessions

import (
	"context"
	"strings"
	"time"
	"unicode"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Bounds of a search: characters and words of a query.
const (
	maxQuery = 200
	maxWords = 16
)

// Found is a session that a search found. Message is its first message that has the words; it is "" if the
// session's name has them or the search has no words. LastRun is the latest of its runs that have ended, or nil.
type Found struct {
	record.Session
	Message string
	LastRun *record.Run
}

// Search returns a page of the caller's sessions, newest first. A non-empty project filters them; if q is not nil a
// session must have a text that contains every word of q. It fails with validation_failed, and with not_found for
// the project.
func (s *Service) Search(
	ctx context.Context, project string, q *string, limit int32, cursor string,
) (page.Page[Found], error) {
	none := page.Page[Found]{}
	req, err := page.Parse("found", limit, cursor)
	if err != nil {
		return none, err
	}
	var words []string
	if q != nil {
		if words, err = wordsOf(*q); err != nil {
			return none, err
		}
	}
	owner := ident.CallerFrom(ctx).UserID
	if project != "" {
		if err := s.Projects.Known(ctx, owner, project); err != nil {
			return none, err
		}
	}
	rows, err := s.Store.Search(ctx, owner, project, words, req.After, req.Fetch())
	return page.Cut(req, rows, func(f Found) page.Key { return page.Key{N: f.CreatedAt, S: f.ID} }), err
}

// wordsOf splits a query into words like stored texts. It fails with validation_failed naming q.
func wordsOf(q string) ([]string, error) {
	if err := check.Text("q", q, maxQuery); err != nil {
		return nil, err
	}
	words := strings.FieldsFunc(q, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.IsPunct(r) || unicode.IsSymbol(r)
	})
	switch {
	case len(words) == 0:
		return nil, check.Field("q", "q must have a word of letters or digits; without q every session is listed.")
	case len(words) > maxWords:
		return nil, check.Field("q", "q must have at most %d words.", maxWords)
	}
	return words, nil
}

// fillBatch bounds the texts that are indexed in one transaction.
const fillBatch = 32

// fillAfter is the time for which a stored text waits for others, and for the answer that it asks for.
const fillAfter = 100 * time.Millisecond

// FillWords adds stored texts to the search index until ctx ends: texts of this process soon, those of other
// processes within ToolsRetry.
func (s *Service) FillWords(ctx context.Context) {
	ticker := time.NewTicker(s.ToolsRetry)
	defer ticker.Stop()
	for {
		n, err := s.Store.FillWords(ctx, fillBatch)
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("stored texts could not be indexed; retrying", "error", err)
		}
		if err == nil && n == fillBatch {
			continue
		}
		if err != nil { // a failed database is retried by time, not at each stored text
			select {
			case <-ticker.C:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-s.Store.ToFill():
			retry.Wait(ctx, fillAfter)
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
