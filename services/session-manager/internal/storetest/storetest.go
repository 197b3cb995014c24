// Package storetest opens databases for tests of the stores, and reads their audit log.
package storetest

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/database/migrations"
)

// Open returns an empty database for one test.
func Open(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return pgtest.New(t, migrations.Files, migrations.Schema)
}

// Types returns the event types of the audit entries that q selects, newest first, at most 100 unless q has a limit.
func Types(t *testing.T, pool *pgxpool.Pool, q audit.Query) string {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	records, _, err := auditstore.NewAudit(pool).Query(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, r := range records {
		list = append(list, r.EventType)
	}
	return strings.Join(list, " ")
}
