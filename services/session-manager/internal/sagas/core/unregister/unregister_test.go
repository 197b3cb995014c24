package unregister_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	projectsstore "kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/sagas/core/unregister"
	"kaged.dev/services/session-manager/internal/sagas/store"
	"kaged.dev/services/session-manager/internal/storetest"
)

// ending is a function that ends the sessions of a project.
type ending func(ctx context.Context, owner, project string) (int, error)

func (f ending) EndProjectSessions(ctx context.Context, owner, project string) (int, error) {
	return f(ctx, owner, project)
}

// music returns the saga and its database, which has the project music of ada.
func music(t *testing.T, end ending) (*unregister.Saga, *pgxpool.Pool) {
	t.Helper()
	pool := storetest.Open(t)
	registry := projectsstore.NewProjects(pool)
	p := projects.Project{Owner: "ada", ID: "music", Path: "/music", State: projects.Ready, RegisteredAt: 1, UpdatedAt: 1}
	none := func(bool) []audit.Record { return nil }
	if _, _, err := registry.Save(t.Context(), p, "", nil, none); err != nil {
		t.Fatal(err)
	}
	return unregister.New(registry, end, store.New(pool), servers{}, func(string, string) {}), pool
}

// servers is a workspace with one language server.
type servers struct{}

func (servers) UnloadProject(_ context.Context, workspace, project, root string) ([]contract.Record, error) {
	if workspace+project+root != "music/music" {
		panic("ended the language servers of " + project + " in " + root)
	}
	return []contract.Record{
		contract.NewRecord("code.lsp.server_stopped", "", map[string]any{"language": "go", "reason": "project_unload"}),
	}, nil
}

func ada(t *testing.T) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: "ada", RequestID: "r1"})
}

// T-AUD-06: unregistering ends the sessions and the language servers and removes the project; its audit records
// stay. A-PROJ-DEL-01, A-PROJ-DEL-03.
func TestUnregister(t *testing.T) {
	t.Parallel()
	s, pool := music(t, func(_ context.Context, owner, id string) (int, error) {
		if owner != "ada" || id != "music" {
			t.Errorf("ended the sessions of %s of %s, want those of music of ada", id, owner)
		}
		return 3, nil
	})
	removed, err := s.Unregister(ada(t), "ada", "music", true)
	if err != nil || removed.ID != "music" || removed.Path != "/music" || removed.SessionsEnded != 3 ||
		removed.UnregisteredAt == 0 {
		t.Errorf("got %+v and %v, want music at /music with 3 ended sessions", removed, err)
	}
	if err := projectsstore.NewProjects(pool).Known(t.Context(), "ada", "music"); !errors.Is(err, fault.NotFound) {
		t.Errorf("the project: got %v, want not_found", err)
	}
	if got := storetest.Types(t, pool, audit.Query{Owner: "ada"}); got != "code.lsp.server_stopped project.unregistered" {
		t.Errorf("recorded %q, want the stop of the server and project.unregistered", got)
	}
}

// A project stays registered without confirm, for another operator, and if its sessions cannot be ended.
// A-PROJ-DEL-02.
func TestUnregisterRefuses(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	s, pool := music(t, func(context.Context, string, string) (int, error) { return 0, boom })
	for _, c := range []struct {
		name, owner string
		confirm     bool
		want        error
		reason      any
	}{
		{"unconfirmed", "ada", false, fault.BadRequest, "confirm_required"},
		{"another operator", "eve", true, fault.NotFound, nil},
		{"a session that does not end", "ada", true, boom, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Unregister(ada(t), c.owner, "music", c.confirm)
			if !errors.Is(err, c.want) || fault.From(err).Details["reason"] != c.reason {
				t.Errorf("got %v with details %v, want %v with reason %v", err, fault.From(err).Details, c.want, c.reason)
			}
		})
	}
	if err := projectsstore.NewProjects(pool).Known(t.Context(), "ada", "music"); err != nil {
		t.Errorf("the project is gone: %v", err)
	}
}

// Sessions that are created meanwhile are ended too; a project with ever new sessions stays registered.
func TestUnregisterRace(t *testing.T) {
	t.Parallel()
	var pool *pgxpool.Pool
	left := 0 // number of sessions still to be created
	s, opened := music(t, func(ctx context.Context, _, _ string) (int, error) {
		if _, err := pool.Exec(ctx, "update sessions set state = 'ended'"); err != nil {
			return 0, err
		}
		if left--; left < 0 {
			return 1, nil
		}
		_, err := pool.Exec(ctx,
			`insert into sessions (id, owner_user_id, project_id, compiled_hash, project_path, created_by,
			  created_at, updated_at)
			values ($1, 'ada', 'music', '', '', 'ada', 0, 0)`, fmt.Sprint("s", left))
		return 1, err
	})
	pool, left = opened, 100
	if _, err := s.Unregister(ada(t), "ada", "music", true); !errors.Is(err, fault.Conflict) {
		t.Errorf("while sessions keep being created: got %v, want conflict", err)
	}
	left = 2
	if removed, err := s.Unregister(ada(t), "ada", "music", true); err != nil || removed.SessionsEnded != 3 {
		t.Errorf("after two more sessions: got %+v and %v, want 3 ended", removed, err)
	}
}
