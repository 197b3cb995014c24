package clitools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/sandboxtest"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/clitools"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample is the example file of the specification.
const sample = "../../../../../pkg/dsl/testdata/tools.yaml"

// bench is tools.yaml behind a dispatcher, with a project for its calls. Its programs are in one folder, which is the
// whole PATH.
type bench struct {
	t          *testing.T
	root, bin  string
	env        map[string]string
	shell      *sandboxtest.Shell
	entries    []*tool.Entry
	warnings   []string
	dispatcher *dispatch.Dispatcher
	from       contract.Caller
	emitted    map[string]string
}

func newBench(t *testing.T, file string) *bench {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		t: t, root: filepath.Join(base, "project"), bin: filepath.Join(base, "bin"), emitted: map[string]string{},
		shell: &sandboxtest.Shell{KillGrace: 100 * time.Millisecond},
	}
	b.env = map[string]string{"PATH": b.bin, "HOME": base}
	for _, dir := range []string{b.root, b.bin} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// argv is a program that prints each of its arguments on a line.
	for _, name := range []string{"argv", "kubectl", "deploy"} {
		b.program(filepath.Join(b.bin, name), `for a in "$0" "$@"; do printf '[%s]\n' "${a##*/bin/}"; done`)
	}
	b.entries, b.warnings, err = clitools.Load("tools.yaml", []byte(file), nil, clitools.Deps{
		Commands: b.shell, LookupEnv: func(name string) (string, bool) { v, ok := b.env[name]; return v, ok },
		Limits: clitools.Limits{
			Timeout:     time.Minute,
			Grace:       15 * time.Second,
			OutputBytes: 200 << 10,
			ValueBytes:  64 << 10,
			AuditRunes:  200,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.dispatcher, err = dispatch.New(b.entries, dispatch.Options{
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), LockWait: time.Second, Timeout: time.Minute, AuditValue: 1 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.from = contract.Caller{
		SessionID: "s",
		RunID:     "r",
		RequestID: "q",
		Agent:     tool.RootAgent,
		ProjectID: "p",
		Root:      b.root,
	}
	for _, e := range b.entries {
		b.from.Tools = append(b.from.Tools, e.Name())
	}
	return b
}

// program writes an executable shell script.
func (b *bench) program(path, script string) {
	b.t.Helper()
	testkit.WriteProgram(b.t, path, []byte("#!/bin/sh\n"+script+"\n"))
}

func (b *bench) do(name, input string) dispatch.Outcome {
	b.t.Helper()
	out, err := b.dispatcher.Dispatch(b.t.Context(), &tool.Call{
		ID: "c", Name: name, Input: json.RawMessage(input), From: b.from,
		Emit: func(stream, text string) { b.emitted[stream] += text },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// ok runs a successful call.
func (b *bench) ok(name, input string) clitools.Result {
	b.t.Helper()
	out := b.do(name, input)
	var result clitools.Result
	if err := json.Unmarshal([]byte(out.Result.Content), &result); out.Fault != nil || err != nil {
		b.t.Fatalf("%s %s: %v, %s", name, input, out.Fault, out.Result.Content)
	}
	return result
}

// args runs a call of a program that prints its arguments, and returns them.
func (b *bench) args(name, input string) string {
	b.t.Helper()
	return strings.TrimSuffix(b.ok(name, input).Stdout, "\n")
}

// fails runs a call that is refused before the program starts.
func (b *bench) fails(code fault.Code, name, input string) *fault.Error {
	b.t.Helper()
	before := len(b.shell.Specs())
	out := b.do(name, input)
	if !errors.Is(out.Fault, code) {
		b.t.Fatalf("%s %s: %v, want %s", name, input, out.Fault, code)
	}
	if len(b.shell.Specs()) != before {
		b.t.Errorf("%s %s: a program was started", name, input)
	}
	return out.Fault
}

// one is a file of one tool that runs argv.
func one(lines string) string {
	text := "tools:\n  - name: t\n    description: d\n    category: read\n    cmd: argv\n"
	for line := range strings.Lines(lines) {
		text += "    " + line
	}
	return text
}

func load(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The specification's file becomes tools in the namespace cli that also have their own names as aliases, with their
// category, schema and need (T-CLI-01, T-CLI-06, T-CLI-07, T-CLI-10, T-ENV-05, T-TOOLS-S6.7).
func TestSample(t *testing.T) {
	t.Parallel()
	b := newBench(t, load(t, sample))
	var got []string
	for _, e := range b.entries {
		got = append(
			got,
			fmt.Sprintln(e.Name(), e.Aliases[0].Name, e.Namespace(), e.Source, e.Category, e.DefaultRoot, e.Requires[0]),
		)
	}
	want := `cli.kubectl_get kubectl_get cli cli 1 false capability:exec
cli.kubectl_apply kubectl_apply cli cli 2 false capability:exec
cli.deploy_app deploy_app cli cli 3 false capability:exec
`
	if strings.Join(got, "") != want {
		t.Errorf("the tools are\n%s", strings.Join(got, ""))
	}
	schema, err := json.Marshal(b.entries[0].Parameters().Document())
	if want := `{"additionalProperties":false,"properties":{"namespace":{"description":"The Kubernetes ` +
		`namespace","pattern":"^[a-z0-9-]+$","type":"string"},` +
		`"resource":{"description":"The resource type","enum":["pods","services","deployments","configmaps","secrets",` +
		`"nodes","namespaces"],"type":"string"}},` +
		`"required":["resource"],"type":"object"}`; err != nil ||
		string(schema) != want {
		t.Errorf("the schema is %s", schema)
	}

	if got := b.args("kubectl_get", `{"resource":"pods"}`); got != "[kubectl]\n[get]\n[pods]" {
		t.Errorf("arguments %s", got)
	}
	if got := b.args(
		"cli.kubectl_get", `{"resource":"pods","namespace":"dev"}`,
	); got != "[kubectl]\n[get]\n[pods]\n[-n]\n[dev]" {
		t.Errorf("arguments %s", got)
	}
	if got := b.args("kubectl_apply", `{"file":"m.yaml"}`); got != "[kubectl]\n[apply]\n[-f]\n[m.yaml]" {
		t.Errorf("arguments %s", got)
	}
	// Values are checked against the schema before the program starts (T-CLI-05, T-CLI-08, T-TOOLS-S6.9).
	b.fails(fault.InvalidParams, "kubectl_get", `{"resource":"jobs"}`)
	b.fails(fault.InvalidParams, "kubectl_get", `{"resource":"pods; rm -rf ~"}`)
	b.fails(fault.InvalidParams, "kubectl_get", `{"resource":"pods","namespace":"A B"}`)
	b.fails(fault.InvalidParams, "kubectl_get", `{"namespace":"dev"}`)
	b.fails(fault.InvalidParams, "kubectl_get", `{"resource":"pods","extra":1}`)
	b.fails(fault.InvalidParams, "kubectl_apply", `{"file":"a;b"}`)
}

// A value with any content is one argument, because no shell reads it (T-CLI-02, T-CLI-03, T-CLI-09, T-TOOLS-S6.8).
func TestValuesAreArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t, one("args: [\"{{v}}\", \"a={{v}},{{ v }}\", \"{{.Names}}\", '$HOME *']\n"))
	for _, value := range []string{
		"pods", "two words", ";ls", "$(id)", "`id`", "a\nb", "*", "~", "$HOME", "'\"\\", "{{v}}", "{{w}}", "", "ü\U0001F642",
		"a -x",
	} {
		input, err := json.Marshal(map[string]string{"v": value})
		if err != nil {
			t.Fatal(err)
		}
		want := "[argv]\n[" + value + "]\n[a=" + value + "," + value + "]\n[{{.Names}}]\n[$HOME *]"
		if got := b.args("t", string(input)); got != want {
			t.Errorf("%q became\n%s", value, got)
		}
	}
	b = newBench(t, "tools: [{name: t, category: read, cmd: \"argv | cat\"}]\n")
	if out := b.do("t", `{}`); !errors.Is(out.Fault, fault.ShellSpawnFailed) ||
		!strings.Contains(out.Fault.Msg, "argv | cat") {
		t.Errorf("a command line: %v", out.Fault)
	}
}

// A value never becomes an option; the operator's own text may be one (tools-notes P15).
func TestOptionInjection(t *testing.T) {
	t.Parallel()
	for file, refused := range map[string]bool{
		one("args: [\"{{v}}\"]\n"):          true,
		one("args: [-n, \"{{v}}\"]\n"):      true,
		one("args: [\"{{v}}-suffix\"]\n"):   true,
		one("args: [\"--name={{v}}\"]\n"):   false,
		one("args: [\"x{{v}}\"]\n"):         false,
		one("args: [--, \"{{v}}\"]\n"):      false,
		one("args: [\"--\", x, \"{{v}}\"]"): false,
		one("optional_args: {v: [\"{{v}}\"]}\nparameters: {v: {type: string, optional: true}}\n"):                      true,
		one("args: [\"{{v}}\"]\nparameters: {v: {type: string, enum: [\"-rf\", \"--force\", \"-1\", \"- \", \"-\"]}}"): false,
	} {
		b := newBench(t, file)
		for _, value := range []string{"-rf", "--force", "-1", "- ", "-"} {
			input := fmt.Sprintf(`{"v":%q}`, value)
			if !refused {
				if got := b.args("t", input); !strings.Contains(got, value) {
					t.Errorf("%s%s gave %s", file, input, got)
				}
				continue
			}
			if f := b.fails(fault.InvalidParams, "t", input); f.Details["field"] != "v" ||
				!strings.Contains(f.Msg, "take for an option") {
				t.Errorf("%s%s: %v", file, input, f)
			}
		}
	}
	// Two values together cannot form an option either, nor can a negative number.
	b := newBench(
		t,
		one(
			"args: [\"{{a}}{{b}}\", \"{{n}}\"]\nparameters: {a: {type: string}, b: {type: string}, n: {type: number, "+
				"default: 1}}\n",
		),
	)
	b.fails(fault.InvalidParams, "t", `{"a":"","b":"-x"}`)
	b.fails(fault.InvalidParams, "t", `{"a":"x","b":"","n":-1}`)
	b.fails(fault.InvalidParams, "t", `{"a":"\u0000","b":""}`)
	b.fails(fault.InvalidParams, "t", `{"a":"`+strings.Repeat("x", 65<<10)+`","b":""}`)
	if got := b.args("t", `{"a":"x","b":"-y"}`); got != "[argv]\n[x-y]\n[1]" {
		t.Errorf("arguments %s", got)
	}
}

// Optional arguments are added if the parameter is given, in the file's order, or, for a flag, if it is true; integers
// have no fraction (T-CLI-04).
func TestOptionalArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t, one(`optional_args:
  z: [-z, "{{z}}"]
  v: [-v]
  w: ["w={{w}}"]
  d: ["d={{d}}"]
parameters:
  v: {type: boolean, optional: true}
  w: {type: boolean, optional: true}
  z: {type: integer, optional: true, minimum: 0, maximum: 9}
  d: {type: string, default: x}
`))
	for input, want := range map[string]string{
		`{}`: "[d=x]", `{"v":true}`: "[-v]\n[d=x]", `{"v":false}`: "[d=x]", `{"w":false}`: "[w=false]\n[d=x]",
		`{"z":3.0,"v":true}`: "[-z]\n[3]\n[-v]\n[d=x]",
		`{"d":"y"}`:          "[d=y]", `{"z":3e0}`: "[-z]\n[3]\n[d=x]",
	} {
		if got := b.args("t", input); got != "[argv]\n"+want {
			t.Errorf("%s gave %s", input, got)
		}
	}
	b.fails(fault.InvalidParams, "t", `{"z":3.5}`)
	b.fails(fault.InvalidParams, "t", `{"z":10}`)
}

// A program has the allowed variables and its declared ones, with kaged's own inserted by name; a missing one is
// reported before the program starts (T-ENV-01, T-ENV-02, T-ENV-03, T-ENV-04, T-TOOLS-S6.13).
func TestEnvironment(t *testing.T) {
	t.Parallel()
	b := newBench(
		t,
		"tools:\n  - {name: deploy, category: write, cmd: /usr/bin/env, env: {DEPLOY_TOKEN: \"${DEPLOY_TOKEN}\", TZ: UTC, "+
			"MIX: \"a${DEPLOY_TOKEN}$HOME\"}}\n  - {name: other, category: read, cmd: /usr/bin/env}\n",
	)
	unset := b.fails(fault.LocalConfigInvalid, "deploy", `{}`)
	if !strings.Contains(unset.Msg, "DEPLOY_TOKEN") || b.entries[0].Unavailable() == nil ||
		b.entries[1].Unavailable() != nil {
		t.Errorf("unset: %v", unset)
	}
	b.env["DEPLOY_TOKEN"], b.env["SECRET"], b.env["TZ"] = "abc", "1", "Mars"
	if why := b.entries[0].Unavailable(); why != nil {
		t.Error(why)
	}
	got := strings.Split(strings.TrimSpace(b.ok("deploy", `{}`).Stdout), "\n")
	for _, want := range []string{
		"DEPLOY_TOKEN=abc", "TZ=UTC", "MIX=aabc$HOME", "PATH=" + b.bin, "HOME=" + b.env["HOME"],
	} {
		if !strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+want+"\n") {
			t.Errorf("no %s in %q", want, got)
		}
	}
	if len(got) != 5 {
		t.Errorf("the environment is %q", got)
	}
	if got := b.ok("other", `{}`).Stdout; strings.Contains(got, "abc") || strings.Contains(got, "SECRET") {
		t.Errorf("another tool has %q", got)
	}
}

// A call that would fail needs no approval: an approved call of category admin has a command that can run (T-CAT-04).
func TestRefusedBeforeAsked(t *testing.T) {
	t.Parallel()
	b := newBench(
		t,
		"tools:\n  - {name: drop, category: admin, cmd: /bin/echo, args: [\"{{what}}\"], parameters: {what: {type: "+
			"string}}, env: {TOKEN: \"${TOKEN}\"}}\n",
	)
	b.fails(fault.LocalConfigInvalid, "drop", `{"what":"table"}`)
	b.env["TOKEN"] = "x"
	b.fails(fault.InvalidParams, "drop", `{"what":"--all"}`)
	b.fails(fault.InvalidParams, "drop", `{"what":"a\u0000b"}`)
	out := b.do("drop", `{"what":"table"}`)
	if out.Approval == nil || out.Approval.Command != "/bin/echo table" || len(b.shell.Specs()) != 0 {
		t.Errorf("%+v", out)
	}
}

// Programs are not looked up in folders that agents can write: not in the project, and not relative to it.
func TestProgramsOfTheProjectAreNotFound(t *testing.T) {
	t.Parallel()
	b := newBench(t, "tools: [{name: t, category: read, cmd: planted}]\n")
	for _, dir := range []string{b.root, filepath.Join(b.root, "bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		b.program(filepath.Join(dir, "planted"), "echo planted")
	}
	b.env["PATH"] = strings.Join(
		[]string{"", ".", "bin", b.root, filepath.Join(b.root, "bin"), b.bin + "/../project/bin", b.bin},
		":",
	)
	if out := b.do("t", `{}`); !errors.Is(out.Fault, fault.ShellSpawnFailed) {
		t.Errorf("%v %s", out.Fault, out.Result.Content)
	}
	if got := b.shell.Specs()[0].Env["PATH"]; got != b.bin {
		t.Errorf("PATH is %s", got)
	}
}

// The two streams are separate, are shown while the program runs, and the exit code is a result. Excess output is cut
// with a note (T-SAFE-01, T-TOOLS-S6.3).
func TestOutput(t *testing.T) {
	t.Parallel()
	b := newBench(
		t,
		"tools:\n  - {name: t, category: read, cmd: both}\n  - {name: much, category: read, cmd: much, max_output: 1KiB}\n",
	)
	b.program(filepath.Join(b.bin, "both"), "echo out; echo err >&2; pwd; exit 3")
	b.program(filepath.Join(b.bin, "much"), "i=0; while [ $i -lt 400 ]; do echo 123456789; i=$((i+1)); done")
	got := b.ok("t", `{}`)
	if want := (clitools.Result{Stdout: "out\n" + b.root + "\n", Stderr: "err\n", ExitCode: 3}); got != want {
		t.Errorf("%+v", got)
	}
	if b.emitted["stdout"] != got.Stdout || b.emitted["stderr"] != got.Stderr {
		t.Errorf("emitted %q", b.emitted)
	}
	if got := b.ok("much", `{}`).Stdout; len(got) > 1100 || !strings.HasSuffix(got, "limit]") {
		t.Errorf("%d bytes, ...%s", len(got), got[max(0, len(got)-50):])
	}
}

// A program that exceeds its time limit is ended, and its output so far is returned (T-SAFE-04, T-TOOLS-S6.4).
func TestTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t, "tools: [{name: t, category: read, cmd: slow, timeout: 300ms}]\n")
	b.program(filepath.Join(b.bin, "slow"), "echo begun; exec /bin/sleep 1000")
	out := b.do("t", `{}`)
	if !errors.Is(out.Fault, fault.Timeout) || out.Fault.Details["stdout"] != "begun\n" ||
		out.Fault.Msg != "t was stopped after 300ms." {
		t.Errorf("%v %v", out.Fault, out.Fault.Details)
	}
}

// A caged caller needs the capability exec, the command runs in its cage, and the call is recorded with secrets masked.
func TestCageAndRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, one("args: [\"{{v}}\"]\n"))
	b.from.Cage = &dsl.Cage{}
	if f := b.fails(fault.CapabilityDenied, "t", `{"v":"x"}`); f.Details["required"] != "capability:exec" {
		t.Errorf("%v", f)
	}
	b.from.Cage = &dsl.Cage{Capabilities: []string{"exec"}}
	out := b.do("t", `{"v":"API_TOKEN=hush"}`)
	spec := b.shell.Specs()[0]
	if spec.Cage != b.from.Cage || spec.Dir != b.root || spec.Root != b.root || spec.Terminal ||
		spec.Owner.CallID != "c" ||
		spec.Owner.SessionID != "s" {
		t.Errorf("%+v", spec)
	}
	var events []string
	for _, r := range out.Records {
		events = append(events, r.Type)
		if text := fmt.Sprint(r.Payload); strings.Contains(text, "hush") {
			t.Errorf("%s tells %s", r.Type, text)
		}
	}
	if got := strings.Join(events, " "); got != audit.ToolCalled+" "+audit.ShellExecuted+" "+audit.ToolCompleted {
		t.Errorf("recorded %s", got)
	}
}

// An infrastructure error is not the tool's failure, and the end of the caller ends the program.
func TestInfrastructure(t *testing.T) {
	t.Parallel()
	b := newBench(t, "tools: [{name: t, category: read, cmd: slow}]\n")
	b.shell.Refuse = fault.New(fault.Unavailable, "Gone.")
	call := func(ctx context.Context) error {
		_, err := b.dispatcher.Dispatch(ctx, &tool.Call{ID: "c", Name: "t", From: b.from, Emit: func(string, string) {}})
		return err
	}
	if err := call(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("refused: %v", err)
	}
	b.shell.Refuse = nil
	b.program(filepath.Join(b.bin, "slow"), "exec /bin/sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := call(ctx); !errors.Is(err, fault.Cancelled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A file with an error gives no tools, and all errors with their positions; a name of kaged's own tools is an error
// (tools-notes 1.4).
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	builtin := []*tool.Entry{tool.Define(tool.Spec[struct{}, struct{}]{
		Name: "debug", Aliases: []tool.Alias{tool.AliasOf("read", "", func(s struct{}) struct{} { return s })},
	})}
	entries, _, err := clitools.Load(
		"/etc/kaged/tools.yaml",
		[]byte(
			"tools:\n  - {name: debug, category: read, cmd: x}\n  - {name: read, category: read, cmd: x}\n  - {name: "+
				"agent-x, category: read, cmd: x}\n",
		),
		builtin,
		clitools.Deps{},
	)
	f := fault.From(err)
	if entries != nil || !errors.Is(err, fault.LocalConfigInvalid) || f.Details["line"] != 2 ||
		f.Details["path"] != "/etc/kaged/tools.yaml" ||
		len(f.Details["errors"].([]any)) != 3 {
		t.Fatalf("%v %v", entries, err)
	}
	for _, want := range []string{
		"tools.yaml:2:6: The name debug is that of a tool of kaged's own",
		"tools.yaml:3:6: The name read is an alias of debug", "tools.yaml:4:6: A tool cannot be called agent-x",
	} {
		if !strings.Contains(f.Msg, want) {
			t.Errorf("no %q in %s", want, f.Msg)
		}
	}
	b := newBench(t, one("args: [\"{{v}}\"]\nparameters: {v: {type: string, pattern: x}}\n"))
	if len(b.warnings) != 1 || !strings.HasPrefix(b.warnings[0], "tools.yaml:7:") {
		t.Errorf("warnings %q", b.warnings)
	}
}
