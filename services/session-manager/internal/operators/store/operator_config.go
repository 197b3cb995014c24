package store

import (
	"context"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operatorconfig"
	"kaged.dev/services/session-manager/internal/operators/store/db"
)

// The values of operator_config.set_by.
const (
	byOperator      = "operator"
	byAdministrator = "administrator"
)

// Documents implements operatorconfig.Store.
func (s *Admin) Documents(ctx context.Context, operator string) (operatorconfig.Documents, error) {
	var out operatorconfig.Documents
	rows, err := db.New(s.db).OperatorConfigs(ctx, operator)
	for _, row := range rows {
		d := operatorconfig.Document{Text: row.Document, Revision: row.Revision, UpdatedAt: row.UpdatedAt}
		if row.SetBy == byAdministrator {
			out.ByAdministrator = d
		} else {
			out.Own = d
		}
	}
	return out, database.Fail(err, "read the configurations of an operator")
}

// SetDocument implements operatorconfig.Store.
func (s *Admin) SetDocument(
	ctx context.Context, operator string, l localconfig.Layer, at int64, record audit.Record,
) error {
	by := byOperator
	if l.Administrator {
		by = byAdministrator
	}
	return s.recorded(ctx, record, func(q *db.Queries) error {
		return q.SetOperatorConfig(ctx, operator, by, l.Document, at)
	})
}
