// Package store stores the registry of projects in Postgres. [Hold] uses the transaction of another context.
package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/projects/store/db"
	"kaged.dev/services/session-manager/internal/stored"
)

// Projects stores the registry of projects. It implements projects.Registry, projects.Approvals and projects.Contents.
type Projects struct{ db database.DB }

// NewProjects returns the registry in db.
func NewProjects(db database.DB) *Projects { return &Projects{db} }

// Hold prevents the unregistration of a project until the caller's transaction ends; a session is created in the same
// transaction. It fails with not_found.
func Hold(ctx context.Context, q database.Querier, owner, id string) error {
	_, err := db.New(q).HoldProject(ctx, owner, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return projects.NotFound(id)
	}
	return database.Fail(err, "hold project")
}

// Lock prevents changes of a project, and the creation of sessions in it, until the caller's transaction ends. It fails
// with not_found.
func Lock(ctx context.Context, q database.Querier, owner, id string) error {
	_, err := db.New(q).LockProject(ctx, owner, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return projects.NotFound(id)
	}
	return database.Fail(err, "lock project")
}

// Delete removes a project in the caller's transaction.
func Delete(ctx context.Context, q database.Querier, owner, id string) error {
	return database.Fail(db.New(q).DeleteProject(ctx, owner, id), "delete project")
}

// Find implements projects.Registry.
func (s *Projects) Find(ctx context.Context, owner, id string) (projects.Project, error) {
	row, err := db.New(s.db).FindProject(ctx, owner, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return projects.Project{}, projects.NotFound(id)
	}
	if err != nil {
		return projects.Project{}, database.Fail(err, "find project")
	}
	p := projectFromRow(row.Project)
	p.SessionCount = int(row.SessionCount)
	return p, nil
}

// Row implements projects.Registry.
func (s *Projects) Row(ctx context.Context, owner, id string) (projects.Project, error) {
	row, err := db.New(s.db).ProjectRow(ctx, owner, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return projects.Project{}, projects.NotFound(id)
	}
	if err != nil {
		return projects.Project{}, database.Fail(err, "find project")
	}
	return projectFromRow(row), nil
}

// Known implements projects.Registry.
func (s *Projects) Known(ctx context.Context, owner, id string) error {
	known, err := db.New(s.db).ProjectKnown(ctx, owner, id)
	if err == nil && !known {
		return projects.NotFound(id)
	}
	return database.Fail(err, "find project")
}

// FindByPath implements projects.Registry.
func (s *Projects) FindByPath(ctx context.Context, owner, path string) (*projects.Project, error) {
	row, err := db.New(s.db).FindProjectByPath(ctx, owner, path)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, database.Fail(err, "find project by path")
	}
	p := projectFromRow(row)
	return &p, nil
}

// Approved implements projects.Approvals.
func (s *Projects) Approved(ctx context.Context, workspace string) ([]projects.ApprovedVersion, error) {
	rows, err := db.New(s.db).ListApproved(ctx, workspace)
	if err != nil {
		return nil, database.Fail(err, "list approved versions")
	}
	list := make([]projects.ApprovedVersion, len(rows))
	for i, r := range rows {
		list[i] = projects.ApprovedVersion{Root: r.Path, CompiledHash: r.CompiledHash}
		if err := json.Unmarshal(r.Sources, &list[i].Sources); err != nil {
			return nil, database.Fail(err, "decode sources")
		}
	}
	return list, nil
}

// List implements projects.Registry.
func (s *Projects) List(ctx context.Context, owner, after string, limit int) ([]projects.Project, error) {
	rows, err := db.New(s.db).ListProjects(ctx, owner, after, int32(limit))
	if err != nil {
		return nil, database.Fail(err, "list projects")
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

// Save implements projects.Registry.
func (s *Projects) Save(
	ctx context.Context, p projects.Project, was string, snapshot *projects.Snapshot, records func(
		created bool,
	) []audit.Record,
) (projects.Project, bool, error) {
	params, err := saveParams(p, was)
	if err != nil {
		return projects.Project{}, false, database.Fail(err, "write project")
	}
	var compiled []byte
	if snapshot != nil {
		if compiled, err = stored.Snapshot(snapshot.Compiled); err != nil {
			return projects.Project{}, false, database.Fail(err, "write snapshot")
		}
	}
	created := false
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		q := db.New(tx)
		if snapshot != nil {
			if err := q.PutSnapshot(ctx, snapshot.Hash, compiled, p.UpdatedAt); err != nil {
				return err
			}
		}
		if created, err = q.SaveProject(ctx, params); err != nil {
			return err
		}
		return auditstore.Append(ctx, tx, records(created))
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return projects.Project{}, false, s.idTaken(ctx, p)
	case postgres.IsUnique(err, "projects_owner_user_id_path_key"):
		return projects.Project{}, false, s.pathTaken(ctx, p)
	case err != nil:
		return projects.Project{}, false, database.Fail(err, "save project")
	}
	saved, err := s.Find(ctx, p.Owner, p.ID)
	return saved, created, err
}

// Upgrade implements projects.Approvals.
func (s *Projects) Upgrade(ctx context.Context, p projects.Project, record audit.Record) error {
	accepted, err := database.JSON(p.AcceptedPrompts)
	if err != nil {
		return database.Fail(err, "write accepted prompts")
	}
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		n, err := db.New(tx).UpgradeProject(ctx, db.UpgradeProjectParams{
			ApprovedHash: p.ApprovedHash, ApprovedAt: p.ApprovedAt, ApprovedBy: p.ApprovedBy, AcceptedPrompts: accepted,
			Owner: p.Owner, ID: p.ID,
		})
		if err != nil || n == 0 {
			return err
		}
		return auditstore.Append(ctx, tx, []audit.Record{record})
	})
	return database.Fail(err, "approve project")
}

// Accepted implements projects.Approvals.
func (s *Projects) Accepted(ctx context.Context, owner, id string) (projects.Accepted, error) {
	row, err := db.New(s.db).ProjectAccepted(ctx, owner, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return projects.Accepted{}, projects.NotFound(id)
	}
	if err != nil {
		return projects.Accepted{}, database.Fail(err, "find project's approval")
	}
	a := projects.Accepted{ApprovedHash: row.ApprovedHash, CompiledHash: row.CompiledHash}
	return a, database.Fail(json.Unmarshal(row.AcceptedPrompts, &a.Prompts), "read accepted prompts")
}

// Record implements projects.Approvals.
func (s *Projects) Record(ctx context.Context, record audit.Record) error {
	err := database.InTx(ctx, s.db, func(tx database.DB) error {
		return auditstore.Append(ctx, tx, []audit.Record{record})
	})
	return database.Fail(err, "append record")
}

// idTaken returns the error for an id that is registered from another folder. If the folder is p's own, p's approval
// was overtaken.
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

// pathTaken returns the error for a folder that is registered with another id.
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

// Invalidate implements projects.Registry.
func (s *Projects) Invalidate(
	ctx context.Context, owner, id string, diagnostics []projects.Diagnostic, now int64, record audit.Record,
) error {
	text, err := database.JSON(diagnostics)
	if err != nil {
		return database.Fail(err, "write diagnostics")
	}
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		n, err := db.New(tx).InvalidateProject(ctx, text, now, owner, id)
		if err != nil || n == 0 {
			return err
		}
		return auditstore.Append(ctx, tx, []audit.Record{record})
	})
	return database.Fail(err, "invalidate project")
}

// Evaluated implements projects.Registry.
func (s *Projects) Evaluated(ctx context.Context, p projects.Project) error {
	text, err := database.JSON(p.Unresolved)
	if err != nil {
		return database.Fail(err, "write unresolved")
	}
	err = db.New(s.db).EvaluatedProject(ctx, db.EvaluatedProjectParams{
		Owner: p.Owner, ID: p.ID, State: string(p.State), Unresolved: text, UpdatedAt: p.UpdatedAt,
	})
	return database.Fail(err, "store project's state")
}

// Opened implements projects.Registry.
func (s *Projects) Opened(ctx context.Context, owner, id string, now int64) error {
	return database.Fail(db.New(s.db).OpenedProject(ctx, now, owner, id), "note project's use")
}

// Snapshot implements projects.Contents.
func (s *Projects) Snapshot(ctx context.Context, hash string) ([]byte, error) {
	compiled, err := db.New(s.db).GetSnapshot(ctx, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "There is no snapshot %s.", hash)
	}
	if err == nil {
		compiled, err = stored.FromSnapshot(compiled)
	}
	return compiled, database.Fail(err, "read snapshot")
}

// PutPrompts implements projects.Contents.
func (s *Projects) PutPrompts(ctx context.Context, texts map[string]string, now int64) error {
	var hashes, contents []string
	for hash, text := range texts {
		hashes, contents = append(hashes, hash), append(contents, text)
	}
	return database.Fail(db.New(s.db).PutPrompts(ctx, hashes, contents, now), "store prompts")
}

// PromptTexts implements projects.Contents.
func (s *Projects) PromptTexts(ctx context.Context, hashes []string) (map[string]string, error) {
	rows, err := db.New(s.db).GetPrompts(ctx, hashes)
	texts := make(map[string]string, len(rows))
	for _, r := range rows {
		texts[r.Sha256] = r.Content
	}
	return texts, database.Fail(err, "read prompts")
}
