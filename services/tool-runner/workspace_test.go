package toolrunner_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
	toolrunner "kaged.dev/services/tool-runner"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// workspace is a tool runner with the real sandbox supervisor. The test can restart both.
type workspace struct {
	*client
	data   string
	config toolrunner.Config
	below  sandboxsupervisorv1.SandboxServiceClient
	box    *testkit.Running
	stop   func()
}

func newWorkspace(t *testing.T, change ...func(*toolrunner.Config)) *workspace {
	t.Helper()
	w := &workspace{data: t.TempDir(), config: toolrunner.DefaultConfig()}
	w.config.ShellGrace = config.Duration(20 * time.Second)
	for _, c := range change {
		c(&w.config)
	}
	w.startBox(t)
	w.startRunner(t)
	t.Cleanup(func() {
		w.stop()
		testkit.Stop(t, w.box)
	})
	return w
}

// startBox starts a supervisor that knows no processes of an earlier one.
func (w *workspace) startBox(t *testing.T) {
	t.Helper()
	opts := testkit.Options(t)
	opts.Getenv = func(name string) string {
		return map[string]string{
			"KAGED_SERVICES_SANDBOX_SUPERVISOR_KILL_GRACE": "100ms", "KAGED_SERVICES_SANDBOX_SUPERVISOR_CANCEL_GRACE": "100ms",
		}[name]
	}
	h, err := host.New(opts, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	w.box = testkit.Start(t, h)
	w.below = sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor"))
}

// startRunner starts a tool runner on the folder of the previous one.
func (w *workspace) startRunner(t *testing.T) {
	t.Helper()
	root := ""
	if w.client != nil {
		root = w.root
	}
	w.client, w.stop = startOn(
		t,
		w.config,
		toolrunner.Deps{Sandbox: w.below, Processes: filepath.Join(w.data, "processes")},
	)
	if root != "" {
		w.root = root
	}
}

func (w *workspace) restartRunner(t *testing.T) {
	t.Helper()
	w.stop()
	w.startRunner(t)
}

// restartBox restarts the supervisor; its tool runner keeps the same client.
func (w *workspace) restartBox(t *testing.T) {
	t.Helper()
	w.stop()
	testkit.Stop(t, w.box)
	w.startBox(t)
	w.startRunner(t)
}

// answer is the answer of the shell tools.
type answer struct {
	ProcessID    string `json:"process_id"`
	Status       string
	Stdout       string
	Stderr       string
	ExitCode     *int `json:"exit_code"`
	TimedOut     bool `json:"timed_out"`
	Note         string
	Command, Cwd string
	StartedAt    int64 `json:"started_at"`
	EndedAt      int64 `json:"ended_at"`
	Signal       string
	Reason       string
	Output       *string
	Offset       int64
	NextOffset   int64  `json:"next_offset"`
	OmittedBytes int64  `json:"omitted_bytes"`
	UnreadBytes  *int64 `json:"unread_bytes"`
	Processes    []answer
	Agent        string

	audit []*commonv1.AuditRecord
}

// ended reports whether the process has ended with this code.
func (a answer) ended(code int) bool {
	return a.Status == "exited" && a.ExitCode != nil && *a.ExitCode == code
}

func (a answer) String() string {
	text, _ := json.Marshal(a)
	return string(text)
}

// ask runs a call by an agent of a session, which must succeed.
func (c *client) ask(name string, params map[string]any, change ...func(*toolrunnerv1.RunToolRequest)) answer {
	c.t.Helper()
	_, a, err := c.try(name, params, change...)
	if err != nil {
		c.t.Fatalf("%s %v: %v", name, params, err)
	}
	return a
}

// refuse runs a call that must fail as a result.
func (c *client) refuse(
	code fault.Code,
	name string,
	params map[string]any,
	change ...func(*toolrunnerv1.RunToolRequest),
) *fault.Error {
	c.t.Helper()
	_, a, err := c.try(name, params, change...)
	if !errors.Is(err, code) {
		c.t.Fatalf("%s %v: %v, %v; want %s", name, params, a, err, code)
	}
	return fault.From(err)
}

// try runs a call and returns its shown output, and its answer or failure.
func (c *client) try(
	name string,
	params map[string]any,
	change ...func(*toolrunnerv1.RunToolRequest),
) (string, answer, error) {
	c.t.Helper()
	input, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	req := c.request(name, string(input))
	for _, f := range change {
		f(req)
	}
	shown, result, err := c.run(req)
	if err != nil {
		c.t.Fatalf("%s %s: the call failed: %v", name, input, err)
	}
	if result.GetError() != nil {
		return shown, answer{}, fault.FromProto(result.GetError())
	}
	a := answer{audit: result.GetAudit()}
	if err := json.Unmarshal([]byte(result.GetContent()), &a); err != nil {
		c.t.Fatalf("%s answered %q: %v", name, result.GetContent(), err)
	}
	return shown, a, nil
}

// record returns the payload of the only record of a type, nil if there is none.
func (a answer) record(event string) map[string]any {
	for _, r := range a.audit {
		if r.GetEventType() == event {
			return r.GetPayload().AsMap()
		}
	}
	return nil
}

type p = map[string]any

// background starts a background process and returns its id.
func (c *client) background(command string, change ...func(*toolrunnerv1.RunToolRequest)) string {
	c.t.Helper()
	a := c.ask("shell.exec", p{"command": command, "background": true}, change...)
	if a.Status != "running" || !ident.Valid(a.ProcessID) || a.ExitCode != nil {
		c.t.Fatalf("%s: %v", command, a)
	}
	return a.ProcessID
}

func (c *client) status(id string) answer {
	c.t.Helper()
	return c.ask("shell.process", p{"action": "status", "process_id": id})
}

// until polls until a process's output holds a text, and returns all output.
func (c *client) until(id, text string) string {
	c.t.Helper()
	all := ""
	for !strings.Contains(all, text) {
		a := c.ask("shell.process", p{"action": "poll", "process_id": id, "wait": 60_000})
		if all += *a.Output; a.Status != "running" && !strings.Contains(all, text) {
			c.t.Fatalf("waiting for %q: %v after %q", text, a, all)
		}
	}
	return all
}

// end polls until a process has ended, and returns the last answer.
func (c *client) end(id string) answer {
	c.t.Helper()
	for {
		a := c.ask("shell.process", p{"action": "poll", "process_id": id, "wait": 60_000})
		if a.Status != "running" {
			return a
		}
	}
}

func by(agent string) func(*toolrunnerv1.RunToolRequest) {
	return func(r *toolrunnerv1.RunToolRequest) { r.Context.Caller = agent }
}

func in(session string) func(*toolrunnerv1.RunToolRequest) {
	return func(r *toolrunnerv1.RunToolRequest) { r.Context.SessionId = session }
}

var pidLine = regexp.MustCompile(`(?m)^(\d+) pid\r?$`)

// alive returns the numbers of those processes named "N pid" in output that still run.
func alive(output string) (left []int) {
	for _, m := range pidLine.FindAllStringSubmatch(output, -1) {
		pid, _ := strconv.Atoi(m[1])
		if syscall.Kill(pid, 0) == nil {
			left = append(left, pid)
		}
	}
	return left
}
