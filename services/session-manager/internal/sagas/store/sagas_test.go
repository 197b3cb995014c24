package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	projectsstore "kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/sagas/core/unregister"
	"kaged.dev/services/session-manager/internal/sagas/store"
	"kaged.dev/services/session-manager/internal/storetest"
)

var _ unregister.Store = (*store.Sagas)(nil)

var unregistered = audit.Record{EventType: "project.unregistered", UserID: "ada", ProjectID: "music"}

// registered returns a database with one registered project.
func registered(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := storetest.Open(t)
	p := projects.Project{Owner: "ada", ID: "music", Path: "/music", State: projects.Ready, RegisteredAt: 1, UpdatedAt: 1}
	none := func(bool) []audit.Record { return nil }
	if _, _, err := projectsstore.NewProjects(pool).Save(t.Context(), p, "", nil, none); err != nil {
		t.Fatal(err)
	}
	return pool
}

const insertSession = `insert into sessions (id, owner_user_id, project_id, state, compiled_hash, project_path, created_by,
  created_at, updated_at)
	values ($1, 'ada', 'music', $2, '', '', 'ada', 0, 0)`

// A project with open sessions stays; without open sessions it is removed and its audit record stays.
// A-PROJ-DEL-01, A-PROJ-DEL-03.
func TestRemoveProject(t *testing.T) {
	t.Parallel()
	pool := registered(t)
	s := store.New(pool)
	remove := func() (bool, error) {
		return s.RemoveProject(t.Context(), "ada", "music", []audit.Record{unregistered})
	}
	for _, step := range []struct {
		name, before string
		args         []any
		removed      bool
		err          error
	}{
		{"with an open session", insertSession, []any{"s1", "paused"}, false, nil},
		{"with an ended session", "update sessions set state = 'ended'", nil, true, nil},
		{"again", "select", nil, false, fault.NotFound},
	} {
		if _, err := pool.Exec(t.Context(), step.before, step.args...); err != nil {
			t.Fatal(err)
		}
		if removed, err := remove(); removed != step.removed || !errors.Is(err, step.err) {
			t.Errorf("%s: got %v and %v, want %v and %v", step.name, removed, err, step.removed, step.err)
		}
	}
	for name, err := range map[string]error{
		"known": projectsstore.NewProjects(pool).Known(t.Context(), "ada", "music"),
		"hold":  projectsstore.Hold(t.Context(), pool, "ada", "music"),
		"lock":  projectsstore.Lock(t.Context(), pool, "ada", "music"),
	} {
		if !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: got %v, want not_found", name, err)
		}
	}
	if got := storetest.Types(t, pool, audit.Query{Owner: "ada", ProjectID: "music"}); got != "project.unregistered" {
		t.Errorf("recorded %q, want project.unregistered", got)
	}
}

// The creation of a session locks its project: unregistering waits and then finds the session.
func TestRemoveProjectWaitsForNewSessions(t *testing.T) {
	t.Parallel()
	pool := registered(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if err := projectsstore.Hold(t.Context(), tx, "ada", "music"); err != nil {
		t.Fatal(err)
	}
	removed := make(chan bool)
	go func() {
		ok, err := store.New(pool).RemoveProject(t.Context(), "ada", "music", []audit.Record{unregistered})
		if err != nil {
			t.Error(err)
		}
		removed <- ok
	}()
	waitForLock(t, pool)
	if _, err := tx.Exec(t.Context(), insertSession, "s", "idle"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if <-removed {
		t.Error("the project was removed under a new session")
	}
}

// waitForLock returns once a statement of the test's database waits for a lock. It polls, because Postgres has no
// event for that.
func waitForLock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var waits bool
		err := pool.QueryRow(t.Context(), "select exists (select from pg_stat_activity where datname = current_database() "+
			"and wait_event_type = 'Lock')").
			Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		if waits {
			return
		}
	}
	t.Fatal("no statement waits for a lock")
}
