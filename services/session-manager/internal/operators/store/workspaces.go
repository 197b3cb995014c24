package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/operators/core/workspaces"
	"kaged.dev/services/session-manager/internal/operators/store/db"
)

// Workspaces stores the assignments of workspaces. It implements workspaces.Store.
type Workspaces struct{ db database.DB }

// NewWorkspaces returns the assignments in db.
func NewWorkspaces(db database.DB) *Workspaces { return &Workspaces{db} }

// Add implements workspaces.Store.
func (s *Workspaces) Add(ctx context.Context, names []string) error {
	return database.Fail(db.New(s.db).AddWorkspaces(ctx, names), "add workspaces")
}

// Draining implements workspaces.Store.
func (s *Workspaces) Draining(ctx context.Context) ([]string, error) {
	names, err := db.New(s.db).DrainingWorkspaces(ctx)
	return names, database.Fail(err, "find drained workspaces")
}

// Of implements workspaces.Store.
func (s *Workspaces) Of(ctx context.Context, operator string) (workspaces.Assignment, error) {
	row, err := db.New(s.db).WorkspaceOf(ctx, operator)
	if errors.Is(err, pgx.ErrNoRows) {
		return workspaces.Assignment{}, nil
	}
	return workspaces.Assignment{
		Name: row.Name, Operator: operator, State: workspaces.State(row.State), Number: row.Assignment,
	}, database.Fail(err, "find a workspace")
}

// Assign implements workspaces.Store.
func (s *Workspaces) Assign(
	ctx context.Context, operator string, names []string, made func(workspaces.Assignment) audit.Record,
) (a workspaces.Assignment, err error) {
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		row, err := db.New(tx).AssignWorkspace(ctx, operator, time.Now().UnixMilli(), names)
		if err != nil {
			return err
		}
		a = workspaces.Assignment{
			Name: row.Name, Operator: operator, State: workspaces.State(row.State), Number: row.Assignment,
		}
		return auditstore.Append(ctx, tx, []audit.Record{made(a)})
	})
	switch {
	case postgres.IsUnique(err, "workspaces_operator_key"): // another replica has assigned one already
		return s.Of(ctx, operator)
	case errors.Is(err, pgx.ErrNoRows):
		return a, fault.New(fault.NotFound, "No workspace is free.")
	}
	return a, database.Fail(err, "assign a workspace")
}
