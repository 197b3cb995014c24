package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/operators/core/admin"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/workspaces"
	"kaged.dev/services/session-manager/internal/operators/store/db"
)

// Admin keeps the settings of administrators and the configurations of operators. It implements admin.Store,
// localconfig.Rules and operatorconfig.Store.
type Admin struct{ db database.DB }

// NewAdmin returns the rules in db.
func NewAdmin(db database.DB) *Admin { return &Admin{db} }

// Rule implements localconfig.Rules.
func (s *Admin) Rule(ctx context.Context, operator string) (localconfig.Rule, error) {
	row, err := db.New(s.db).RulesOf(ctx, operator)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return localconfig.Rule{}, database.Fail(err, "read the rules of an operator")
	}
	r, err := rule(row.Limits, row.Budget)
	if err != nil {
		return localconfig.Rule{}, database.Fail(err, "read the rules of an operator")
	}
	set, err := s.Documents(ctx, operator)
	r.DisabledAt = row.DisabledAt
	r.Layers = []localconfig.Layer{
		{Document: set.Own.Text}, {Document: set.ByAdministrator.Text, Administrator: true},
	}
	// Each of the three only grows, so that the sum is new after each change.
	r.Revision = uint64(row.Revision + set.Own.Revision + set.ByAdministrator.Revision)
	return r, err
}

// rule reads stored limits and a stored budget, "" if absent.
func rule(limits, budget string) (r localconfig.Rule, err error) {
	if limits != "" {
		r.Limits = new(localconfig.Limits)
		err = json.Unmarshal([]byte(limits), r.Limits)
	}
	if budget != "" {
		r.Budget = new(config.Budget)
		err = errors.Join(err, json.Unmarshal([]byte(budget), r.Budget))
	}
	return r, err
}

// Operators implements admin.Store.
func (s *Admin) Operators(ctx context.Context, since int64, after, only string, limit int) ([]admin.Operator, error) {
	rows, err := db.New(s.db).ListOperators(ctx, since, after, only, int32(limit))
	if err != nil {
		return nil, database.Fail(err, "list operators")
	}
	list := make([]admin.Operator, len(rows))
	for i, row := range rows {
		list[i] = admin.Operator{
			ID: row.ID, Workspace: row.Workspace, Sessions: int(row.Sessions), Running: int(row.Running),
			LastActiveAt: row.LastActiveAt, NanoUSD: row.NanoUsd, Tokens: row.Tokens, Calls: row.Calls,
		}
		// A rule that cannot be read is not shown, so that its row hides no other.
		list[i].Rule, _ = rule(row.Limits, row.Budget)
		list[i].DisabledAt = row.DisabledAt
	}
	return list, nil
}

// SetRule implements admin.Store.
func (s *Admin) SetRule(ctx context.Context, operator string, r localconfig.Rule, record audit.Record) error {
	limits, err := written(r.Limits)
	if err != nil {
		return err
	}
	budget, err := written(r.Budget)
	if err != nil {
		return err
	}
	return s.recorded(ctx, record, func(q *db.Queries) error { return q.SetRules(ctx, operator, limits, budget) })
}

// written returns a value as JSON, nil for nil.
func written[T any](v *T) (*string, error) {
	if v == nil {
		return nil, nil
	}
	data, err := json.Marshal(v)
	text := string(data)
	return &text, err
}

// SetDisabled implements admin.Store.
func (s *Admin) SetDisabled(ctx context.Context, operator string, at int64, record audit.Record) error {
	return s.recorded(ctx, record, func(q *db.Queries) error { return q.SetDisabled(ctx, operator, at) })
}

// Workspaces implements admin.Store.
func (s *Admin) Workspaces(ctx context.Context, names []string) ([]admin.Workspace, error) {
	rows, err := db.New(s.db).ListWorkspaces(ctx, names)
	list := make([]admin.Workspace, len(rows))
	for i, row := range rows {
		list[i] = admin.Workspace{
			Assignment: workspaces.Assignment{
				Name: row.Name, Operator: row.Operator, State: workspaces.State(row.State), Number: row.Assignment,
			}, AssignedAt: row.AssignedAt, Running: int(row.Running),
		}
	}
	return list, database.Fail(err, "list workspaces")
}

// SetState implements admin.Store.
func (s *Admin) SetState(
	ctx context.Context, name string, state workspaces.State, record audit.Record,
) (changed bool, err error) {
	err = s.recorded(ctx, record, func(q *db.Queries) error {
		n, err := q.SetWorkspaceState(ctx, string(state), name)
		changed = n > 0
		return err
	})
	return changed, err
}

// Release implements admin.Store.
func (s *Admin) Release(ctx context.Context, name string, record audit.Record) (released bool, err error) {
	err = s.recorded(ctx, record, func(q *db.Queries) error {
		n, err := q.ReleaseWorkspace(ctx, name)
		released = n > 0
		return err
	})
	return released, err
}

// recorded makes a change in one transaction with its record.
func (s *Admin) recorded(ctx context.Context, record audit.Record, change func(*db.Queries) error) error {
	return database.Fail(database.InTx(ctx, s.db, func(tx database.DB) error {
		if err := change(db.New(tx)); err != nil {
			return err
		}
		return auditstore.Append(ctx, tx, []audit.Record{record})
	}), "keep a setting of an operator")
}
