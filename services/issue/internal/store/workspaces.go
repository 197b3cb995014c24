package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/issue/internal/store/db"
)

// Assign stores the operator of a workspace, unless a later assignment is known.
func (s *Store) Assign(ctx context.Context, workspace, operator string, assignment int64) error {
	err := db.New(s.db).AssignWorkspace(ctx, workspace, operator, assignment)
	return database.Fail(err, "assign a workspace")
}

// OperatorOf returns the operator of a workspace, "" for none.
func (s *Store) OperatorOf(ctx context.Context, workspace string) (string, error) {
	operator, err := db.New(s.db).OperatorOf(ctx, workspace)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return operator, database.Fail(err, "look up a workspace")
}
