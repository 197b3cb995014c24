package e2e_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// order is one tool call in the operator's message to an obedient model.
type order struct {
	Tool   string         `json:"tool"`
	Params map[string]any `json:"params"`
}

// obedient is a model that makes the call in the operator's message, and then ends its turn.
func obedient(r *fakellm.Request) fakellm.Step {
	if answered(r) {
		return fakellm.Step{fakellm.Say("Done.")}
	}
	var o order
	if err := json.Unmarshal([]byte(r.LastText()), &o); err != nil {
		return fakellm.Step{fakellm.Say("That is no order.")}
	}
	params, err := json.Marshal(o.Params)
	if err != nil {
		return fakellm.Step{fakellm.Say("Those are no parameters.")}
	}
	return fakellm.Step{fakellm.Tool(o.Tool, string(params))}
}

// answered reports whether a request has the result of a call, and no new order.
func answered(r *fakellm.Request) bool {
	return len(r.Messages) > 0 && r.Messages[len(r.Messages)-1].Role == llm.RoleTool
}

// caged is a project with a caged root agent.
type caged struct {
	t      *testing.T
	world  *kagedtest.World
	llm    *fakellm.Server
	dir    string
	env    []string
	daemon *kagedtest.Daemon
	client *client.Client
}

// cagedProject creates a project with the folders src, docs and secret, and a root agent with the cage, a YAML mapping
// in flow style, and every file and shell tool. It starts a daemon.
func cagedProject(t *testing.T, cage string, args ...string) *caged {
	t.Helper()
	c := &caged{t: t, llm: fakellm.Start(t), env: databaseEnv(t)}
	c.llm.Handle(obedient)
	c.world = kagedtest.NewWorld(t, kagedtest.FakeModels(c.llm, "anthropic")+"\n[limits]\nsessions_per_project = 100\n")
	dir, err := filepath.EvalSymlinks(c.world.Dir)
	if err != nil {
		t.Fatal(err)
	}
	c.dir = filepath.Join(dir, "project")
	kagedtest.Write(t, c.dir, ".kaged/project.yaml", `version: 1
project: caged
primary:
  model: smart-generalist
  system_prompt: ./prompt.md
  tools:
    "file.*": {enabled: true}
    "shell.*": {enabled: true}
  cage: `+cage+"\n")
	kagedtest.Write(t, c.dir, "prompt.md", "You obey.\n")
	kagedtest.Write(t, c.dir, "src/a", "a\n")
	kagedtest.Write(t, c.dir, "docs/d", "a document\n")
	kagedtest.Write(t, c.dir, "secret/s", "hidden away\n")
	c.up(args...)
	return c
}

func (c *caged) up(args ...string) {
	c.t.Helper()
	c.daemon = c.world.Up(c.t, c.env, args...)
	c.client = c.world.SignIn(c.t)
}

func (c *caged) session() *kagedtest.Session { return kagedtest.Open(c.t, c.client, c.dir) }

// words returns an order in the form of the operator's message.
func words(t *testing.T, tool string, params map[string]any) string {
	t.Helper()
	text, err := json.Marshal(order{tool, params})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// does makes the agent run one call and returns the run's outcome and the tool result that the model read.
func (c *caged) does(s *kagedtest.Session, tool string, params map[string]any) (outcome, result string) {
	c.t.Helper()
	before := len(c.llm.Requests())
	outcome = s.Run(c.t, words(c.t, tool, params))
	for _, r := range c.llm.Requests()[before:] {
		if !answered(&r) {
			continue
		}
		for _, res := range r.Results() {
			result = res.Content
		}
	}
	c.t.Logf("%s %v: %s, %s", tool, params, outcome, result)
	if e := c.lastRun(s).Error; e != nil {
		c.t.Logf("the run failed: %s (%s)", e.Message, e.Code)
	}
	return outcome, result
}

// shell makes the agent run a command in ./src, in a run that completes, and returns the command's output.
func (c *caged) shell(s *kagedtest.Session, command string) string {
	c.t.Helper()
	outcome, result := c.does(s, "shell.bash", map[string]any{"command": command, "cwd": "src"})
	var said struct{ Stdout string }
	if err := json.Unmarshal([]byte(result), &said); err != nil || outcome != "completed" {
		c.t.Fatalf("%s: the run %s (%+v), the tool said %s", command, outcome, c.lastRun(s).Error, result)
	}
	return said.Stdout
}

// lastRun is the newest run of a session.
type lastRun struct {
	ID, State  string
	CageStatus string `json:"cage_status"`
	Error      *struct{ Code, Message string }
}

func (c *caged) lastRun(s *kagedtest.Session) lastRun {
	c.t.Helper()
	page := kagedtest.Get[struct{ Items []lastRun }](c.t, c.client, "/api/v1/sessions/"+s.ID+"/runs")
	last := page.Items[len(page.Items)-1]
	return kagedtest.Get[lastRun](c.t, c.client, "/api/v1/sessions/"+s.ID+"/runs/"+last.ID)
}

// recorded returns the payloads of a session's records of some types, the oldest first.
func (c *caged) recorded(s *kagedtest.Session, types string) []map[string]any {
	c.t.Helper()
	page := kagedtest.Get[struct {
		Items []struct {
			EventType string `json:"event_type"`
			Payload   map[string]any
		}
	}](c.t, c.client, "/api/v1/audit?session="+s.ID+"&event_type="+types)
	var list []map[string]any
	for _, item := range page.Items {
		item.Payload["event_type"] = item.EventType
		list = append([]map[string]any{item.Payload}, list...)
	}
	return list
}

// runsNow are the running commands of a session.
type runsNow struct {
	Processes []struct {
		Command   string
		CageID    string `json:"cage_id"`
		AgentPath string `json:"agent_path"`
		PID       int
		Memory    int64 `json:"memory_bytes"`
	}
	Cages []struct {
		ID, Tier  string
		AgentPath string `json:"agent_path"`
		Processes int
		Memory    int64 `json:"memory_bytes"`
	}
}

func (c *caged) running(s *kagedtest.Session) runsNow {
	c.t.Helper()
	return kagedtest.Get[runsNow](c.t, c.client, "/api/v1/sessions/"+s.ID+"/processes")
}

func (c *caged) end(s *kagedtest.Session) {
	c.t.Helper()
	if err := c.client.Do(c.t.Context(), http.MethodDelete, "/api/v1/sessions/"+s.ID+"?confirm=true", nil,
		nil); err != nil {
		c.t.Fatal(err)
	}
}

// inBackground makes the agent start a stubborn process that outlives its run.
func (c *caged) inBackground(s *kagedtest.Session) {
	c.t.Helper()
	outcome, result := c.does(s, "shell.exec", map[string]any{
		"command": "trap '' TERM HUP; setsid sleep 1000 & touch ~/mark; echo up >up; sleep 1000", "cwd": "src",
		"background": true, "env": map[string]string{"MARK": c.dir},
	})
	if outcome != "completed" || !strings.Contains(result, `"status":"running"`) {
		c.t.Fatalf("the run %s, the tool said %s", outcome, result)
	}
	kagedtest.Eventually(c.t, "it runs", func() bool {
		_, err := os.Stat(filepath.Join(c.dir, "src", "up"))
		return err == nil && len(c.marked()) > 1
	})
}

// marked returns the processes that [caged.inBackground] started, wherever they run.
func (c *caged) marked() []string { return kagedtest.Running(c.t, "MARK="+c.dir) }

// left lists the remains of cages: notes in the data directory, stubs in the project, control groups with the name of a
// cage.
func (c *caged) left(cages ...string) []string {
	c.t.Helper()
	var found []string
	notes, err := os.ReadDir(filepath.Join(c.world.DataDir, "cages"))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	for _, n := range notes {
		if strings.HasSuffix(n.Name(), ".stubs") || containsAny(n.Name(), cages) {
			found = append(found, n.Name())
		}
	}
	for _, stub := range []string{".git", ".claude", ".agents", "src/.git"} {
		if _, err := os.Lstat(filepath.Join(c.dir, stub)); err == nil {
			found = append(found, stub)
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && containsAny(d.Name(), cages) {
			found = append(found, path)
		}
		return nil // a file removed during the walk does not count
	})
	return found
}

func containsAny(name string, parts []string) bool {
	for _, p := range parts {
		if p != "" && strings.Contains(strings.ToLower(name), strings.ToLower(p)) {
			return true
		}
	}
	return false
}

// frames returns the payloads of a session's frames of a kind.
func frames(t *testing.T, s *kagedtest.Session, kind string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for _, f := range s.Frames {
		if f.Type == kind {
			var p map[string]any
			kagedtest.Payload(t, f, &p)
			list = append(list, p)
		}
	}
	return list
}

// types returns the types of records, in order.
func types(records []map[string]any) string {
	var list []string
	for _, r := range records {
		list = append(list, fmt.Sprint(r["event_type"]))
	}
	return strings.Join(list, " ")
}
