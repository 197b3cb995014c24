// Package store stores the logs of projects in Postgres.
package store

import (
	"context"
	"encoding/json"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/logs/core/logs"
	"kaged.dev/services/session-manager/internal/logs/store/db"
)

// maxContext bounds the context of an entry, in bytes of JSON.
const maxContext = 8 << 10

// Logs stores entries. It implements [logs.Store].
type Logs struct{ db database.DB }

// New returns the logs in db.
func New(db database.DB) *Logs { return &Logs{db} }

// Append implements [logs.Store].
func (l *Logs) Append(ctx context.Context, entries []logs.Entry) ([]logs.Entry, error) {
	var p db.AppendLogsParams
	byID := make(map[string]logs.Entry, len(entries))
	for _, e := range entries {
		e.Message = check.Storable(e.Message)
		text := audit.Encode(e.Context, maxContext)
		e.Context = decoded(text) // readers of the stream get the same context as readers of pages
		byID[e.ID] = e
		p.Ids, p.Owners = append(p.Ids, e.ID), append(p.Owners, check.Storable(e.Owner))
		p.Projects = append(p.Projects, check.Storable(e.ProjectID))
		p.Sessions = append(p.Sessions, check.Storable(e.SessionID))
		p.Runs, p.Tss = append(p.Runs, check.Storable(e.RunID)), append(p.Tss, e.TS)
		p.Levels, p.Sources = append(p.Levels, int16(logs.Rank(e.Level))), append(p.Sources, string(e.Source))
		p.Plugins, p.Messages = append(p.Plugins, check.Storable(e.PluginName)), append(p.Messages, e.Message)
		p.Contexts = append(p.Contexts, string(text))
	}
	rows, err := db.New(l.db).AppendLogs(ctx, p)
	if err != nil {
		return nil, database.Fail(err, "append logs")
	}
	stored := make([]logs.Entry, len(rows))
	for i, row := range rows {
		stored[i] = byID[row.ID]
		stored[i].Owner, stored[i].ProjectID, stored[i].SessionID = row.OwnerUserID, row.ProjectID, row.SessionID
	}
	return stored, nil
}

func decoded(text []byte) (facts map[string]any) {
	if json.Unmarshal(text, &facts) != nil {
		return map[string]any{"unreadable": database.Unreadable("The context of this entry")}
	}
	return facts
}

// Query implements [logs.Store].
func (l *Logs) Query(ctx context.Context, q logs.Query) ([]logs.Entry, error) {
	rows, err := db.New(l.db).ListLogs(ctx, db.ListLogsParams{
		Owner: q.Owner, Project: q.ProjectID, BeforeTs: q.Before.N, BeforeID: q.Before.S, Since: q.Since,
		Level: int16(logs.Rank(q.Level)), Source: string(q.Source), Session: q.SessionID, Most: int32(q.Limit),
	})
	if err != nil {
		return nil, database.Fail(err, "list logs")
	}
	entries := make([]logs.Entry, len(rows))
	for i, row := range rows {
		entries[i] = logs.Entry{
			ID: row.ID, TS: row.Ts, Level: logs.LevelOf(int(row.Level)), Source: logs.Source(row.Source), Message: row.Message,
			Owner: q.Owner, ProjectID: q.ProjectID, SessionID: row.SessionID, PluginName: row.PluginName,
			Context: decoded(row.Context),
		}
	}
	return entries, nil
}

// trimBatch bounds the old entries that one statement removes.
const trimBatch = 10_000

// Trim implements [logs.Store].
func (l *Logs) Trim(ctx context.Context, before int64, kept int) error {
	for {
		n, err := db.New(l.db).DropOldLogs(ctx, before, trimBatch)
		if err != nil {
			return database.Fail(err, "drop old logs")
		}
		if n < trimBatch {
			break
		}
	}
	_, err := db.New(l.db).DropManyLogs(ctx, int64(kept))
	return database.Fail(err, "drop logs of large projects")
}
