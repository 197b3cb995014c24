package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// postgresTools returns the folder with pg_dump, pg_restore and psql.
func postgresTools(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("KAGED_PG_BIN"); dir != "" {
		return dir
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
	if len(found) == 0 {
		t.Fatal("the tools of Postgres are missing; type: make setup-test")
	}
	return filepath.Dir(found[len(found)-1])
}

// serving reports whether a service of c serves.
func (c *constellation) serving(t *testing.T, name string) bool {
	t.Helper()
	resp, err := grpc_health_v1.NewHealthClient(c.conn(t, name)).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	return err == nil && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
}

// begin starts services in the order of the howto, and waits for each.
func (c *constellation) begin(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		c.start(t, name)
		kagedtest.Eventually(t, name+" serves", func() bool { return c.serving(t, name) })
	}
}

// finish stops all services.
func (c *constellation) finish(t *testing.T) {
	t.Helper()
	for _, p := range c.processes {
		p.Signal(syscall.SIGTERM)
	}
	for name, p := range c.processes {
		if _, code := p.Rest(t); code != 0 {
			t.Errorf("%s ended with %d", name, code)
		}
	}
	clear(c.processes)
}

// goesOn sends a message to the stored session and returns how many messages it then has.
func (c *constellation) goesOn(t *testing.T) int {
	t.Helper()
	api, err := client.SignIn(t.Context(), host.SocketPath(c.DataDir, "gateway"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	sessions := kagedtest.Get[struct{ Items []struct{ ID string } }](t, api, "/api/v1/projects/kept/sessions").Items
	if len(sessions) != 1 {
		t.Fatalf("got sessions %v, want the stored one", sessions)
	}
	s := &kagedtest.Session{Client: api, ID: sessions[0].ID}
	s.Attach(t, nil)
	if outcome := s.Run(t, "And now?"); outcome != "completed" {
		t.Errorf("the run %s", outcome)
	}
	s.Socket.Close()
	return len(kagedtest.Get[struct{ Items []struct{ ID string } }](t, api, "/api/v1/sessions/"+s.ID+"/messages").Items)
}

// The commands of docs/howto/upgrade.md, typed unchanged on the database of an old version, with each service in a
// process of its own: the backup is made, the new session-manager waits for the migrations, and a stored session goes
// on. A schema of a newer version is refused with the documented sentence, and the backup brings the session back.
func TestUpgradeIsTyped(t *testing.T) {
	t.Parallel()
	const howto = "docs/howto/upgrade.md"
	llm := fakellm.Start(t)
	llm.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("Still here.")} })
	c := &constellation{
		World:     kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")+"[services.gateway]\noperator = \"ada\"\n"),
		processes: map[string]*kagedtest.Process{},
	}
	kagedtest.Write(t, c.Dir, "kept/prompt.md", "You work.\n")
	kagedtest.Write(t, c.Dir, "kept/.kaged/project.yaml", beforeApprovals("kept"))
	database := emptyDatabaseEnv(t)
	owner := strings.TrimPrefix(database[0], "KAGED_DATABASE_URL=")
	restore(t, owner, c.Dir)
	c.env = append(append([]string{}, c.Env...), database[1], "KAGED_NATS_URL="+natsURL(t), "KAGED_LISTEN=127.0.0.1:0")

	n := c.Newcomer(t, database[0])
	typed := func(heading string) string {
		t.Helper()
		return n.Types(t, "export PATH=$PATH:"+postgresTools(t)+"\n"+kagedtest.Block(t, howto, heading, "sh"))
	}
	var workspace []string
	for _, name := range serviceNames {
		if mtls.InWorkspace(name) {
			workspace = append(workspace, name)
		}
	}
	slices.Reverse(workspace)
	c.begin(t, workspace...)
	c.begin(t, "harness")
	c.start(t, "session-manager") // too early
	kagedtest.Eventually(t, "session-manager says what it waits for", func() bool {
		return strings.Contains(c.processes["session-manager"].Stderr.Tail(50), "kaged migrate")
	})
	if c.serving(t, "session-manager") {
		t.Error("session-manager serves on the old schema")
	}
	out := typed("Order")
	for _, line := range []string{
		"session_manager: would run 010_project_approval.sql", "session_manager: ran 010_project_approval.sql",
		"issue: ran 001_issues.sql", "migrations, nothing to do",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("it printed no %q:\n%s", line, out)
		}
	}
	kagedtest.Eventually(t, "session-manager serves", func() bool { return c.serving(t, "session-manager") })
	c.begin(t, "issue", "gateway")
	if got := c.goesOn(t); got != 4 {
		t.Errorf("got %d messages, want the two stored ones and two more", got)
	}
	c.finish(t)

	c.newerSchema(t, owner, kagedtest.Read(t, "../..", howto))
	typed("Go back")
	c.begin(t, workspace...)
	c.begin(t, "harness", "issue", "session-manager", "gateway")
	if got := c.goesOn(t); got != 4 {
		t.Errorf("after the way back: got %d messages, want the two of the backup and two more", got)
	}
}

var number = regexp.MustCompile(`\d+`)

// newerSchema makes the schema one that only a newer version knows, and checks the refusal.
func (c *constellation) newerSchema(t *testing.T, owner, howto string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "update session_manager.schema_version "+
		"set (version, compatible_from) = (version + 1, version + 1)"); err != nil {
		t.Fatal(err)
	}
	_, sentence, _ := strings.Cut(howto, "refuses to start:\n\n```\n")
	sentence, _, _ = strings.Cut(sentence, "\n")
	c.start(t, "session-manager")
	p := c.processes["session-manager"]
	kagedtest.Eventually(t, "the old version refuses", func() bool {
		said := number.ReplaceAllString(p.Stderr.Tail(50), "N")
		return strings.Contains(said, number.ReplaceAllString(strings.TrimSuffix(sentence, " (conflict)"), "N"))
	})
	p.Kill()
	<-p.Done()
	delete(c.processes, "session-manager")
}
