package sessions

import (
	"context"
	"strings"
	"time"
	"unicode"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Bounds of a search, in characters and in words.
const (
	maxQuery = 200
	maxWords = 16
)

// Found is a session of a search. Message is its first message with the words, "" where its name has them and for a
// list without words.
type Found struct {
	record.Session
	Message string
}

// Search returns a page of the caller's sessions, newest first: of one project if project is not empty, and if q is not
// nil only those with a text that has each word of q. It fails with validation_failed, and with not_found for the
// project.
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

// wordsOf returns the words of a query, parted as stored texts are. It fails with validation_failed naming q.
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

// fillBatch is how many texts are made searchable in one transaction.
const fillBatch = 32

// FillWords makes stored texts searchable until ctx ends, those of this process at once and those that another left
// behind within ToolsRetry.
func (s *Service) FillWords(ctx context.Context) {
	ticker := time.NewTicker(s.ToolsRetry)
	defer ticker.Stop()
	for {
		n, err := s.Store.FillWords(ctx, fillBatch)
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("stored texts are not searchable yet; trying again", "error", err)
		}
		if err == nil && n == fillBatch {
			continue
		}
		if err != nil { // a failed database is not asked at each stored text
			select {
			case <-ticker.C:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-s.Store.ToFill():
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
