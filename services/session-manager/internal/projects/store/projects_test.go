package store_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/storetest"
)

var _ interface {
	projects.Registry
	projects.Approvals
	projects.Contents
} = (*store.Projects)(nil)

// whole returns a project with every field set.
func whole(owner, id, path string) projects.Project {
	return projects.Project{
		Owner: owner, ID: id, Path: path, Description: "Music.", DSLVersion: 1, State: projects.Pending,
		Unresolved: projects.Unresolved{Aliases: []projects.Reference{{Name: "fast", UsedBy: []string{"primary"}}}},
		Diagnostics: []projects.Diagnostic{
			{Kind: "cage_disabled", Message: "It runs free.", Path: "primary", File: "f", Line: 3, Column: 5, Warning: true},
		},
		Warnings:     []string{"primary: It runs free."},
		Aliases:      []projects.Reference{{Name: "fast", UsedBy: []string{"primary"}}},
		Prompts:      []projects.Reference{{Name: "p.md", UsedBy: []string{"primary.system_prompt"}, SHA256: "abc"}},
		CompiledHash: "hash-" + id, Sources: []dsl.File{
			{Path: ".kaged/project.yaml", Present: true, Content: []byte("a: \x00\xff")},
		},
		RulesHash: "rules", RegisteredAt: 10, UpdatedAt: 11,
		ApprovedHash: "approved", ApprovedAt: 9, ApprovedBy: projects.ByFirstLoad,
		AcceptedPrompts: map[string]string{"p.md": "abc"},
	}
}

func snapshotOf(t *testing.T, p projects.Project) *projects.Snapshot {
	t.Helper()
	compiled, _, err := (&compile.Project{Slug: p.ID, Root: &compile.Agent{Key: "primary"}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &projects.Snapshot{Hash: p.CompiledHash, Compiled: compiled}
}

func saveProject(t *testing.T, s *store.Projects, p projects.Project) (projects.Project, bool) {
	t.Helper()
	saved, created, err := s.Save(t.Context(), p, p.ApprovedHash, snapshotOf(t, p), recordSave)
	if err != nil {
		t.Fatal(err)
	}
	return saved, created
}

func recordSave(created bool) []audit.Record {
	if created {
		return []audit.Record{{EventType: "project.loaded", UserID: "ada"}}
	}
	return []audit.Record{{EventType: "project.reloaded", UserID: "ada"}}
}

func addSession(t *testing.T, pool *pgxpool.Pool, id, owner, project, state string) {
	t.Helper()
	_, err := pool.Exec(t.Context(),
		`insert into sessions (id, owner_user_id, project_id, state, compiled_hash, project_path, created_by,
		  created_at, updated_at)
		values ($1, $2, $3, $4, '', '', $2, 0, 0)`, id, owner, project, state)
	if err != nil {
		t.Fatal(err)
	}
}

// A stored project is unchanged when it is read, with the number of its sessions and its snapshot.
func TestSaveProject(t *testing.T) {
	pool := storetest.Open(t)
	s := store.NewProjects(pool)
	p := whole("ada", "music", "/music")
	saved, created := saveProject(t, s, p)
	if d := cmp.Diff(p, saved); d != "" || !created {
		t.Error(d, created)
	}
	addSession(t, pool, "s1", "ada", "music", "ended")
	addSession(t, pool, "s2", "ada", "music", "idle")
	addSession(t, pool, "s3", "eve", "music", "idle")
	found, err := s.Find(t.Context(), "ada", "music")
	p.SessionCount = 2
	if d := cmp.Diff(p, found); d != "" || err != nil {
		t.Error(d, err)
	}
	compiled, err := s.Snapshot(t.Context(), p.CompiledHash)
	if err != nil || !bytes.Equal(compiled, snapshotOf(t, p).Compiled) {
		t.Errorf("snapshot = %q, %v", compiled, err)
	}
	if _, err := s.Snapshot(t.Context(), "none"); !errors.Is(err, fault.NotFound) {
		t.Errorf("no snapshot: %v", err)
	}
}

// Saving a registered project again changes the results of the compilation and no other field. A-PROJ-LOAD-09.
func TestSaveAgain(t *testing.T) {
	pool := storetest.Open(t)
	s := store.NewProjects(pool)
	p := whole("ada", "music", "/music")
	saveProject(t, s, p)
	if err := s.Opened(t.Context(), "ada", "music", 50); err != nil {
		t.Fatal(err)
	}
	if err := s.Opened(t.Context(), "ada", "music", 40); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "update projects set label = 'Site'"); err != nil {
		t.Fatal(err)
	}
	again := p
	again.Description, again.State, again.RegisteredAt, again.UpdatedAt, again.Unresolved = "Other.", projects.Ready, 99,
		99, projects.Unresolved{}
	saved, created := saveProject(t, s, again)
	label, opened := "Site", int64(50)
	again.RegisteredAt, again.Label, again.LastOpenedAt = 10, &label, &opened
	if d := cmp.Diff(again, saved); d != "" || created {
		t.Error(d, created)
	}
	if got := storetest.Types(t, pool, audit.Query{Owner: "ada"}); got != "project.reloaded project.loaded" {
		t.Errorf("recorded %q", got)
	}
}

// For each operator, an id belongs to one folder and a folder to one id. A-PROJ-LOAD-07, A-PROJ-LOAD-10.
func TestCollisions(t *testing.T) {
	pool := storetest.Open(t)
	s := store.NewProjects(pool)
	saveProject(t, s, whole("ada", "music", "/music"))
	saveProject(t, s, whole("eve", "music", "/elsewhere"))
	for _, c := range []struct {
		p       projects.Project
		details map[string]any
	}{
		{whole("ada", "music", "/copy"), map[string]any{"existing_path": "/music", "incoming_id": "music"}},
		{whole("ada", "noise", "/music"), map[string]any{"existing_id": "music", "incoming_id": "noise", "path": "/music"}},
	} {
		_, _, err := s.Save(t.Context(), c.p, c.p.ApprovedHash, snapshotOf(t, c.p), recordSave)
		if d := cmp.Diff(c.details, fault.From(err).Details); !errors.Is(err, fault.Conflict) || d != "" {
			t.Errorf("%s at %s: %v %s", c.p.ID, c.p.Path, err, d)
		}
	}
	if got := storetest.Types(t, pool, audit.Query{Owner: "ada"}); got != "project.loaded project.loaded" {
		t.Errorf("refused saves were recorded: %q", got)
	}
}

// Projects are listed by id, page by page, for each operator only their own. A-PROJ-LIST-01.
func TestListProjects(t *testing.T) {
	s := store.NewProjects(storetest.Open(t))
	for _, id := range []string{"c", "a", "b"} {
		saveProject(t, s, whole("ada", id, "/"+id))
	}
	saveProject(t, s, whole("eve", "z", "/z"))
	first, err := s.List(t.Context(), "ada", "", 2)
	if err != nil || len(first) != 2 || first[0].ID != "a" || first[1].ID != "b" {
		t.Fatalf("first = %+v, %v", first, err)
	}
	want := whole("ada", "a", "/a")
	want.Diagnostics, want.Warnings, want.Sources, want.RulesHash = nil, nil, nil, ""
	want.ApprovedBy, want.ApprovedAt = "", 0
	if d := cmp.Diff(want, first[0]); d != "" {
		t.Error(d)
	}
	if rest, err := s.List(t.Context(), "ada", "b", 2); err != nil || len(rest) != 1 || rest[0].ID != "c" {
		t.Errorf("rest = %+v, %v", rest, err)
	}
}

// An evaluation's result is stored, unless the project was saved or invalidated after it was read.
func TestEvaluated(t *testing.T) {
	s := store.NewProjects(storetest.Open(t))
	read, _ := saveProject(t, s, whole("ada", "music", "/music"))
	read.State, read.Unresolved = projects.Ready, projects.Unresolved{}
	state := func() projects.State {
		p, err := s.Find(t.Context(), "ada", "music")
		if err != nil {
			t.Fatal(err)
		}
		return p.State
	}
	if err := s.Evaluated(t.Context(), read); err != nil || state() != projects.Ready {
		t.Errorf("evaluated: %v, %s", err, state())
	}
	newer := whole("ada", "music", "/music")
	newer.UpdatedAt = 12
	saveProject(t, s, newer)
	if err := s.Evaluated(t.Context(), read); err != nil || state() != projects.Pending {
		t.Errorf("stale: %v, %s", err, state())
	}
	diagnostics := []projects.Diagnostic{{Kind: "parse_error", Message: "NUL \x00 and \xff and \\u0000."}}
	if err := s.Invalidate(t.Context(), "ada", "music", diagnostics, 12,
		audit.Record{EventType: "project.reloaded"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Evaluated(t.Context(), newer); err != nil || state() != projects.Invalid {
		t.Errorf("invalidated: %v, %s", err, state())
	}
	p, _ := s.Find(t.Context(), "ada", "music")
	if want := "NUL \uFFFD and \uFFFD and \\u0000."; p.Diagnostics[0].Message != want || p.CompiledHash == "" {
		t.Errorf("diagnostics = %+v", p.Diagnostics)
	}
	if err := s.Invalidate(t.Context(), "ada", "none", nil, 12, audit.Record{EventType: "e"}); err != nil {
		t.Errorf("a project that is gone: %v", err)
	}
}

// A project is found by its folder.
func TestFindByPath(t *testing.T) {
	s := store.NewProjects(storetest.Open(t))
	saveProject(t, s, whole("ada", "music", "/music"))
	if p, err := s.FindByPath(t.Context(), "ada", "/music"); err != nil || p == nil || p.ID != "music" {
		t.Errorf("found %+v, %v", p, err)
	}
	if p, err := s.FindByPath(t.Context(), "eve", "/music"); err != nil || p != nil {
		t.Errorf("another operator found %+v, %v", p, err)
	}
}

// A prompt's text is stored once and can be read by its hash.
func TestPutPrompts(t *testing.T) {
	pool := storetest.Open(t)
	s := store.NewProjects(pool)
	for range 2 {
		if err := s.PutPrompts(t.Context(), map[string]string{"h1": "one", "h2": "two"}, 5); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := pool.Query(t.Context(), "select content from prompts order by sha256")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !cmp.Equal(got, []string{"one", "two"}) {
		t.Errorf("kept %q, %v", got, err)
	}
}
