package e2e_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// A database of the last version before approvals is migrated at the start. Its projects are ready and approved as
// stored, recorded as an upgrade, and a session continues. A change made before the upgrade needs approval just as one
// made after it.
func TestUpgradeFromBeforeApprovals(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("Still here.")} })
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")+"[services.gateway]\noperator = \"ada\"\n")
	for _, id := range []string{"kept", "widened"} {
		kagedtest.Write(t, w.Dir, id+"/prompt.md", "You work.\n")
		kagedtest.Write(t, w.Dir, id+"/.kaged/project.yaml", beforeApprovals(id))
	}
	wide := strings.ReplaceAll(beforeApprovals("widened"), `"*": {enabled: false}`, `"*": {enabled: true}`)
	kagedtest.Write(t, w.Dir, "widened/.kaged/project.yaml", wide)
	env := emptyDatabaseEnv(t)
	restore(t, strings.TrimPrefix(env[0], "KAGED_DATABASE_URL="), w.Dir)
	w.Up(t, env)
	c := w.SignIn(t)

	list := kagedtest.Get[struct {
		Items []struct{ ID, State string }
	}](t, c, "/api/v1/projects").Items
	for _, p := range list {
		if p.State != "ready" {
			t.Errorf("got project %s %s, want it ready", p.ID, p.State)
		}
	}
	if len(list) != 2 {
		t.Errorf("got projects %v, want both", list)
	}

	sessions := kagedtest.Get[struct{ Items []struct{ ID string } }](t, c, "/api/v1/projects/kept/sessions").Items
	if len(sessions) != 1 {
		t.Fatalf("got sessions %v, want the stored one", sessions)
	}
	s := &kagedtest.Session{Client: c, ID: sessions[0].ID}
	s.Attach(t, nil)
	if outcome := s.Run(t, "And now?"); outcome != "completed" {
		t.Errorf("got outcome %s of the next run of the stored session, want completed", outcome)
	}
	if got := kagedtest.Get[struct{ Items []struct{ Content string } }](t, c,
		"/api/v1/sessions/"+s.ID+"/messages").Items; len(got) != 4 {
		t.Errorf("got messages %v, want the two stored ones and two more", got)
	}

	load := func(id string) error {
		return c.Do(t.Context(), "POST", "/api/v1/projects/load", map[string]any{"path": w.Dir + "/" + id}, nil)
	}
	if err := load("kept"); err != nil {
		t.Errorf("got %v for unchanged files, want none", err)
	}
	if f := fault.From(load("widened")); f.Code != fault.Conflict || f.Details["reason"] != "approval_required" {
		t.Errorf("got %v %v for files changed before the upgrade, want that they need approval", f, f.Details)
	}
	kagedtest.Write(t, w.Dir, "kept/.kaged/project.yaml", strings.ReplaceAll(wide, "widened", "kept"))
	if f := fault.From(load("kept")); f.Code != fault.Conflict || f.Details["reason"] != "approval_required" {
		t.Errorf("got %v %v for files changed after the upgrade, want that they need approval", f, f.Details)
	}

	var approved []string
	for _, r := range kagedtest.Get[struct {
		Items []struct {
			EventType string `json:"event_type"`
			ProjectID string `json:"project_id"`
			Payload   struct{ By string }
		}
	}](t, c, "/api/v1/audit?limit=100").Items {
		if r.EventType == "project.approved" {
			approved = append(approved, r.ProjectID+" "+r.Payload.By)
		}
	}
	slices.Sort(approved)
	if want := []string{"kept upgrade", "widened upgrade"}; !slices.Equal(approved, want) {
		t.Errorf("got approvals %v, want %v", approved, want)
	}
}

// beforeApprovals returns the project file of a project in the dump.
func beforeApprovals(id string) string {
	return `version: 1
project: ` + id + `
primary:
  model: smart-generalist
  system_prompt: ./prompt.md
  tools: {"*": {enabled: false}, file.read: {enabled: true}, file.create: {enabled: true}}
  cage: disabled
`
}

// restore loads the dump into an empty database, with its projects in dir.
func restore(t *testing.T, url, dir string) {
	t.Helper()
	dump, err := os.ReadFile("testdata/upgrade/before_approvals.sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	sql := strings.NewReplacer("@DIR@", dir, "@OPERATOR@", "ada").Replace(string(dump))
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
}
