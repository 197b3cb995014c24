package toolrunner_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
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
	// The servers that scripts/setup.sh test installs by npm.
	servers, err := filepath.Abs("../../bin/servers/node_modules/.bin")
	if err == nil {
		err = os.Setenv("PATH", servers+":"+os.Getenv("PATH"))
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// The service starts, stops, and leaves no goroutine behind.
func TestLifecycle(t *testing.T) {
	testkit.Lifecycle(t, toolrunner.Module, func() host.Options { return testkit.Options(t) })
}

// A file is read over the protocol: the result has content for the model, records of the call, the read and the end,
// and no error.
func TestRunToolReadsAFile(t *testing.T) {
	t.Parallel()
	c := start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	c.write("src/main.go", "package main\n\nfunc main() {}\n")
	content, result := c.call("file.read", `{"path":"./src/main.go","limit":2}`)
	if want := "1: package main\n2: "; content["content"] != want || content["next_offset"] != 3.0 ||
		result.GetError() != nil {
		t.Errorf("read %v, error %v", content, result.GetError())
	}
	if result.GetTool() != "file.read" || len(result.GetAudit()) != 3 {
		t.Errorf("tool %q with records %v", result.GetTool(), result.GetAudit())
	}
}

// Files of a caged subagent are read by the tool runner, and recorded under the subagent's name. Files outside the cage
// are refused (T-ARCH-03).
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
			named := fields["tool_name"].GetStringValue() == "file.read" || record.GetEventType() == "file.read"
			if record.GetAgentPath() != "primary.subagents.reader" ||
				fields["caller"].GetStringValue() != "primary.subagents.reader" || !named {
				t.Errorf("%s: record %v", path, record)
			}
		}
	}
}

// The number of an agent's calls of a tool is unlimited (T-REG-32).
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

// A tool that fails has a result that the model can act on, and no error of the RPC (decision 2).
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
		if !errors.Is(fault.FromProto(result.GetError()), want.code) || body["code"] != want.code.String() ||
			body["rpc_code"] != want.rpc {
			t.Errorf("%s: %v, error %v", name, content, result.GetError())
		}
	}
	req := c.request("file.read", `{"path":"a"}`)
	req.Context.ProjectRoot = filepath.Join(c.root, "gone")
	if _, _, err := c.run(req); !errors.Is(err, fault.NotFound) {
		t.Errorf("a project that is not there: %v", err)
	}
}

// ReadProject has a state for each file; an unreadable file does not fail the call.
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
	const found, missing, refused = toolrunnerv1.FileState_FILE_STATE_FOUND, toolrunnerv1.FileState_FILE_STATE_MISSING,
		toolrunnerv1.FileState_FILE_STATE_REFUSED
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
	if _, err := c.ReadProject(
		t.Context(), &toolrunnerv1.ReadProjectRequest{Root: filepath.Join(c.root, "big")},
	); !errors.Is(err, fault.NotFound) {
		t.Errorf("a root that is no folder: %v", err)
	}
}

// A command runs through the sandbox. Its output is streamed while it runs, and its result is complete without the
// stream.
func TestRunToolRunsACommand(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	c := start(t, box)
	c.write("sub/x", "")
	req := c.request("shell.bash", `{"command":"echo one; echo two; exit 3","cwd":"sub","env":{"A":"b"}}`)
	req.Context.Cage = &commonv1.CagePolicy{
		Fs: []*commonv1.CageMount{{Mode: "rw", Path: "./"}}, Capabilities: []string{"shell"},
		Limits: &commonv1.CageLimits{MemoryBytes: 1 << 30, Cpu: 1.5}, Env: map[string]string{"IN": "side"},
		State: "ephemeral",
	}
	output, result, err := c.run(req)
	if err != nil || output != "one\ntwo\n" ||
		result.GetContent() != `{"stdout":"one\ntwo\n","stderr":"","exit_code":3,"timed_out":false}` {
		t.Errorf("output %q, result %v, %v", output, result, err)
	}
	asked := <-box.asked
	if asked.GetOwner().GetSessionId() != "s1" || asked.GetOwner().GetCallId() != req.GetCallId() ||
		asked.GetTerminal() == nil ||
		asked.GetCwd() != filepath.Join(c.root, "sub") || asked.GetProjectRoot() != c.root ||
		asked.GetTimeoutMs() != 120_000 || asked.GetEnv()["A"] != "b" {
		t.Errorf("the sandbox was asked for %v", asked)
	}
	if !proto.Equal(asked.GetCage(), req.GetContext().GetCage()) {
		t.Errorf("the cage went out as %v", asked.GetCage())
	}
	var events []string
	for _, r := range result.GetAudit() {
		events = append(events, r.GetEventType())
		if p := r.GetPayload().AsMap(); p["session_id"] != "s1" || p["run_id"] != "r1" || p["request_id"] != "q1" ||
			p["caller"] != "primary" || r.GetTs() == 0 {
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
	if err != nil || strings.Contains(result.GetContent(), "must-not-leak") ||
		!strings.Contains(result.GetContent(), "PATH=") {
		t.Errorf("%v, %v", result, err)
	}
}

// A repeated call returns its first result: the command runs once. A different call with the same id is refused.
func TestRunToolHappensOnce(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	req := c.request("shell.bash", `{"command":"echo x >> log; cat log"}`)
	for range 3 {
		_, result, err := c.run(req)
		if err != nil || result.GetContent() != `{"stdout":"x\n","stderr":"","exit_code":0,"timed_out":false}` ||
			len(result.GetAudit()) != 3 {
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

// A call is identified by its session, invocation and id. The same id in another invocation is a different call, and is
// cancelled separately. The same id with another agent, run or project is refused.
func TestTheIdentityOfACall(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	req := c.request("shell.bash", `{"command":"echo x >> log; cat log"}`)
	stdout := func(req *toolrunnerv1.RunToolRequest) string {
		_, result, err := c.run(req)
		if err != nil {
			t.Fatal(err)
		}
		var content struct{ Stdout string }
		if err := json.Unmarshal([]byte(result.GetContent()), &content); err != nil {
			t.Fatal(err)
		}
		return content.Stdout
	}
	child := proto.CloneOf(req)
	child.Context.InvocationId = "i1"
	for _, r := range []struct {
		req  *toolrunnerv1.RunToolRequest
		want string
	}{{req, "x\n"}, {child, "x\nx\n"}, {req, "x\n"}, {child, "x\nx\n"}} {
		if got := stdout(r.req); got != r.want {
			t.Errorf("invocation %q: got %q, want %q", r.req.GetContext().GetInvocationId(), got, r.want)
		}
	}
	for name, change := range map[string]func(*toolrunnerv1.RunToolRequest){
		"another run":     func(r *toolrunnerv1.RunToolRequest) { r.Context.RunId = "r2" },
		"another agent":   func(r *toolrunnerv1.RunToolRequest) { r.Context.Caller = "primary.subagents.coder" },
		"another project": func(r *toolrunnerv1.RunToolRequest) { r.Context.ProjectRoot = "/" },
		"other input":     func(r *toolrunnerv1.RunToolRequest) { r.Input = `{"command":"true"}` },
	} {
		other := proto.CloneOf(req)
		change(other)
		if _, _, err := c.run(other); !errors.Is(err, fault.Conflict) {
			t.Errorf("%s: got %v, want conflict", name, err)
		}
	}
	for invocation, want := range map[string]bool{"": true, "i1": true, "i2": false} {
		_, err := c.CancelTool(t.Context(), &toolrunnerv1.CancelToolRequest{
			SessionId: "s1", InvocationId: invocation, CallId: req.GetCallId(),
		})
		if known := err == nil; known != want {
			t.Errorf("cancelling in invocation %q: got %v, want that the call is known: %v", invocation, err, want)
		}
	}
}

// Input that nests deeper than any message may is answered like other invalid input, and recorded.
func TestDeepInputIsAnswered(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	_, result := c.call("file.read", `{"path":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`)
	if !errors.Is(fault.FromProto(result.GetError()), fault.InvalidParams) || len(result.GetAudit()) != 2 {
		t.Errorf("%v", result)
	}
}

// The end of a session ends its commands and removes its read records.
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
	if _, result := c.call("file.write", `{"path":"f","content":"y"}`); !errors.Is(fault.FromProto(result.GetError()),
		fault.FileNotRead) {
		t.Errorf("%v", result)
	}
}

// The catalogue is the fixed list, in its order, with the fields that resolve a project's tools (T-REG-24, decision 1).
func TestListTools(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, tool := range list.GetTools() {
		fmt.Fprintf(&got, "%s %s %s root=%v parallel=%v", tool.GetName(), tool.GetNamespace(), tool.GetCategory(),
			tool.GetDefaultRoot(), tool.GetParallel())
		for _, a := range tool.GetAliases() {
			fmt.Fprintf(&got, " %s", a.GetName())
			if a.GetDescription() == "" || a.GetInputSchema().AsMap()["type"] != "object" {
				t.Errorf("alias %v", a)
			}
		}
		got.WriteString("\n")
		in, out := tool.GetInputSchema().AsMap(), tool.GetOutputSchema().AsMap()
		if tool.GetDescription() == "" || in["type"] != "object" || in["additionalProperties"] != false ||
			out["type"] != "object" {
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
code.lsp code CATEGORY_WRITE root=true parallel=true
debug debug CATEGORY_WRITE root=false parallel=false
shell.bash shell CATEGORY_WRITE root=false parallel=false bash
shell.exec shell CATEGORY_WRITE root=false parallel=false exec
shell.process shell CATEGORY_WRITE root=false parallel=false process
kaged.issue kaged CATEGORY_WRITE root=true parallel=false kaged.issue.list kaged.issue.get kaged.issue.create kaged.issue.comment kaged.issue.transition
kaged.todo kaged CATEGORY_WRITE root=true parallel=false kaged.todo.view kaged.todo.set kaged.todo.add kaged.todo.start kaged.todo.done kaged.todo.drop kaged.todo.note
kaged.note kaged CATEGORY_READ root=true parallel=false
project.skill project CATEGORY_READ root=false parallel=true
memory.search memory CATEGORY_READ root=true parallel=true memory_search
memory.get memory CATEGORY_READ root=true parallel=true memory_get
`
	if got.String() != want {
		t.Errorf("the catalogue is\n%s", got.String())
	}
}

// A limit that makes every call fail is refused with its name. The defaults are valid.
func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	if err := toolrunner.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*toolrunner.Config){
		"read_bytes": func(c *toolrunner.Config) {
			c.ReadBytes = 0
		}, "lock_wait": func(c *toolrunner.Config) { c.LockWait = -1 },
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

// If a home folder is behind a link, denied and protected paths below it are denied and protected by every name.
func TestHomeBehindALink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "usr/home/me/.ssh"), 0o700),
		os.Symlink("usr/home", filepath.Join(dir, "home"))); err != nil {
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
			if _, result := c.call("file.create", input); !errors.Is(fault.FromProto(result.GetError()),
				fault.CapabilityDenied) {
				t.Errorf("%s: %v", input, result)
			}
		}
		stream, err := c.RunTool(
			t.Context(), c.request("file.create", fmt.Sprintf(`{"path":%q,"content":"x"}`, filepath.Join(dir, home, ".ssh/id"))),
		)
		if err != nil {
			t.Fatal(err)
		}
		event, err := stream.Recv()
		if err != nil || event.GetApproval() == nil {
			t.Errorf("%s: %v, %v", home, event, err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
}

// The lists of commands are patterns; an invalid one is refused at the start.
func TestRulesForCommandsAreChecked(t *testing.T) {
	t.Parallel()
	cfg := toolrunner.DefaultConfig()
	cfg.BlockedCommands = append(cfg.BlockedCommands, "a[")
	if _, err := toolrunner.New(cfg, toolrunner.Deps{}); !errors.Is(err, fault.BadRequest) {
		t.Errorf("error %v", err)
	}
}
