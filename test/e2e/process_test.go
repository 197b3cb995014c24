package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/fakellm"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/test/e2e/kagedtest"
)

// hands has the two services of a workspace, each in its own process, and a project.
type hands struct {
	*kagedtest.World
	runner, box *kagedtest.Process
	session     string
	dir         string
}

func startHands(t *testing.T, runnerEnv ...string) *hands {
	t.Helper()
	h := &hands{World: kagedtest.NewWorld(t, ""), session: ident.New()}
	h.dir = h.Project(t)
	h.box = kagedtest.Command(t, "sandbox-supervisor", h.Env)
	h.startRunner(t, runnerEnv...)
	h.ready(t)
	return h
}

// ready waits until the supervisor accepts commands.
func (h *hands) ready(t *testing.T) {
	t.Helper()
	h.serves(t, "sandbox-supervisor")
}

// serves waits until a service serves.
func (h *hands) serves(t *testing.T, name string) {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+host.SocketPath(h.DataDir, name), rpc.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	kagedtest.Eventually(t, name+" serves", func() bool {
		resp, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err == nil && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	})
}

func (h *hands) startRunner(t *testing.T, env ...string) {
	t.Helper()
	h.runner = kagedtest.Command(t, "tool-runner", append(slices.Clone(h.Env), env...))
}

func (h *hands) restart(t *testing.T, name string, p **kagedtest.Process) {
	t.Helper()
	(*p).Kill()
	<-(*p).Done()
	*p = kagedtest.Command(t, name, h.Env)
}

// tools returns a client of the present tool runner.
func (h *hands) tools(t *testing.T) toolrunnerv1.ToolRunnerServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+host.SocketPath(h.DataDir, "tool-runner"), rpc.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return toolrunnerv1.NewToolRunnerServiceClient(conn)
}

// process is one process in the form of the tools.
type process struct {
	ID        string `json:"process_id"`
	Status    string
	Reason    string
	Output    string
	ExitCode  int `json:"exit_code"`
	Processes []process
}

// call calls a tool; an interrupted call is an error.
func (h *hands) call(t *testing.T, tool string, params map[string]any) (process, error) {
	t.Helper()
	input, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := h.tools(t).RunTool(t.Context(), &toolrunnerv1.RunToolRequest{
		CallId: ident.New(), Tool: tool, Input: string(input), Context: &toolrunnerv1.ToolContext{
			SessionId: h.session, RunId: "r", Caller: "primary", ProjectId: "p", ProjectRoot: h.dir, KnowsFiles: true,
			Tools: []string{"shell.exec", "shell.process", "edit.patch", "code.lsp"},
		},
	}, grpc.WaitForReady(true))
	var p process
	for err == nil {
		var event *toolrunnerv1.RunToolEvent
		event, err = stream.Recv()
		if result := event.GetResult(); result != nil {
			if result.GetError() != nil {
				t.Fatalf("%s %s: %v", tool, input, result.GetError())
			}
			if err := json.Unmarshal([]byte(result.GetContent()), &p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return p, err
}

func (h *hands) ask(t *testing.T, tool string, params map[string]any) process {
	t.Helper()
	p, err := h.call(t, tool, params)
	if err != nil {
		t.Fatalf("%s %v: %v", tool, params, err)
	}
	return p
}

func (h *hands) status(t *testing.T, id string) process {
	t.Helper()
	return h.ask(t, "shell.process", map[string]any{"action": "status", "process_id": id})
}

// until polls until the output holds text.
func (h *hands) until(t *testing.T, id, text string) {
	t.Helper()
	for all := ""; !strings.Contains(all, text); {
		p := h.ask(t, "shell.process", map[string]any{"action": "poll", "process_id": id, "wait": 60_000})
		if all += p.Output; p.Status != "running" && !strings.Contains(all, text) {
			t.Fatalf("waiting for %q: %+v after %q", text, p, all)
		}
	}
}

// stubborn is a command that leaves a child that is hard to end, and echoes its input lines.
const stubborn = `trap '' TERM HUP; (setsid sh -c 'trap "" TERM; while :; do sleep 1000; done' &) ; echo up; while ` +
	`read x; do echo got $x; done`

func (h *hands) background(t *testing.T, command string) string {
	t.Helper()
	p := h.ask(t, "shell.exec", map[string]any{
		"command": command, "background": true, "env": map[string]string{"MARK": h.dir},
	})
	if p.Status != "running" {
		t.Fatalf("started is %+v", p)
	}
	return p.ID
}

// commands returns the running commands of background processes.
func (h *hands) commands(t *testing.T) []string { return kagedtest.Running(t, "MARK="+h.dir) }

// inBackground returns a step of a model that leaves a running process with the mark MARK=dir.
func inBackground(t *testing.T, dir string) fakellm.Step {
	t.Helper()
	input, err := json.Marshal(map[string]any{
		"command": "trap '' TERM HUP; setsid sleep 1000 & sleep 1000", "background": true,
		"env": map[string]string{"MARK": dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	return fakellm.Step{fakellm.Tool("shell.exec", string(input))}
}

// After kill -9 of the tool runner a background process continues, and the next tool runner controls it. kill -9 of the
// supervisor ends it with all its descendants, and the table marks it as lost. The end of the session ends the
// remaining processes, which the table has too.
func TestBackgroundProcessesAndKills(t *testing.T) {
	t.Parallel()
	h := startHands(t)
	id := h.background(t, stubborn)
	h.until(t, id, "up")

	h.restart(t, "tool-runner", &h.runner)
	if p := h.status(t, id); p.Status != "running" {
		t.Errorf("after the tool runner's end it is %+v", p)
	}
	h.ask(t, "shell.process", map[string]any{"action": "input", "process_id": id, "input": "one\n"})
	h.until(t, id, "got one")

	if len(h.commands(t)) == 0 {
		t.Error("nothing runs that could be left behind")
	}
	h.restart(t, "sandbox-supervisor", &h.box)
	kagedtest.Eventually(t, "nothing runs", func() bool { return len(h.commands(t)) == 0 })
	if p := h.status(t, id); p.Status != "lost" {
		t.Errorf("after the supervisor's end it is %+v", p)
	}

	h.ready(t)
	second := h.background(t, stubborn)
	h.until(t, second, "up")
	// If both are killed at once, no table has the end of the process.
	h.box.Kill()
	h.restart(t, "tool-runner", &h.runner)
	h.restart(t, "sandbox-supervisor", &h.box)
	kagedtest.Eventually(t, "nothing runs", func() bool { return len(h.commands(t)) == 0 })
	h.ready(t)

	third := h.background(t, stubborn)
	h.until(t, third, "up")
	if _, err := h.tools(t).EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{SessionId: h.session},
		grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	if left := h.commands(t); len(left) > 0 {
		t.Errorf("after the session's end run %v", left)
	}
	h.restart(t, "tool-runner", &h.runner)
	list := h.ask(t, "shell.process", map[string]any{"action": "list"}).Processes
	got := ""
	for _, p := range list {
		got += fmt.Sprintln(p.ID, p.Status, p.Reason)
	}
	if want := fmt.Sprintln(id, "lost", "") + fmt.Sprintln(second, "lost", "") +
		fmt.Sprintln(third, "exited", "session_ended"); got != want {
		t.Errorf("the table is\n%swant\n%s", got, want)
	}
}

// A daemon that was killed with all its processes marks its background processes as lost at its next start, and informs
// the agent that started them.
func TestDaemonKnowsWhatItLost(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		switch {
		case r.Turns()%2 == 1:
			return fakellm.Step{fakellm.Say("Done.")}
		case strings.Contains(r.LastText(), "look"):
			return fakellm.Step{fakellm.Tool("shell.process", `{"action":"list"}`)}
		}
		return inBackground(t, dir)
	})
	kagedtest.Write(
		t, dir, ".kaged/project.yaml", strings.Replace(kagedtest.Read(t, dir, ".kaged/project.yaml"), `"shell.bash"`,
			`"shell.*"`, 1),
	)
	d := w.Up(t, nil)
	s := kagedtest.Open(t, w.SignIn(t), dir)
	if outcome := s.Run(t, "begin"); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	running := func() []string { return kagedtest.Running(t, "MARK="+dir) }
	if len(running()) == 0 {
		t.Error("nothing runs after the run that started it")
	}
	d.Kill()
	kagedtest.Eventually(t, "nothing runs", func() bool { return len(running()) == 0 })
	w.Up(t, nil)
	s.Client = w.SignIn(t)
	kagedtest.Eventually(t, "the session is idle", func() bool {
		return kagedtest.Get[struct{ State string }](t, s.Client, "/api/v1/sessions/"+s.ID).State == "idle"
	})
	s.Attach(t, s.Seen())
	if outcome := s.Run(t, "look"); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	requests := llm.Requests()
	results := requests[len(requests)-1].Results()
	if last := fmt.Sprint(results[len(results)-1]); !strings.Contains(last, `"status":"lost"`) {
		t.Errorf("the agent is told %s", last)
	}
}

// If a session ends while its workspace's tool runner is not running, its background processes end when the tool runner
// is back: session-manager repeats the end until the tool runner has confirmed it.
func TestSessionEndsWhileTheToolRunnerIsAway(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	c := startAlone(t, llm)
	dir := c.Project(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if r.Turns() > 0 {
			return fakellm.Step{fakellm.Say("Done.")}
		}
		return inBackground(t, dir)
	})
	kagedtest.Write(
		t, dir, ".kaged/project.yaml", strings.Replace(kagedtest.Read(t, dir, ".kaged/project.yaml"), `"shell.bash"`,
			`"shell.*"`, 1),
	)
	s := kagedtest.Open(t, c.SignIn(t), dir)
	if outcome := s.Run(t, "begin"); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	running := func() []string { return kagedtest.Running(t, "MARK="+dir) }
	c.processes["tool-runner"].Kill()
	<-c.processes["tool-runner"].Done()
	if err := s.Client.Do(t.Context(), http.MethodDelete, "/api/v1/sessions/"+s.ID+"?confirm=true", nil, nil); err != nil {
		t.Fatal(err)
	}
	if len(running()) == 0 {
		t.Error("nothing runs that could be left behind")
	}
	c.start(t, "tool-runner")
	kagedtest.Eventually(t, "nothing runs", func() bool { return len(running()) == 0 })
}
