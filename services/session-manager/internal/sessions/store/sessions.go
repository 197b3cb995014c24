// Package store stores sessions in Postgres, with their messages, runs, approvals, leases and frames. It contains
// SQL and the conversion of rows; rules are in core.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/late"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	projectsstore "kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// Sessions stores sessions with their messages, runs, leases and frames. It implements the stores of several core
// packages, such as sessions and live.
type Sessions struct {
	db    database.DB
	large chan struct{} // holds one token while a large change is stored

	unfilled chan struct{} // holds one value if a stored text is not in the search index yet
}

// NewSessions returns the store of sessions in db.
func NewSessions(db database.DB) *Sessions {
	return &Sessions{db: db, large: make(chan struct{}, 1), unfilled: make(chan struct{}, 1)}
}

// Create implements [sessions.Store].
func (s *Sessions) Create(ctx context.Context, n record.Session, forkFrom string, created audit.Record) error {
	defer s.wrote()
	return database.Fail(database.InTx(ctx, s.db, func(tx database.DB) error {
		if err := projectsstore.Hold(ctx, tx, n.Owner, n.ProjectID); err != nil {
			return err
		}
		q := db.New(tx)
		err := q.InsertSession(ctx, db.InsertSessionParams{
			ID: n.ID, Owner: n.Owner, ProjectID: n.ProjectID, Label: n.Label, CompiledHash: n.CompiledHash,
			ProjectPath: n.ProjectPath, Workspace: n.Workspace, ResumeFrom: forkFrom, CreatedAt: n.CreatedAt,
			IssueNumber: n.Issue,
			Budget:      budgetText(n.Budget),
		})
		if err != nil {
			return err
		}
		if forkFrom != "" {
			if err := fork(ctx, q, forkFrom, n.ID); err != nil {
				return err
			}
		}
		return auditstore.Append(ctx, tx, []audit.Record{created})
	}), "create session")
}

// fork copies the messages of a session that are not superseded into a new one. The source is not locked, because
// messages are only added: the copy has those that exist when it begins.
func fork(ctx context.Context, q *db.Queries, from, to string) error {
	if exists, err := q.SessionExists(ctx, from); err != nil {
		return err
	} else if !exists {
		return record.NotFound(from)
	}
	originals, err := q.ForkedMessages(ctx, from)
	if err != nil || len(originals) == 0 {
		return err
	}
	copies, places := make([]string, len(originals)), make([]int64, len(originals))
	for i := range originals {
		copies[i], places[i] = ident.New(), int64(i)+1
	}
	return q.CopyMessages(ctx, copies, to, originals, places)
}

// Session implements [sessions.Store].
func (s *Sessions) Session(ctx context.Context, owner, id string) (record.Session, error) {
	return s.session(ctx, id, false, owner)
}

func (s *Sessions) session(ctx context.Context, id string, anyOwner bool, owner string) (record.Session, error) {
	row, err := db.New(s.db).GetSession(ctx, id, anyOwner, owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return record.Session{}, record.NotFound(id)
	}
	if err != nil {
		return record.Session{}, database.Fail(err, "get session")
	}
	return sessionFromRow(row), nil
}

func sessionFromRow(row db.GetSessionRow) record.Session {
	out := record.Session{
		ID: row.ID, Owner: row.OwnerUserID, ProjectID: row.ProjectID, Label: row.Label, State: record.State(row.State),
		BlockedReason: row.BlockedReason,
		Overrides: record.Overrides{
			Model: row.ModelOverride, MaxSteps: row.MaxStepsOverride, MaxOutputTokens: row.MaxOutputTokensOverride,
		},
		CompiledHash: row.CompiledHash, ProjectPath: row.ProjectPath, Workspace: row.Workspace, ResumeFrom: row.ResumeFrom,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, EndedAt: row.EndedAt, MessageCount: row.MessageCount,
		AuditHead: contract.AuditHead{Hash: row.AuditHeadHash, Items: int(row.AuditHeadItems)}, ResumeRun: row.ResumeRun,
		Issue:  row.IssueNumber,
		Budget: budgetFromText(row.Budget), RecalledAt: row.RecalledAt, IdleFiredAt: row.LastIdleFire,
		Injections: injectionsFromText(row.StartInjections),
	}
	if row.RunID != "" && !record.RunState(row.RunState).Over() {
		out.CurrentRun, out.CurrentMessage, out.Cage = row.RunID, row.RunMessage, contract.CageStatus(row.RunCage)
		out.CancelRequested = row.RunCancelled
	}
	out.Totals = record.Totals{TokensIn: row.TokensIn, TokensOut: row.TokensOut}
	if row.CostKnown {
		out.Totals.CostUSD = &row.CostTotal
	}
	if err := json.Unmarshal(row.PromptHashes, &out.PromptHashes); err != nil {
		out.PromptHashes = nil // all prompts then count as changed
	}
	return out
}

// injectionsFromText reads stored additions to a system prompt; an unreadable text adds nothing.
func injectionsFromText(text string) (list []contract.Injection) {
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	return list
}

// injectionsParam returns additions to a system prompt in their stored form, nil for no change.
func injectionsParam(list *[]contract.Injection) *string {
	if list == nil {
		return nil
	}
	kept := make([]contract.Injection, len(*list))
	for i, in := range *list {
		kept[i] = contract.Injection{Plugin: check.Storable(in.Plugin), Text: check.Storable(in.Text)}
	}
	encoded, _ := json.Marshal(kept) // strings can always be encoded
	return text(encoded)
}

// List implements [sessions.Store].
func (s *Sessions) List(
	ctx context.Context, owner, project string, after *page.Key, limit int32,
) ([]record.Session, error) {
	p := db.ListSessionsParams{Owner: owner, ProjectID: project, BeforeAt: math.MaxInt64, RowLimit: limit}
	if after != nil {
		p.BeforeAt, p.BeforeID = after.N, after.S
	}
	rows, err := db.New(s.db).ListSessions(ctx, p)
	if err != nil {
		return nil, database.Fail(err, "list sessions")
	}
	list := make([]record.Session, len(rows))
	for i, row := range rows {
		list[i] = listed(row)
	}
	return list, nil
}

//convert:one listed db.ListSessionsRow record.Session OwnerUserID=Owner ModelOverride=Overrides.Model IssueNumber=Issue
//convert:with MaxStepsOverride=Overrides.MaxSteps MaxOutputTokensOverride=Overrides.MaxOutputTokens
//convert:with >BlockedReason=- >Budget=- >CompiledHash=- >ProjectPath=- >Workspace=- >ResumeFrom=- >EndedAt=-
//convert:with >AuditHead=- >Steers=-
//convert:with >CurrentRun=- >CurrentMessage=- >CancelRequested=- >ResumeRun=- >Cage=- >PromptHashes=- >Totals=-
//convert:with >RecalledAt=- >IdleFiredAt=- >Injections=-

// Workspaces implements [sessions.Store].
func (s *Sessions) Workspaces(ctx context.Context, owner string) ([]string, error) {
	names, err := db.New(s.db).SessionWorkspaces(ctx, owner)
	return names, database.Fail(err, "look for workspaces")
}

// ToolsToEnd implements [sessions.Store].
func (s *Sessions) ToolsToEnd(
	ctx context.Context, endedUntil int64, except []string, limit int,
) ([]record.Untold, error) {
	rows, err := db.New(s.db).ToolsToEnd(ctx, endedUntil, except, int32(limit))
	list := make([]record.Untold, len(rows))
	for i, row := range rows {
		list[i] = record.Untold{Session: row.ID, Workspace: row.Workspace}
	}
	return list, database.Fail(err, "look for workspaces to tell")
}

// ToolsEnded implements [sessions.Store].
func (s *Sessions) ToolsEnded(ctx context.Context, session string, ended []contract.Record) error {
	return database.Fail(database.InTx(ctx, s.db, func(tx database.DB) error {
		of, err := db.New(tx).ToolsEnded(ctx, session)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // another process has stored it with the records
		}
		if err != nil {
			return err
		}
		records := make([]audit.Record, len(ended))
		for i, r := range ended {
			records[i] = audit.Of(r)
			records[i].UserID, records[i].ProjectID, records[i].SessionID = of.OwnerUserID, of.ProjectID, session
			records[i].RunID, _ = r.Payload["run_id"].(string)
		}
		return auditstore.Append(ctx, tx, records)
	}), "note that a workspace was told")
}

// LateRecord implements [sessions.Store].
func (s *Sessions) LateRecord(ctx context.Context, workspace string, r late.Record) (stored bool, err error) {
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		of, err := db.New(tx).OwnerOfLate(ctx, r.Session, workspace, r.Project)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		a := audit.Of(r.Record)
		a.ID, a.UserID, a.ProjectID, a.SessionID = r.ID, of.OwnerUserID, of.ProjectID, r.Session
		a.RunID, _ = r.Record.Payload["run_id"].(string)
		stored = true
		return auditstore.Append(ctx, tx, []audit.Record{a})
	})
	return stored && err == nil, database.Fail(err, "store a late record")
}

// Owned implements [sessions.Store].
func (s *Sessions) Owned(ctx context.Context, owner string, ids []string) ([]string, error) {
	owned, err := db.New(s.db).OwnedSessions(ctx, owner, ids)
	return owned, database.Fail(err, "look up sessions")
}

// promptChars bounds the beginning of a message that describes its run.
const promptChars = 200

// ActiveRuns implements [sessions.Store].
func (s *Sessions) ActiveRuns(ctx context.Context, owner, session string) ([]record.ActiveRun, error) {
	rows, err := db.New(s.db).ActiveRuns(ctx, promptChars, owner, session)
	if err != nil {
		return nil, database.Fail(err, "list the active runs")
	}
	list := make([]record.ActiveRun, len(rows))
	for i, r := range rows {
		list[i] = record.ActiveRun{
			ID: r.ID, SessionID: r.SessionID, ProjectID: r.ProjectID, State: record.RunState(r.State),
			Cage:      contract.CageStatus(r.CageStatus),
			CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, Prompt: r.Prompt,
		}
	}
	return list, nil
}

// Open implements [sessions.Store].
func (s *Sessions) Open(ctx context.Context, owner, project string) ([]string, error) {
	ids, err := db.New(s.db).OpenSessions(ctx, owner, project)
	return ids, database.Fail(err, "list open sessions")
}

// HasOpen reports, in the caller's transaction, whether a project has sessions that have not ended.
func HasOpen(ctx context.Context, q database.Querier, owner, project string) (bool, error) {
	open, err := db.New(q).HasOpenSessions(ctx, owner, project)
	return open, database.Fail(err, "look for open sessions")
}
