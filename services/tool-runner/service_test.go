package toolrunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit"
	"kaged.dev/services/sandbox-supervisor/shim"
	toolrunner "kaged.dev/services/tool-runner"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

func TestMain(m *testing.M) {
	if shim.Invoked() {
		shim.Main()
	}
	goleak.VerifyTestMain(m)
}

// The service starts, stops, and leaves nothing behind.
func TestLifecycle(t *testing.T) {
	testkit.Lifecycle(t, toolrunner.Module, func() host.Options { return testkit.Options(t) })
}

// dial serves register over memory and returns a connection to it.
func dial(t *testing.T, register func(grpc.ServiceRegistrar)) grpc.ClientConnInterface {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	listener := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(rpc.ServerOptions(log)...)
	register(srv)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:memory", append(rpc.DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		srv.Stop()
		<-served
	})
	return conn
}

// client is a tool runner as its callers see it, with a project to work on.
type client struct {
	toolrunnerv1.ToolRunnerServiceClient
	t    *testing.T
	root string
}

// start runs the service over memory, with sandbox running its commands.
func start(t *testing.T, sandbox sandboxsupervisorv1.SandboxServiceServer) *client {
	t.Helper()
	below := dial(t, func(r grpc.ServiceRegistrar) { sandboxsupervisorv1.RegisterSandboxServiceServer(r, sandbox) })
	c, stop := startOn(t, toolrunner.DefaultConfig(), toolrunner.Deps{Sandbox: sandboxsupervisorv1.NewSandboxServiceClient(below)})
	t.Cleanup(stop)
	return c
}

// startOn runs a service with its collaborators, but for the log, until it is stopped.
func startOn(t *testing.T, cfg toolrunner.Config, deps toolrunner.Deps) (_ *client, stop func()) {
	t.Helper()
	deps.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	svc, err := toolrunner.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- svc.Run(ctx) }()
	conn := dial(t, svc.Register)
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &client{toolrunnerv1.NewToolRunnerServiceClient(conn), t, root}, stop
}

// write puts a file into the project.
func (c *client) write(name, content string) {
	c.t.Helper()
	path := filepath.Join(c.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// request is a call of a tool by the root agent, which has all of the catalogue.
func (c *client) request(name, input string) *toolrunnerv1.RunToolRequest {
	c.t.Helper()
	list, err := c.ListTools(c.t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, tool := range list.GetTools() {
		names = append(names, tool.GetName())
	}
	return &toolrunnerv1.RunToolRequest{CallId: ident.New(), Tool: name, Input: input, Context: &toolrunnerv1.ToolContext{
		SessionId: "s1", RunId: "r1", RequestId: "q1", Caller: "primary", ProjectId: "p1", ProjectRoot: c.root, Tools: names,
	}}
}

// run runs a call and returns the streamed output and the result.
func (c *client) run(req *toolrunnerv1.RunToolRequest) (string, *toolrunnerv1.ToolResult, error) {
	c.t.Helper()
	stream, err := c.RunTool(c.t.Context(), req)
	if err != nil {
		return "", nil, err
	}
	var output strings.Builder
	for {
		event, err := stream.Recv()
		if err != nil {
			return output.String(), nil, err
		}
		if result := event.GetResult(); result != nil {
			if _, err := stream.Recv(); err != io.EOF {
				c.t.Errorf("after the result came %v", err)
			}
			return output.String(), result, nil
		}
		output.WriteString(event.GetOutput().GetText())
	}
}

// call runs a tool and returns its content as JSON values.
func (c *client) call(name, input string) (map[string]any, *toolrunnerv1.ToolResult) {
	c.t.Helper()
	_, result, err := c.run(c.request(name, input))
	if err != nil {
		c.t.Fatalf("%s %s: %v", name, input, err)
	}
	var content map[string]any
	if err := json.Unmarshal([]byte(result.GetContent()), &content); err != nil {
		c.t.Fatalf("%s answered %q: %v", name, result.GetContent(), err)
	}
	return content, result
}

// A file is read over the wire: content for the model, records for the audit, no error.
func TestRunToolReadsAFile(t *testing.T) {
	t.Parallel()
	c := start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	c.write("src/main.go", "package main\n\nfunc main() {}\n")
	content, result := c.call("file.read", `{"path":"./src/main.go","limit":2}`)
	if want := "1: package main\n2: "; content["content"] != want || content["next_offset"] != 3.0 || result.GetError() != nil {
		t.Errorf("read %v, error %v", content, result.GetError())
	}
	if result.GetTool() != "file.read" || len(result.GetAudit()) != 2 {
		t.Errorf("tool %q with records %v", result.GetTool(), result.GetAudit())
	}
}

// What a caged subagent reads is read for it, here, and recorded under its name; what its cage does not show is not
// (T-ARCH-03).
func TestRunToolForACagedAgent(t *testing.T) {
	t.Parallel()
	c := start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	c.write("docs/a.md", "inside\n")
	c.write("secret", "outside\n")
	for path, want := range map[string]string{"docs/a.md": "1: inside", "secret": "capability_denied"} {
		req := c.request("file.read", `{"path":"`+path+`"}`)
		req.Context.Caller = "primary.subagents.reader"
		req.Context.Cage = &commonv1.CagePolicy{Fs: []*commonv1.CageMount{{Mode: "ro", Path: "./docs"}}}
		_, result, err := c.run(req)
		if err != nil || !strings.Contains(result.GetContent(), want) || strings.Contains(result.GetContent(), "outside\\n") {
			t.Fatalf("%s: %v %v", path, result, err)
		}
		for _, record := range result.GetAudit() {
			fields := record.GetPayload().GetFields()
			if record.GetAgentPath() != "primary.subagents.reader" || fields["caller"].GetStringValue() != "primary.subagents.reader" || fields["tool_name"].GetStringValue() != "file.read" {
				t.Errorf("%s: record %v", path, record)
			}
		}
	}
}

// An agent may call a tool as often as it likes: no call is one too many (T-REG-32).
func TestCallsAreNotCounted(t *testing.T) {
	t.Parallel()
	c := start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	c.write("a", "text\n")
	req := c.request("file.read", `{"path":"a"}`)
	for i := range 1001 {
		req.CallId = strconv.Itoa(i)
		if _, result, err := c.run(req); err != nil || result.GetError() != nil {
			t.Fatalf("call %d: %v %v", i+1, err, result)
		}
	}
}

// A tool that fails is a result the model can act on, not an error of the RPC (decision 2).
func TestRunToolFailsAsAResult(t *testing.T) {
	t.Parallel()
	c := start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	for name, want := range map[string]struct {
		code fault.Code
		rpc  float64
	}{
		"file.read": {fault.FileNotFound, -32000}, "file.lost": {fault.ToolNotFound, -32601},
	} {
		content, result := c.call(name, `{"path":"./nope"}`)
		body, _ := content["error"].(map[string]any)
		if !errors.Is(fault.FromProto(result.GetError()), want.code) || body["code"] != want.code.String() || body["rpc_code"] != want.rpc {
			t.Errorf("%s: %v, error %v", name, content, result.GetError())
		}
	}
	req := c.request("file.read", `{"path":"a"}`)
	req.Context.ProjectRoot = filepath.Join(c.root, "gone")
	if _, _, err := c.run(req); !errors.Is(err, fault.NotFound) {
		t.Errorf("a project that is not there: %v", err)
	}
}

// ReadProject says for each file what became of it and fails for none.
func TestReadProject(t *testing.T) {
	t.Parallel()
	c := start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	c.write(".kaged/project.yaml", "version: 1\n")
	c.write("big", strings.Repeat("x", 2<<20))
	if err := os.Symlink("/etc/passwd", filepath.Join(c.root, "leak")); err != nil {
		t.Fatal(err)
	}
	first, err := c.ReadProject(t.Context(), &toolrunnerv1.ReadProjectRequest{Root: c.root, Paths: []string{
		".kaged/project.yaml", "nope", "leak", "big", ".kaged", "../x",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var states []toolrunnerv1.FileState
	for _, f := range first.GetFiles() {
		states = append(states, f.GetState())
		if (f.GetState() == toolrunnerv1.FileState_FILE_STATE_REFUSED) != (f.GetReason() != "") {
			t.Errorf("%s: %v with reason %q", f.GetPath(), f.GetState(), f.GetReason())
		}
	}
	const found, missing, refused = toolrunnerv1.FileState_FILE_STATE_FOUND, toolrunnerv1.FileState_FILE_STATE_MISSING, toolrunnerv1.FileState_FILE_STATE_REFUSED
	want := []toolrunnerv1.FileState{found, missing, refused, refused, refused, refused}
	for i := range want {
		if states[i] != want[i] {
			t.Errorf("%s is %v, want %v", first.GetFiles()[i].GetPath(), states[i], want[i])
		}
	}
	again, err := c.ReadProject(t.Context(), &toolrunnerv1.ReadProjectRequest{
		Root: c.root, Paths: []string{".kaged/project.yaml"},
		Known: map[string]string{".kaged/project.yaml": first.GetFiles()[0].GetSha256()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if f := again.GetFiles()[0]; f.GetState() != toolrunnerv1.FileState_FILE_STATE_UNCHANGED || len(f.GetContent()) != 0 {
		t.Errorf("the same content came back as %v", f)
	}
	if _, err := c.ReadProject(t.Context(), &toolrunnerv1.ReadProjectRequest{Root: filepath.Join(c.root, "big")}); !errors.Is(err, fault.NotFound) {
		t.Errorf("a root that is no folder: %v", err)
	}
}

// A command runs through the sandbox: its output is streamed while it runs and its result is complete without that.
func TestRunToolRunsACommand(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	c := start(t, box)
	c.write("sub/x", "")
	req := c.request("shell.bash", `{"command":"echo one; echo two; exit 3","cwd":"sub","env":{"A":"b"}}`)
	req.Context.Cage = &commonv1.CagePolicy{
		Fs: []*commonv1.CageMount{{Mode: "rw", Path: "./"}}, Capabilities: []string{"shell"},
		Limits: &commonv1.CageLimits{MemoryBytes: 1 << 30, Cpu: 1.5}, Env: map[string]string{"IN": "side"}, State: "ephemeral",
	}
	output, result, err := c.run(req)
	if err != nil || output != "one\ntwo\n" || result.GetContent() != `{"stdout":"one\ntwo\n","stderr":"","exit_code":3,"timed_out":false}` {
		t.Errorf("output %q, result %v, %v", output, result, err)
	}
	asked := <-box.asked
	if asked.GetOwner().GetSessionId() != "s1" || asked.GetOwner().GetCallId() != req.GetCallId() || asked.GetTerminal() == nil ||
		asked.GetCwd() != filepath.Join(c.root, "sub") || asked.GetProjectRoot() != c.root || asked.GetTimeoutMs() != 120_000 || asked.GetEnv()["A"] != "b" {
		t.Errorf("the sandbox was asked for %v", asked)
	}
	if !proto.Equal(asked.GetCage(), req.GetContext().GetCage()) {
		t.Errorf("the cage went out as %v", asked.GetCage())
	}
	var events []string
	for _, r := range result.GetAudit() {
		events = append(events, r.GetEventType())
		if p := r.GetPayload().AsMap(); p["session_id"] != "s1" || p["run_id"] != "r1" || p["request_id"] != "q1" || p["caller"] != "primary" || r.GetTs() == 0 {
			t.Errorf("record %v", r)
		}
	}
	if want := "tool.called shell.executed tool.completed"; strings.Join(events, " ") != want {
		t.Errorf("records %v", events)
	}
}

// Secrets of the service's own environment do not reach a command (S6.6).
func TestCommandsGetNoSecrets(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-this-must-not-leak")
	c := start(t, newSandbox())
	_, result, err := c.run(c.request("bash", `{"command":"env; cat /proc/self/environ"}`))
	if err != nil || strings.Contains(result.GetContent(), "must-not-leak") || !strings.Contains(result.GetContent(), "PATH=") {
		t.Errorf("%v, %v", result, err)
	}
}

// Repeating a call gives its first result: the command runs once. Another call may not use the same id.
func TestRunToolHappensOnce(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	req := c.request("shell.bash", `{"command":"echo x >> log; cat log"}`)
	for range 3 {
		_, result, err := c.run(req)
		if err != nil || result.GetContent() != `{"stdout":"x\n","stderr":"","exit_code":0,"timed_out":false}` || len(result.GetAudit()) != 3 {
			t.Errorf("%v, %v", result, err)
		}
	}
	req.Input = `{"command":"true"}`
	if _, _, err := c.run(req); !errors.Is(err, fault.Conflict) {
		t.Errorf("another call of the same id: %v", err)
	}
	req.CallId = ""
	if _, _, err := c.run(req); !errors.Is(err, fault.BadRequest) {
		t.Errorf("a call without an id: %v", err)
	}
}

// Input that is nested deeper than any message may be is answered like other input that is wrong, and recorded.
func TestDeepInputIsAnswered(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	_, result := c.call("file.read", `{"path":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`)
	if !errors.Is(fault.FromProto(result.GetError()), fault.InvalidParams) || len(result.GetAudit()) != 2 {
		t.Errorf("%v", result)
	}
}

// Whoever leaves ends the command, and the call is not made again: it may have done something.
func TestLeavingEndsTheCommand(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	c := start(t, box)
	req := c.request("shell.bash", `{"command":"echo started; sleep 600"}`)
	ctx, leave := context.WithCancel(t.Context())
	stream, err := c.RunTool(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if event, err := stream.Recv(); err != nil || event.GetOutput().GetText() != "started\n" {
		t.Fatalf("%v, %v", event, err)
	}
	leave()
	if _, err := stream.Recv(); !errors.Is(err, fault.Cancelled) {
		t.Errorf("error %v", err)
	}
	if err := <-box.gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the command ended with %v", err)
	}
	if _, result, err := c.run(req); err != nil || !errors.Is(fault.FromProto(result.GetError()), fault.Cancelled) {
		t.Errorf("the same call again: %v, %v", result, err)
	}
}

// A command that is cancelled leaves the record that it was run, and with what the call was made; whoever cancels is given it.
func TestCancelledCommandsAreRecorded(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	for _, tool := range []string{"shell.bash", "shell.exec"} {
		req := c.request(tool, `{"command":"echo started; sleep 600 # for long","env":{"MY_TOKEN":"x"}}`)
		if _, err := c.CancelTool(t.Context(), cancelOf(req)); !errors.Is(err, fault.NotFound) {
			t.Errorf("a call that was not made: %v", err)
		}
		stream, err := c.RunTool(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if event, err := stream.Recv(); err != nil || event.GetOutput().GetText() != "started\n" {
			t.Fatalf("%v, %v", event, err)
		}
		for range 2 { // twice is like once
			if _, err := c.CancelTool(t.Context(), cancelOf(req)); err != nil {
				t.Fatal(err)
			}
		}
		event, err := stream.Recv()
		result := event.GetResult()
		if err != nil || !errors.Is(fault.FromProto(result.GetError()), fault.Cancelled) || !strings.Contains(result.GetContent(), `"cancelled"`) {
			t.Fatalf("%v, %v", event, err)
		}
		records := map[string]map[string]any{}
		for _, r := range result.GetAudit() {
			records[r.GetEventType()] = r.GetPayload().AsMap()
		}
		called, _ := records["tool.called"]["params"].(map[string]any)
		want := map[string]any{"command": "echo started; sleep 600 # for long", "env": map[string]any{"MY_TOKEN": "[masked]"}}
		if d := cmp.Diff(want, called); d != "" {
			t.Error(d)
		}
		ran := records["shell.executed"]
		if ran["command"] != "echo started; sleep 600 # for long" || ran["error_code"] != "cancelled" || ran["exit_code"] != nil || ran["cwd"] != "./" {
			t.Errorf("shell.executed: %v", ran)
		}
		if records["tool.completed"]["error_code"] != "cancelled" {
			t.Errorf("tool.completed: %v", records["tool.completed"])
		}
	}
}

func cancelOf(req *toolrunnerv1.RunToolRequest) *toolrunnerv1.CancelToolRequest {
	return &toolrunnerv1.CancelToolRequest{SessionId: req.GetContext().GetSessionId(), CallId: req.GetCallId()}
}

// A sandbox that goes away while a command runs is the call's failure; one that is not there is nobody's.
func TestTheSandboxGoesAway(t *testing.T) {
	t.Parallel()
	breaking, lost, ended := newSandbox(), newSandbox(), newSandbox()
	breaking.breaks = true
	lost.reason, ended.reason = sandboxsupervisorv1.KillReason_KILL_REASON_LOST, sandboxsupervisorv1.KillReason_KILL_REASON_OWNER_ENDED
	for _, box := range []*sandbox{breaking, lost} {
		c := start(t, box)
		if _, result := c.call("shell.bash", `{"command":"true"}`); !errors.Is(fault.FromProto(result.GetError()), fault.Interrupted) {
			t.Errorf("%v", result)
		}
	}
	c := start(t, ended)
	if _, result := c.call("shell.bash", `{"command":"true"}`); !errors.Is(fault.FromProto(result.GetError()), fault.Cancelled) {
		t.Errorf("%v", result)
	}
	c = start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	if _, _, err := c.run(c.request("shell.bash", `{"command":"true"}`)); err == nil {
		t.Error("a command ran without a sandbox")
	}
}

// Ending a session ends its commands and forgets what it read.
func TestEndSession(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	c := start(t, box)
	c.write("f", "x\n")
	c.call("file.read", `{"path":"f"}`)
	if _, err := c.EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{SessionId: "s1"}); err != nil {
		t.Fatal(err)
	}
	if got := box.shell.Ended(); len(got) != 1 || got[0] != "s1" {
		t.Errorf("ended %v", got)
	}
	if _, result := c.call("file.write", `{"path":"f","content":"y"}`); !errors.Is(fault.FromProto(result.GetError()), fault.FileNotRead) {
		t.Errorf("%v", result)
	}
}

// The catalogue is the frozen list, in its order, with what a project's tools resolve by (T-REG-24, decision 1).
func TestListTools(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, tool := range list.GetTools() {
		fmt.Fprintf(&got, "%s %s %s root=%v parallel=%v", tool.GetName(), tool.GetNamespace(), tool.GetCategory(), tool.GetDefaultRoot(), tool.GetParallel())
		for _, a := range tool.GetAliases() {
			fmt.Fprintf(&got, " %s", a.GetName())
			if a.GetDescription() == "" || a.GetInputSchema().AsMap()["type"] != "object" {
				t.Errorf("alias %v", a)
			}
		}
		got.WriteString("\n")
		in, out := tool.GetInputSchema().AsMap(), tool.GetOutputSchema().AsMap()
		if tool.GetDescription() == "" || in["type"] != "object" || in["additionalProperties"] != false || out["type"] != "object" {
			t.Errorf("%s: %v %v", tool.GetName(), in, out)
		}
	}
	want := `file.read file CATEGORY_READ root=true parallel=true read read_file
file.list file CATEGORY_READ root=true parallel=true ls list_directory
file.write file CATEGORY_WRITE root=false parallel=false write write_file
file.create file CATEGORY_WRITE root=false parallel=false
edit.text edit CATEGORY_WRITE root=false parallel=false edit
edit.ast edit CATEGORY_WRITE root=false parallel=false
edit.patch edit CATEGORY_WRITE root=false parallel=false apply_patch
search.grep search CATEGORY_READ root=true parallel=true grep
search.glob search CATEGORY_READ root=true parallel=true glob
search.ast search CATEGORY_READ root=true parallel=true search.ast_grep
shell.bash shell CATEGORY_WRITE root=false parallel=false bash
shell.exec shell CATEGORY_WRITE root=false parallel=false exec
shell.process shell CATEGORY_WRITE root=false parallel=false process
`
	if got.String() != want {
		t.Errorf("the catalogue is\n%s", got.String())
	}
}

// A limit that makes every call fail is refused by its name, and the defaults are none.
func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	if err := toolrunner.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*toolrunner.Config){
		"read_bytes": func(c *toolrunner.Config) { c.ReadBytes = 0 }, "lock_wait": func(c *toolrunner.Config) { c.LockWait = -1 },
		"shell_min_timeout": func(c *toolrunner.Config) { c.ShellMinTimeout = c.ShellMaxTimeout + 1 },
		"exec_min_timeout":  func(c *toolrunner.Config) { c.ExecMinTimeout = c.ExecMaxTimeout + 1 },
		"denied_paths":      func(c *toolrunner.Config) { c.DeniedPaths = []string{"secrets", "**/{a"} },
	} {
		cfg := toolrunner.DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); !errors.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where a home lies behind a link, what is denied below it and what nobody changes unasked is so by every name.
func TestHomeBehindALink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "usr/home/me/.ssh"), 0o700), os.Symlink("usr/home", filepath.Join(dir, "home"))); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(dir, "home/me"))
	cfg := toolrunner.DefaultConfig()
	cfg.AllowedPaths, cfg.DeniedPaths = []string{"~"}, []string{"~/.aws", "~/.kube/*"}
	c, stop := startOn(t, cfg, toolrunner.Deps{})
	defer stop()
	for _, home := range []string{"home/me", "usr/home/me"} {
		for _, name := range []string{".aws/key", ".kube/config"} {
			input := fmt.Sprintf(`{"path":%q,"content":"x"}`, filepath.Join(dir, home, name))
			if _, result := c.call("file.create", input); !errors.Is(fault.FromProto(result.GetError()), fault.CapabilityDenied) {
				t.Errorf("%s: %v", input, result)
			}
		}
		stream, err := c.RunTool(t.Context(), c.request("file.create", fmt.Sprintf(`{"path":%q,"content":"x"}`, filepath.Join(dir, home, ".ssh/id"))))
		if err != nil {
			t.Fatal(err)
		}
		event, err := stream.Recv()
		if err != nil || event.GetApproval() == nil {
			t.Errorf("%s: %v, %v", home, event, err)
		}
		if _, err := stream.Recv(); err != io.EOF {
			t.Error(err)
		}
	}
}

// The lists of commands are patterns, and one that is none is refused at start.
func TestRulesForCommandsAreChecked(t *testing.T) {
	t.Parallel()
	cfg := toolrunner.DefaultConfig()
	cfg.BlockedCommands = append(cfg.BlockedCommands, "a[")
	if _, err := toolrunner.New(cfg, toolrunner.Deps{}); !errors.Is(err, fault.BadRequest) {
		t.Errorf("error %v", err)
	}
}
