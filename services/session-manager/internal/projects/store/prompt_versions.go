package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/projects/store/db"
)

// AddVersion implements projects.History.
func (s *Projects) AddVersion(
	ctx context.Context,
	owner, project, path string,
	v projects.PromptVersion,
) (projects.PromptVersion, error) {
	added, err := addVersion(ctx, s.db, owner, project, path, v)
	return added, database.Fail(err, "add a version of a prompt")
}

// addTries is the maximum number of tries to add a version while other writers add versions of the same prompt.
const addTries = 10

// addVersion adds a version unless the latest one has the same text, and returns the latest.
func addVersion(
	ctx context.Context,
	q database.Querier,
	owner, project, path string,
	v projects.PromptVersion,
) (projects.PromptVersion, error) {
	for range addTries {
		_, err := db.New(q).AddPromptVersion(ctx, db.AddPromptVersionParams{
			Owner: owner, ProjectID: project, Path: path, Sha256: v.SHA256, Author: v.Author, CreatedAt: v.CreatedAt,
		})
		if err != nil {
			return projects.PromptVersion{}, err
		}
		last, err := db.New(q).LastPromptVersion(ctx, owner, project, path)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return projects.PromptVersion{}, err
		}
		if err == nil && last.Sha256 == v.SHA256 {
			return projects.PromptVersion{
				Version: int(last.Version), SHA256: last.Sha256, Author: last.Author, CreatedAt: last.CreatedAt,
			}, nil
		}
	}
	return projects.PromptVersion{}, projects.ErrOvertaken
}

// Version implements projects.History.
func (s *Projects) Version(
	ctx context.Context,
	owner, project, path string,
	version int,
) (projects.PromptVersion, string, error) {
	row, err := db.New(s.db).GetPromptVersion(ctx, owner, project, path, int32(version))
	if errors.Is(err, pgx.ErrNoRows) {
		return projects.PromptVersion{}, "", fault.New(fault.NotFound, "The prompt %s has no version %d.", path, version).
			With("path", path).With("version", version)
	}
	return projects.PromptVersion{
		Version: int(row.Version), SHA256: row.Sha256, Author: row.Author, CreatedAt: row.CreatedAt,
	}, row.Content, database.Fail(err, "read a version of a prompt")
}

// Versions implements projects.History.
func (s *Projects) Versions(
	ctx context.Context,
	owner, project, path string,
	limit int,
) ([]projects.PromptVersion, error) {
	rows, err := db.New(s.db).ListPromptVersions(ctx, owner, project, path, int32(limit))
	list := make([]projects.PromptVersion, len(rows))
	for i, r := range rows {
		list[i] = projects.PromptVersion{Version: int(r.Version), SHA256: r.Sha256, Author: r.Author, CreatedAt: r.CreatedAt}
	}
	return list, database.Fail(err, "list versions of a prompt")
}

// Counts implements projects.History.
func (s *Projects) Counts(ctx context.Context, owner, project string) (map[string]projects.PromptCount, error) {
	rows, err := db.New(s.db).SumPromptVersions(ctx, owner, project)
	counts := make(map[string]projects.PromptCount, len(rows))
	for _, r := range rows {
		counts[r.Path] = projects.PromptCount{Versions: int(r.Versions), UpdatedAt: r.UpdatedAt}
	}
	return counts, database.Fail(err, "count versions of prompts")
}

// Accept implements projects.History.
func (s *Projects) Accept(
	ctx context.Context, p projects.Project, was, path string, v projects.PromptVersion, record audit.Record,
) (added projects.PromptVersion, err error) {
	accepted, err := database.JSON(p.AcceptedPrompts)
	if err != nil {
		return added, database.Fail(err, "write accepted prompts")
	}
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		n, err := db.New(tx).AcceptPrompt(ctx, db.AcceptPromptParams{
			ApprovedHash: p.ApprovedHash, AcceptedPrompts: accepted, UpdatedAt: p.UpdatedAt,
			Owner: p.Owner, ID: p.ID, WasApproved: was,
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return projects.ErrOvertaken
		}
		if added, err = addVersion(ctx, tx, p.Owner, p.ID, path, v); err != nil {
			return err
		}
		return auditstore.Append(ctx, tx, []audit.Record{record})
	})
	return added, database.Fail(err, "write a version of a prompt")
}

// SetLabel implements projects.Registry.
func (s *Projects) SetLabel(ctx context.Context, owner, id string, label *string, record audit.Record) error {
	err := database.InTx(ctx, s.db, func(tx database.DB) error {
		n, err := db.New(tx).LabelProject(ctx, label, owner, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return projects.NotFound(id)
		}
		return auditstore.Append(ctx, tx, []audit.Record{record})
	})
	return database.Fail(err, "label project")
}
