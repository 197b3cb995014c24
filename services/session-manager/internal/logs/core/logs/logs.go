// Package logs stores the logs of projects: lines for operators about runs, approvals, refusals and agents.
//
// Lines have three sources: committed changes of sessions ([Teller]), stored changes of projects, and the service's
// own log lines about a session, run or project ([Tee]). A [Collector] stores them in its own goroutine, so that no
// run waits for its log. Beyond its bounds it drops lines, and a warning counts them. The permanent record is the
// audit log.
package logs

import (
	"context"
	"log/slog"
	"math"
	"slices"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/page"
)

// Source is the part of kaged that an entry is about.
type Source string

// The sources.
const (
	Daemon   Source = "daemon"
	Plugin   Source = "plugin"
	Session  Source = "session"
	Subagent Source = "subagent"
)

var sources = []Source{Daemon, Plugin, Session, Subagent}

// levels are the names of the levels, lowest first.
var levels = []string{"debug", "info", "warn", "error"}

// LevelName returns the name of a level.
func LevelName(l slog.Level) string { return levels[Rank(l)] }

// Rank returns the rank of a level: 0 for debug to 3 for error.
func Rank(l slog.Level) int {
	switch {
	case l < slog.LevelInfo:
		return 0
	case l < slog.LevelWarn:
		return 1
	case l < slog.LevelError:
		return 2
	}
	return 3
}

// ranked are the levels by rank.
var ranked = []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}

// LevelOf returns the level of a rank, error for an unknown one.
func LevelOf(rank int) slog.Level {
	if rank < 0 || rank >= len(ranked) {
		return slog.LevelError
	}
	return ranked[rank]
}

// Entry is a line of a log. If SessionID or RunID is set, its project is that of the session or run, else that of
// Owner and ProjectID.
type Entry struct {
	ID string
	// TS is in Unix milliseconds.
	TS                          int64
	Level                       slog.Level
	Source                      Source
	Message                     string
	Owner, ProjectID, SessionID string
	RunID                       string
	PluginName                  string
	// Context has further details, by name. encoding/json can encode the values.
	Context map[string]any
}

// Query selects entries of a project, newest first.
type Query struct {
	Owner, ProjectID string
	// Before is a time and an id; only older entries are selected.
	Before page.Key
	// Since is the earliest time, in Unix milliseconds.
	Since int64
	// Level is the lowest selected level.
	Level slog.Level
	// Source and SessionID filter unless they are empty.
	Source    Source
	SessionID string
	Limit     int
}

// Store stores entries.
type Store interface {
	// Append stores entries, each once, and returns the new ones with their owner, project and session. Entries
	// without a project are dropped.
	Append(ctx context.Context, entries []Entry) ([]Entry, error)
	// Query returns the entries of q.
	Query(ctx context.Context, q Query) ([]Entry, error)
	// Trim removes entries from before a time, and the oldest entries of projects with more than kept entries.
	Trim(ctx context.Context, before int64, kept int) error
}

// Filter is the filter of an API request; zero fields do not filter.
type Filter struct {
	Level, Source, Session string
	// Since is the earliest time, Until the first excluded one, both in Unix milliseconds.
	Since, Until int64
}

// Service reads the logs of projects. It is safe for concurrent use and starts no goroutine.
type Service struct {
	Store Store
	// Known fails with not_found if the operator does not have the project.
	Known func(ctx context.Context, owner, project string) error
}

// list identifies this list in page cursors.
const list = "logs"

// List returns a page of a project's entries, newest first. It fails with not_found for an unknown project, with
// invalid_parameter for an unknown level or source, and with validation_failed for other parameters.
func (s *Service) List(
	ctx context.Context, owner, project string, f Filter, limit int32, cursor string,
) (page.Page[Entry], error) {
	var none page.Page[Entry]
	req, err := page.Parse(list, limit, cursor)
	if err != nil {
		return none, err
	}
	q, err := f.query()
	if err != nil {
		return none, err
	}
	if err := s.Known(ctx, owner, project); err != nil {
		return none, err
	}
	q.Owner, q.ProjectID, q.Limit = owner, project, int(req.Fetch())
	if req.After != nil && before(*req.After, q.Before) {
		q.Before = *req.After
	}
	entries, err := s.Store.Query(ctx, q)
	if err != nil {
		return none, err
	}
	return page.Cut(req, entries, func(e Entry) page.Key { return page.Key{N: e.TS, S: e.ID} }), nil
}

func before(a, b page.Key) bool { return a.N < b.N || a.N == b.N && a.S < b.S }

func (f Filter) query() (Query, error) {
	q := Query{Level: slog.LevelDebug, Source: Source(f.Source), SessionID: f.Session, Since: f.Since}
	q.Before = page.Key{N: math.MaxInt64}
	if f.Until > 0 {
		q.Before.N = f.Until
	}
	if f.Level != "" {
		rank := slices.Index(levels, f.Level)
		if rank < 0 {
			return q, invalid("level", "level must be debug, info, warn or error.")
		}
		q.Level = LevelOf(rank)
	}
	if f.Source != "" && !slices.Contains(sources, q.Source) {
		return q, invalid("source", "source must be daemon, plugin, session or subagent.")
	}
	for field, n := range map[string]int64{"since": f.Since, "until": f.Until} {
		if n < 0 {
			return q, check.Field(field, "%s must be a time in milliseconds.", field)
		}
	}
	return q, check.Text("session", f.Session, check.MaxID)
}

func invalid(field, text string) error {
	return fault.New(fault.InvalidParameter, "%s", text).With("fields", []string{field})
}
