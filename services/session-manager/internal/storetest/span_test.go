package storetest_test

import (
	"errors"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	operatorsstore "kaged.dev/services/session-manager/internal/operators/store"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	projectsstore "kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	sessionsstore "kaged.dev/services/session-manager/internal/sessions/store"
	"kaged.dev/services/session-manager/internal/storetest"
)

// Writes of several contexts' stores in one transaction are committed together and rolled back together.
func TestOneTransactionSpansContexts(t *testing.T) {
	t.Parallel()
	pool := storetest.Open(t)
	undone := errors.New("undone")
	write := func(end error) error {
		return database.InTx(t.Context(), pool, func(tx database.DB) error {
			p := projects.Project{
				Owner: "ada", ID: "music", Path: "/music", State: projects.Ready, RegisteredAt: 1,
				UpdatedAt: 1,
			}
			none := func(bool) []audit.Record { return nil }
			if _, _, err := projectsstore.NewProjects(tx).Save(t.Context(), p, "", nil, none); err != nil {
				return err
			}
			n := record.Session{
				ID: "s", Owner: "ada", ProjectID: "music", State: record.Idle, ProjectPath: "/music",
				CreatedAt: 1, UpdatedAt: 1,
			}
			if err := sessionsstore.NewSessions(tx).Create(t.Context(), n, "", audit.Record{
				EventType: "session.created",
				UserID:    "ada",
			}); err != nil {
				return err
			}
			rotated := audit.Record{EventType: "auth.epoch_rotated", UserID: "ada"}
			if err := operatorsstore.NewOperator(tx).ReplaceEpoch(t.Context(), []byte("secret"), 1, rotated); err != nil {
				return err
			}
			if err := auditstore.NewAudit(tx).Record(t.Context(), []audit.Record{{
				EventType: "auth.login",
				UserID:    "ada",
			}}); err != nil {
				return err
			}
			return end
		})
	}
	for _, c := range []struct {
		name    string
		end     error
		project error
		records int
	}{
		{"rolled back", undone, fault.NotFound, 0},
		{"committed", nil, nil, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := write(c.end); !errors.Is(err, c.end) {
				t.Fatalf("the transaction ended with %v, want %v", err, c.end)
			}
			if err := projectsstore.NewProjects(pool).Known(t.Context(), "ada", "music"); !errors.Is(err, c.project) {
				t.Errorf("the project: got %v, want %v", err, c.project)
			}
			if _, err := sessionsstore.NewSessions(pool).Session(t.Context(), "ada", "s"); !errors.Is(err, c.project) {
				t.Errorf("the session: got %v, want %v", err, c.project)
			}
			records, _, err := auditstore.NewAudit(pool).Query(t.Context(), audit.Query{Owner: "ada", Limit: 100})
			if err != nil || len(records) != c.records {
				t.Errorf("the audit log: got %d entries and %v, want %d", len(records), err, c.records)
			}
		})
	}
}
