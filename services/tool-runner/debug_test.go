package toolrunner_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	dappool "kaged.dev/services/dap-pool"
	lsppool "kaged.dev/services/lsp-pool"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
	toolrunner "kaged.dev/services/tool-runner"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// withDebuggers returns a tool runner with real debug adapters, and a Go module with a failing test.
func withDebuggers(t *testing.T) *client {
	t.Helper()
	opts := testkit.Options(t)
	opts.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	h, err := host.New(opts, toolrunner.Module, lsppool.Module, dappool.Module, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	running := testkit.Start(t, h)
	t.Cleanup(func() { testkit.Stop(t, running) })
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &client{toolrunnerv1.NewToolRunnerServiceClient(h.Dial("tool-runner")), t, root, nil}
	c.write("go.mod", "module example.com/m\n\ngo 1.24\n")
	c.write("mean.go", "package m\n\n// Mean is the arithmetic mean.\nfunc Mean(list []int) int {\n\tsum := 0\n"+
		"\tfor _, n := range list[1:] {\n\t\tsum += n\n\t}\n\treturn sum / len(list)\n}\n")
	c.write("mean_test.go", "package m\n\nimport \"testing\"\n\nfunc TestMean(t *testing.T) {\n"+
		"\tif got := Mean([]int{3, 4, 5}); got != 4 {\n\t\tt.Errorf(\"the mean is %d\", got)\n\t}\n}\n")
	return c
}

// debug calls debug and returns its result, or its error, and the records of the call.
func (c *client) debug(input string, adjust ...func(*toolrunnerv1.ToolContext)) (map[string]any, string) {
	c.t.Helper()
	req := c.request("debug", input)
	for _, change := range adjust {
		change(req.Context)
	}
	_, result, err := c.run(req)
	if err != nil {
		c.t.Fatalf("%s: %v", input, err)
	}
	var content map[string]any
	if err := json.Unmarshal([]byte(result.GetContent()), &content); err != nil {
		c.t.Fatalf("%s answered %q", input, result.GetContent())
	}
	var events []string
	for _, r := range result.GetAudit() {
		events = append(events, r.GetEventType())
	}
	return content, strings.Join(events, " ")
}

// An agent finds a wrong value in a Go test by debugging: the sum omits the first number (T-DBG-LAUNCH-02, T-DBG-BP-02,
// -07, T-DBG-STEP-01, T-DBG-CONT-01/02, T-DBG-VARS-01, T-DBG-EVAL-01, T-DBG-DISC-01, T-AUD-07..09).
func TestDebug(t *testing.T) {
	t.Parallel()
	c := withDebuggers(t)
	say := func(input string, parts ...string) string {
		t.Helper()
		result, events := c.debug(input)
		c.want(result, parts...)
		return events
	}
	say(`{"action":"continue"}`, `dap_session_ended`)
	launch := `{"action":"launch","runtime":"go","mode":"test","script":".","args":["-test.run=TestMean"]}`
	events := say(launch, `"debug_session_id":"dap_`, `"status":"stopped"`, `"stopped_reason":"entry"`, `"threads":[{`)
	if !strings.Contains(events, "debug.session_started") {
		t.Errorf("records %s", events)
	}
	say(launch, `"code":"conflict"`, `debug_session_active`)
	say(`{"action":"set_breakpoint","path":"mean.go","line":7,"condition":"sum == 4"}`, `"breakpoint_id":1`,
		`"verified":true`, `"actual_line":7`, `"path":"./mean.go"`)
	say(`{"action":"list_breakpoints"}`, `"condition":"sum == 4"`)
	events = say(`{"action":"continue"}`, `"stopped_reason":"breakpoint"`, `"breakpoint_id":1`,
		`"line":7,"name":"m.Mean","path":"./mean.go","source_preview":"sum += n"}`)
	if !strings.Contains(events, "debug.breakpoint_hit") {
		t.Errorf("records %s", events)
	}
	say(`{"action":"stack_trace"}`, `"id":0`, `m.TestMean`, `"path":"./mean_test.go"`, `"total_frames":`)
	// Before the second pass the sum of 3 and 4 should be 7.
	say(`{"action":"variables","filter":"sum"}`, `"name":"sum","type":"int","value":"4"`)
	say(`{"action":"variables","expand":"list"}`, `"name":"list[0]","type":"int","value":"3"`)
	say(`{"action":"evaluate","expression":"len(list)"}`, `"result":"3"`, `"type":"int"`)
	say(`{"action":"evaluate","expression":"call Mean(list)"}`, `invalid_params`, `repl`)
	say(`{"action":"step_over"}`, `"stopped_reason":"step"`, `"line":6`)
	say(`{"action":"step_out"}`, `"path":"./mean_test.go"`)
	say(`{"action":"remove_breakpoint","path":"mean.go","line":7}`, `"breakpoint_id":1`)
	events = say(`{"action":"continue"}`, `"status":"exited"`, `"exit_code":1`, `the mean is 3`)
	if !strings.Contains(events, "debug.session_ended") {
		t.Errorf("records %s", events)
	}
	say(`{"action":"variables"}`, `dap_session_ended`)
	say(launch, `"stopped_reason":"entry"`)
	say(`{"action":"disconnect"}`, `"disconnected":true`, `"debuggee_terminated":true`)
	if left, err := filepath.Glob(filepath.Join(c.root, "*debug*")); err != nil || len(left) > 0 {
		t.Errorf("left in the project: %v", left)
	}
}

// A missing parameter is named in the error, and the cage decides about access (T-DBG-COMMON-01..03, T-DBG-LAUNCH-01,
// T-DBG-ATTACH-01, T-DBG-BP-01, T-DBG-SEC-03).
func TestDebugRefusals(t *testing.T) {
	t.Parallel()
	c := withDebuggers(t)
	for input, part := range map[string]string{
		`{"action":"fly"}`:                                                              `invalid_params`,
		`{"action":"launch","runtime":"go"}`:                                            `script`,
		`{"action":"launch","script":"."}`:                                              `runtime`,
		`{"action":"launch","runtime":"go","script":"none.go"}`:                         `file_not_found`,
		`{"action":"attach","runtime":"go"}`:                                            `port`,
		`{"action":"attach","runtime":"python","process_id":1}`:                         `port`,
		`{"action":"set_breakpoint","path":"mean.go"}`:                                  `line`,
		`{"action":"set_breakpoint","line":3}`:                                          `path`,
		`{"action":"evaluate"}`:                                                         `expression`,
		`{"action":"step_over"}`:                                                        `dap_session_ended`,
		`{"action":"launch","runtime":"go","script":"mean.go","env":{"A=B":"x"}}`:       `invalid_params`,
		`{"action":"launch","runtime":"go","script":".","mode":"debug","cwd":"absent"}`: `cwd`,
	} {
		result, _ := c.debug(input)
		c.want(result, part)
	}
	cage := func(policy *commonv1.CagePolicy) func(*toolrunnerv1.ToolContext) {
		policy.Fs = []*commonv1.CageMount{{Mode: "ro", Path: "project:/"}}
		policy.State = "ephemeral"
		return func(tc *toolrunnerv1.ToolContext) { tc.Cage = policy }
	}
	launch := `{"action":"launch","runtime":"go","script":".","mode":"test"}`
	refused, _ := c.debug(launch, cage(&commonv1.CagePolicy{Seccomp: "default", Capabilities: []string{"exec"}}))
	c.want(refused, `dap_requires_relaxed_seccomp`, `seccomp: relaxed`)
	denied, _ := c.debug(launch, cage(&commonv1.CagePolicy{Seccomp: "relaxed"}))
	c.want(denied, `capability_denied`, `exec`)
}

// T-REG-13, T-DBG-COMMON-01, -02, T-DBG-EVAL-02: the namespace has one tool with 27 values of its required action; it
// needs exec and files to read, and its description says which context to prefer.
func TestDebugIsOneTool(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var found []*toolrunnerv1.Tool
	for _, tool := range list.GetTools() {
		if tool.GetName() == "debug" || strings.HasPrefix(tool.GetName(), "debug.") {
			found = append(found, tool)
		}
	}
	if len(found) != 1 {
		t.Fatalf("the namespace has %v", found)
	}
	schema := found[0].GetInputSchema().AsMap()
	action := schema["properties"].(map[string]any)["action"].(map[string]any)
	var actions []string
	for _, a := range action["enum"].([]any) {
		actions = append(actions, a.(string))
	}
	want := strings.Fields(`launch attach set_breakpoint remove_breakpoint list_breakpoints set_instruction_breakpoint
		remove_instruction_breakpoint data_breakpoint_info set_data_breakpoint remove_data_breakpoint step_into step_over
		step_out continue pause stack_trace threads scopes variables evaluate disassemble read_memory write_memory modules
		loaded_sources custom_request disconnect`)
	if d := cmp.Diff(want, actions); d != "" || len(want) != 27 {
		t.Error(d)
	}
	if d := cmp.Diff([]any{"action"}, schema["required"]); d != "" {
		t.Error(d)
	}
	requires := fmt.Sprint(found[0].GetRequires())
	if !strings.Contains(requires, "exec") || !strings.Contains(requires, "ro") {
		t.Errorf("it requires %s", requires)
	}
	if !strings.Contains(found[0].GetDescription(), "Prefer the context watch") {
		t.Errorf("its description is %s", found[0].GetDescription())
	}
}
