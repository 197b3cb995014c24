package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/projects"
	"kaged.dev/services/session-manager/internal/store/db"
)

// Projects keeps the registry of projects. It implements projects.Store.
type Projects struct{ pool *pgxpool.Pool }

// NewProjects returns the registry in pool.
func NewProjects(pool *pgxpool.Pool) *Projects { return &Projects{pool} }

// HoldProject keeps a project from being unregistered until the caller's transaction ends; whoever creates a session does
// so in the same transaction. It fails with not_found.
func HoldProject(ctx context.Context, q Querier, owner, id string) error {
	_, err := db.New(q).HoldProject(ctx, owner, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return projects.NotFound(id)
	}
	return fail(err, "hold project")
}

// Find implements projects.Store.
func (s *Projects) Find(ctx context.Context, owner, id string) (projects.Project, error) {
	row, err := db.New(s.pool).FindProject(ctx, owner, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return projects.Project{}, projects.NotFound(id)
	}
	if err != nil {
		return projects.Project{}, fail(err, "find project")
	}
	p := projectFromRow(row.Project)
	p.SessionCount = int(row.SessionCount)
	return p, nil
}

// Known implements projects.Store.
func (s *Projects) Known(ctx context.Context, owner, id string) error {
	known, err := db.New(s.pool).ProjectKnown(ctx, owner, id)
	if err == nil && !known {
		return projects.NotFound(id)
	}
	return fail(err, "find project")
}

// FindByPath implements projects.Store.
func (s *Projects) FindByPath(ctx context.Context, owner, path string) (*projects.Project, error) {
	row, err := db.New(s.pool).FindProjectByPath(ctx, owner, path)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fail(err, "find project by path")
	}
	p := projectFromRow(row)
	return &p, nil
}

// List implements projects.Store.
func (s *Projects) List(ctx context.Context, owner, after string, limit int) ([]projects.Project, error) {
	rows, err := db.New(s.pool).ListProjects(ctx, owner, after, int32(limit))
	if err != nil {
		return nil, fail(err, "list projects")
	}
	list := make([]projects.Project, len(rows))
	for i, r := range rows {
		list[i] = projectFromRow(db.Project{
			OwnerUserID: owner, ID: r.ID, Path: r.Path, Label: r.Label, Description: r.Description, DslVersion: r.DslVersion,
			State: r.State, Aliases: r.Aliases, Prompts: r.Prompts, Unresolved: r.Unresolved, CompiledHash: r.CompiledHash,
			Workspace: r.Workspace, RegisteredAt: r.RegisteredAt, UpdatedAt: r.UpdatedAt, LastOpenedAt: r.LastOpenedAt,
			ApprovedHash: r.ApprovedHash, AcceptedPrompts: r.AcceptedPrompts,
		})
		list[i].SessionCount = int(r.SessionCount)
	}
	return list, nil
}

// Save implements projects.Store.
func (s *Projects) Save(
	ctx context.Context, p projects.Project, was string, snapshot *projects.Snapshot, records func(created bool) []audit.Record,
) (projects.Project, bool, error) {
	params, err := saveParams(p, was)
	if err != nil {
		return projects.Project{}, false, fail(err, "write project")
	}
	created := false
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		if snapshot != nil {
			if err := q.PutSnapshot(ctx, snapshot.Hash, snapshot.Compiled, p.UpdatedAt); err != nil {
				return err
			}
		}
		if created, err = q.SaveProject(ctx, params); err != nil {
			return err
		}
		return AppendAudit(ctx, tx, records(created))
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return projects.Project{}, false, s.idTaken(ctx, p)
	case postgres.IsUnique(err, "projects_owner_user_id_path_key"):
		return projects.Project{}, false, s.pathTaken(ctx, p)
	case err != nil:
		return projects.Project{}, false, fail(err, "save project")
	}
	saved, err := s.Find(ctx, p.Owner, p.ID)
	return saved, created, err
}

// Upgrade implements projects.Store.
func (s *Projects) Upgrade(ctx context.Context, p projects.Project, record audit.Record) error {
	accepted, err := toJSON(p.AcceptedPrompts)
	if err != nil {
		return fail(err, "write accepted prompts")
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		n, err := db.New(tx).UpgradeProject(ctx, db.UpgradeProjectParams{
			ApprovedHash: p.ApprovedHash, ApprovedAt: p.ApprovedAt, ApprovedBy: p.ApprovedBy, AcceptedPrompts: accepted, Owner: p.Owner, ID: p.ID,
		})
		if err != nil || n == 0 {
			return err
		}
		return AppendAudit(ctx, tx, []audit.Record{record})
	})
	return fail(err, "approve project")
}

// Accepted implements projects.Store.
func (s *Projects) Accepted(ctx context.Context, owner, id string) (projects.Accepted, error) {
	row, err := db.New(s.pool).ProjectAccepted(ctx, owner, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return projects.Accepted{}, projects.NotFound(id)
	}
	if err != nil {
		return projects.Accepted{}, fail(err, "find project's approval")
	}
	a := projects.Accepted{ApprovedHash: row.ApprovedHash, CompiledHash: row.CompiledHash}
	return a, fail(json.Unmarshal(row.AcceptedPrompts, &a.Prompts), "read accepted prompts")
}

// Record implements projects.Store.
func (s *Projects) Record(ctx context.Context, record audit.Record) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error { return AppendAudit(ctx, tx, []audit.Record{record}) })
	return fail(err, "append record")
}

// idTaken says from which folder p's id is registered; if that is p's own, its approval was overtaken.
func (s *Projects) idTaken(ctx context.Context, p projects.Project) error {
	other, err := s.Find(ctx, p.Owner, p.ID)
	if err != nil {
		return err
	}
	if other.Path == p.Path {
		return projects.ErrOvertaken
	}
	return fault.New(fault.Conflict, "A different project at %s is already registered with this ID.", other.Path).
		With("existing_path", other.Path).With("incoming_id", p.ID)
}

// pathTaken says under which id p's folder is registered.
func (s *Projects) pathTaken(ctx context.Context, p projects.Project) error {
	other, err := s.FindByPath(ctx, p.Owner, p.Path)
	if err != nil {
		return err
	}
	if other == nil {
		return fault.New(fault.Conflict, "The registration of %s changed in between; try again.", p.Path)
	}
	return projects.Renamed(p.Path, other.ID, p.ID)
}

// Invalidate implements projects.Store.
func (s *Projects) Invalidate(ctx context.Context, owner, id string, diagnostics []projects.Diagnostic, now int64, record audit.Record) error {
	text, err := toJSON(diagnostics)
	if err != nil {
		return fail(err, "write diagnostics")
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		n, err := db.New(tx).InvalidateProject(ctx, text, now, owner, id)
		if err != nil || n == 0 {
			return err
		}
		return AppendAudit(ctx, tx, []audit.Record{record})
	})
	return fail(err, "invalidate project")
}

// Evaluated implements projects.Store.
func (s *Projects) Evaluated(ctx context.Context, p projects.Project) error {
	text, err := toJSON(p.Unresolved)
	if err != nil {
		return fail(err, "write unresolved")
	}
	err = db.New(s.pool).EvaluatedProject(ctx, db.EvaluatedProjectParams{
		Owner: p.Owner, ID: p.ID, State: string(p.State), Unresolved: text, UpdatedAt: p.UpdatedAt,
	})
	return fail(err, "store project's state")
}

// Opened implements projects.Store.
func (s *Projects) Opened(ctx context.Context, owner, id string, now int64) error {
	return fail(db.New(s.pool).OpenedProject(ctx, now, owner, id), "note project's use")
}

// Delete implements projects.Store.
func (s *Projects) Delete(ctx context.Context, owner, id string, record audit.Record) (bool, error) {
	deleted := false
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		if _, err := q.LockProject(ctx, owner, id); err != nil {
			return err
		}
		live, err := q.ProjectHasLiveSessions(ctx, owner, id)
		if deleted = !live; err != nil || live {
			return err
		}
		if err := q.DeleteProject(ctx, owner, id); err != nil {
			return err
		}
		return AppendAudit(ctx, tx, []audit.Record{record})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, projects.NotFound(id)
	}
	return deleted && err == nil, fail(err, "delete project")
}

// Snapshot implements projects.Store.
func (s *Projects) Snapshot(ctx context.Context, hash string) ([]byte, error) {
	compiled, err := db.New(s.pool).GetSnapshot(ctx, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "There is no snapshot %s.", hash)
	}
	return compiled, fail(err, "read snapshot")
}

// PutPrompts implements projects.Store.
func (s *Projects) PutPrompts(ctx context.Context, texts map[string]string, now int64) error {
	var hashes, contents []string
	for hash, text := range texts {
		hashes, contents = append(hashes, hash), append(contents, text)
	}
	return fail(db.New(s.pool).PutPrompts(ctx, hashes, contents, now), "store prompts")
}

// PromptTexts implements projects.Store.
func (s *Projects) PromptTexts(ctx context.Context, hashes []string) (map[string]string, error) {
	rows, err := db.New(s.pool).GetPrompts(ctx, hashes)
	texts := make(map[string]string, len(rows))
	for _, r := range rows {
		texts[r.Sha256] = r.Content
	}
	return texts, fail(err, "read prompts")
}
