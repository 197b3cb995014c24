package store

import (
	"context"
	"math"
	"strings"

	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// Search implements [sessions.Store].
func (s *Sessions) Search(
	ctx context.Context, owner, project string, words []string, after *page.Key, limit int32,
) ([]sessions.Found, error) {
	found, err := s.find(ctx, owner, project, words, after, limit)
	if err != nil || len(found) == 0 {
		return found, err
	}
	at := make(map[string]int, len(found))
	ids := make([]string, len(found))
	for i, f := range found {
		ids[i], at[f.ID] = f.ID, i
	}
	runs, err := db.New(s.db).LastRuns(ctx, ids, owner)
	for _, r := range runs {
		found[at[r.SessionID]].LastRun = &record.Run{
			ID: r.ID, SessionID: r.SessionID, State: record.RunState(r.State), EndedAt: r.EndedAt,
			Error: failure(r.Error, "The failure of this run"),
		}
	}
	return found, database.Fail(err, "list the latest runs of sessions")
}

// find returns sessions without their latest runs.
func (s *Sessions) find(
	ctx context.Context, owner, project string, words []string, after *page.Key, limit int32,
) (found []sessions.Found, err error) {
	at := page.Key{N: math.MaxInt64}
	if after != nil {
		at = *after
	}
	switch {
	case len(words) > 0:
		return s.search(ctx, db.SearchNewestParams{
			Owner: owner, ProjectID: project, Query: prefixes(words), BeforeAt: at.N, BeforeID: at.S, RowLimit: limit,
		})
	case project != "":
		list, err := s.List(ctx, owner, project, after, limit)
		for _, l := range list {
			found = append(found, sessions.Found{Session: l})
		}
		return found, err
	}
	rows, err := db.New(s.db).SessionsOfOwner(ctx, owner, at.N, at.S, limit)
	for _, r := range rows {
		found = append(found, sessions.Found{Session: listed(db.ListSessionsRow(r))})
	}
	return found, database.Fail(err, "list sessions of all projects")
}

func (s *Sessions) search(ctx context.Context, p db.SearchNewestParams) (found []sessions.Found, err error) {
	return found, database.Fail(database.InTx(ctx, s.db, func(tx database.DB) error {
		rows, err := searchRows(ctx, db.New(tx), p)
		found = make([]sessions.Found, len(rows))
		for i, r := range rows {
			found[i].Session = listed(db.ListSessionsRow{
				ID: r.ID, OwnerUserID: r.OwnerUserID, ProjectID: r.ProjectID, Label: r.Label, State: r.State,
				ModelOverride:    r.ModelOverride,
				MaxStepsOverride: r.MaxStepsOverride, MaxOutputTokensOverride: r.MaxOutputTokensOverride,
				MessageCount: r.MessageCount,
				CreatedAt:    r.CreatedAt, UpdatedAt: r.UpdatedAt, IssueNumber: r.IssueNumber,
			})
			if r.SourceID != r.ID {
				found[i].Message = r.SourceID
			}
		}
		return err
	}), "search sessions")
}

// frequent is the number of matching texts from which on a search reads texts newest first, instead of sorting all
// matching texts.
const frequent = 2000

// searchRows runs the query that is faster for the frequency of p's words.
func searchRows(ctx context.Context, q *db.Queries, p db.SearchNewestParams) ([]db.SearchNewestRow, error) {
	if err := q.ReadByIndex(ctx); err != nil {
		return nil, err
	}
	hits, err := q.CountHits(ctx, p.Query, p.Owner, frequent)
	if err != nil {
		return nil, err
	}
	if hits == frequent {
		if err := q.ReadNewest(ctx); err != nil {
			return nil, err
		}
		return q.SearchNewest(ctx, p)
	}
	rows, err := q.SearchHits(ctx, db.SearchHitsParams(p))
	list := make([]db.SearchNewestRow, len(rows))
	for i, r := range rows {
		list[i] = db.SearchNewestRow(r)
	}
	return list, err
}

// prefixes returns a Postgres text query in which each word must begin a word of the text.
func prefixes(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(w) + "':*"
	}
	return strings.Join(quoted, " & ")
}

// FillWords implements [sessions.Store].
func (s *Sessions) FillWords(ctx context.Context, limit int32) (int64, error) {
	n, err := db.New(s.db).FillWords(ctx, limit)
	return n, database.Fail(err, "make texts searchable")
}

// ToFill implements [sessions.Store].
func (s *Sessions) ToFill() <-chan struct{} { return s.unfilled }

// wrote signals that a text was stored that is not in the search index yet.
func (s *Sessions) wrote() {
	select {
	case s.unfilled <- struct{}{}:
	default: // already signalled
	}
}
