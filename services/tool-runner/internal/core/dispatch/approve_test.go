package dispatch_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/shellguard"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

type runParams struct {
	Command string            `json:"command,omitempty"`
	Argv    []string          `json:"argv,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Path    string            `json:"path,omitempty" default:"f"`
}

// judged is a catalogue with a read-only tool, one that changes a file, one that runs commands and one that always
// asks; ran records the calls that ran. The system paths are an allowed one outside the project, and one in it.
func judged(t *testing.T) (d *dispatch.Dispatcher, root, outside string, ran *[]string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, outside, ran = filepath.Join(dir, "project"), filepath.Join(dir, "system"), new([]string)
	for _, d := range []string{root, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	spec := func(name string, category tool.Category) tool.Spec[runParams, echoResult] {
		return tool.Spec[runParams, echoResult]{
			Name: name, Description: "For tests.", Category: category,
			Run: func(_ context.Context, call *tool.Call, _ *runParams) (echoResult, error) {
				*ran = append(*ran, call.ID)
				return echoResult{}, nil
			},
		}
	}
	look, write, run, admin := spec(
		"x.look",
		tool.Read,
	), spec(
		"x.write",
		tool.Write,
	), spec(
		"x.run",
		tool.Write,
	), spec(
		"x.admin",
		tool.Admin,
	)
	write.Needs = func(p *runParams) []tool.Requirement { return []tool.Requirement{tool.ChangePath("path", p.Path)} }
	write.Preview = func(ctx context.Context, call *tool.Call, p *runParams) (string, error) {
		if strings.HasSuffix(p.Path, "slow") {
			<-ctx.Done()
			return "", ctx.Err()
		}
		if strings.HasSuffix(p.Path, "bad") {
			return "", fault.New(fault.FileNotRead, "Read it first.")
		}
		return "diff of " + call.Paths[0].Show, nil
	}
	run.Needs = func(*runParams) []tool.Requirement { return []tool.Requirement{tool.WorkIn("cwd", ".")} }
	run.Commands = func(p *runParams) []tool.Command {
		return []tool.Command{{Shell: p.Command, Argv: p.Argv, Env: p.Env, MaxBytes: 1000}}
	}
	guard, err := shellguard.New(shellguard.Rules{
		Blocked: []string{"rm"}, Destructive: []string{"git push --force"}, System: []string{outside, ".git/hooks"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err = dispatch.New(
		[]*tool.Entry{tool.Define(look), tool.Define(write), tool.Define(run), tool.Define(admin)},
		dispatch.Options{
			Log:   slog.New(slog.NewTextHandler(io.Discard, nil)),
			Guard: guard, LockWait: time.Second, Timeout: time.Minute, AuditValue: 100,
			Rules: paths.Rules{Allowed: []string{outside}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return d, root, outside, ran
}

func judgedCall(t *testing.T, root, name, input string) *tool.Call {
	c := newCall(t, root, name, input)
	c.From.Tools = []string{"x.look", "x.write", "x.run", "x.admin"}
	return c
}

// Approval depends on the call's effect, not only on its tool; the question has effect and reason. Blocked commands are
// refused without a question (T-CAT-01, -02, -04, -06, T-SAFE-02, S6.5).
func TestEffectiveCategory(t *testing.T) {
	t.Parallel()
	d, root, outside, _ := judged(t)
	for _, c := range []struct {
		tool, input string
		code        fault.Code
		ask         *contract.Subject
	}{
		{"x.look", `{}`, 0, nil},
		{"x.write", `{}`, 0, nil},
		{"x.run", `{"command":"ls"}`, 0, nil},
		{"x.run", `{"argv":["ls","; rm x"]}`, 0, nil},
		{"x.run", `{"command":"env rm x"}`, fault.CommandBlocked, nil},
		{"x.run", `{"argv":["/bin/rm","x"]}`, fault.CommandBlocked, nil},
		{"x.run", `{"command":"git push --force; rm x"}`, fault.CommandBlocked, nil},
		// A command that is too long is not judged.
		{"x.run", `{"command":"rm ` + strings.Repeat("x", 1000) + `"}`, fault.InvalidParams, nil},
		{"x.run", `{"command":"cd a && git push --force"}`, 0, &contract.Subject{
			Tool: "x.run", Agent: "primary", Command: "cd a && git push --force", Cwd: "./",
			Standing: []contract.StandingKind{contract.SameCommand},
			Reasons:  []string{"git push --force: git push --force is in destructive_commands."},
		}},
		{
			"x.run", `{"command":"git push --force","env":{"Z":"","GIT_SSH_COMMAND":"sh -c 'x'","A;B":"1"}}`, 0,
			&contract.Subject{
				Tool: "x.run", Agent: "primary", Cwd: "./",
				Command:  "export 'A;B=1' \"GIT_SSH_COMMAND=sh -c 'x'\" 'Z='\ngit push --force",
				Standing: []contract.StandingKind{contract.SameCommand},
				Reasons:  []string{"git push --force is in destructive_commands."},
			},
		},
		{"x.run", `{"command":"git push --force 'a;b'"}`, 0, &contract.Subject{
			Tool: "x.run", Agent: "primary", Command: "git push --force 'a;b'", Cwd: "./",
			Reasons:  []string{"git push --force is in destructive_commands."},
			Standing: []contract.StandingKind{contract.SameCommand, contract.SameWords}, Words: []string{
				"git", "push",
				"--force", "a;b",
			},
		}},
		{"x.run", `{"argv":["git","push","--force","a b"]}`, 0, &contract.Subject{
			Tool: "x.run", Agent: "primary", Command: "git push --force 'a b'", Cwd: "./",
			Reasons: []string{"git push --force is in destructive_commands."},
		}},
		{"x.run", `{"command":"$X"}`, 0, &contract.Subject{
			Tool: "x.run", Agent: "primary", Command: "$X", Cwd: "./",
			Reasons:  []string{"the name of the command is known only when it runs."},
			Standing: []contract.StandingKind{contract.SameCommand},
		}},
		{"x.write", `{"path":"` + outside + `/f"}`, 0, &contract.Subject{
			Tool: "x.write", Agent: "primary", Paths: []string{outside + "/f"}, Preview: "diff of " + outside + "/f",
			Reasons: []string{
				outside + "/f is a system path: what is in " + outside + " decides what programs outside the agent's reach do.",
			},
		}},
		{"x.write", `{"path":".git/hooks/pre-commit"}`, 0, &contract.Subject{
			Tool: "x.write", Agent: "primary", Paths: []string{"./.git/hooks/pre-commit"},
			Preview: "diff of ./.git/hooks/pre-commit",
			Reasons: []string{
				"./.git/hooks/pre-commit is a system path: what is in .git/hooks decides what programs outside the agent's " +
					"reach do.",
			},
		}},
		{"x.write", `{"path":"vendor/x/.git/hooks"}`, 0, &contract.Subject{
			Tool: "x.write", Agent: "primary", Paths: []string{"./vendor/x/.git/hooks"},
			Preview: "diff of ./vendor/x/.git/hooks",
			Reasons: []string{
				"./vendor/x/.git/hooks is a system path: what is in .git/hooks decides what programs outside the agent's reach do.",
			},
		}},
		{"x.write", `{"path":"x.git/hooks/.git/hooks.md"}`, 0, nil},
		// The boundary is checked first (C34), and a call that would fail is not asked about.
		{"x.write", `{"path":"/etc/passwd"}`, fault.InvalidParams, nil},
		{"x.write", `{"path":"` + outside + `/bad"}`, fault.FileNotRead, nil},
		{
			"x.admin", `{}`, 0, &contract.Subject{
				Tool: "x.admin", Agent: "primary", Reasons: []string{"Every call of x.admin needs approval."},
			},
		},
	} {
		out, err := d.Dispatch(t.Context(), judgedCall(t, root, c.tool, c.input))
		if err != nil || c.code == 0 && out.Fault != nil || c.code != 0 && !errors.Is(out.Fault, c.code) {
			t.Errorf("%s %s: %v, %v", c.tool, c.input, out.Fault, err)
		}
		if diff := cmp.Diff(c.ask, out.Approval); diff != "" {
			t.Errorf("%s %s: %s", c.tool, c.input, diff)
		}
		if out.Acted != (c.code == 0 && c.ask == nil && c.tool != "x.look") {
			t.Errorf("%s %s: acted %v", c.tool, c.input, out.Acted)
		}
	}
}

// With approve: writes each call that changes files or runs programs is asked about, with the other reasons first;
// read-only calls are not, and blocked commands stay blocked. A change of files may get a standing approval, one of a
// system path only a single approval.
func TestApproveWrites(t *testing.T) {
	t.Parallel()
	const why = "The project lets this agent change files and run programs only as an operator approves."
	d, root, outside, _ := judged(t)
	for _, c := range []struct {
		tool, input string
		code        fault.Code
		ask         *contract.Subject
	}{
		{"x.look", `{}`, 0, nil},
		{"x.write", `{}`, 0, &contract.Subject{
			Tool: "x.write", Agent: "primary", Paths: []string{"./f"}, Preview: "diff of ./f", Reasons: []string{why},
			Standing: []contract.StandingKind{contract.SameFiles},
		}},
		{"x.write", `{"path":"` + outside + `/f"}`, 0, &contract.Subject{
			Tool: "x.write", Agent: "primary", Paths: []string{outside + "/f"}, Preview: "diff of " + outside + "/f",
			Reasons: []string{
				outside + "/f is a system path: what is in " + outside + " decides what programs outside the agent's reach do.",
				why,
			},
		}},
		{"x.run", `{"command":"go test ./..."}`, 0, &contract.Subject{
			Tool: "x.run", Agent: "primary", Command: "go test ./...", Cwd: "./", Reasons: []string{why},
			Standing: []contract.StandingKind{contract.SameCommand, contract.SameWords}, Words: []string{"go", "test", "./..."},
		}},
		{"x.run", `{"command":"rm x"}`, fault.CommandBlocked, nil},
	} {
		call := judgedCall(t, root, c.tool, c.input)
		call.From.ApproveWrites = true
		out, err := d.Dispatch(t.Context(), call)
		if err != nil || c.code == 0 && out.Fault != nil || c.code != 0 && !errors.Is(out.Fault, c.code) {
			t.Errorf("%s %s: %v, %v", c.tool, c.input, out.Fault, err)
		}
		if diff := cmp.Diff(c.ask, out.Approval); diff != "" {
			t.Errorf("%s %s: %s", c.tool, c.input, diff)
		}
	}
}

// A call that waits for approval has had no effect. With a grant for the same question it runs, and with one for
// another question it asks again. Each half is recorded once.
func TestGrants(t *testing.T) {
	t.Parallel()
	d, root, outside, ran := judged(t)
	call := func(grant string) *tool.Call {
		c := judgedCall(t, root, "x.write", `{"path":"`+outside+`/f"}`)
		c.Grant = grant
		return c
	}
	first, err := d.Dispatch(t.Context(), call(""))
	if err != nil || first.Approval == nil || len(*ran) != 0 || first.Result.Content != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	if diff := cmp.Diff([]string{audit.ToolCalled, audit.ApprovalRequested}, types(first.Records)); diff != "" {
		t.Error(diff)
	}
	wrong, err := d.Dispatch(t.Context(), call("something else"))
	if err != nil || wrong.Approval == nil || len(*ran) != 0 {
		t.Fatalf("%+v, %v", wrong, err)
	}
	granted, err := d.Dispatch(t.Context(), call(first.Approval.Fingerprint()))
	if err != nil || granted.Fault != nil || granted.Approval != nil || len(*ran) != 1 {
		t.Fatalf("%+v, %v", granted, err)
	}
	if diff := cmp.Diff([]string{audit.ToolCompleted}, types(granted.Records)); diff != "" {
		t.Error(diff)
	}
}

// In unattended sessions read-only calls run, and others only if the job's policy lists their tool; blocked commands
// never run (T-CAT-01, -03, -05, S6.14, T-PATH-07).
func TestUnattended(t *testing.T) {
	t.Parallel()
	d, root, outside, _ := judged(t)
	for _, c := range []struct {
		tool, input string
		listed      bool
		want        fault.Code
	}{
		{"x.look", `{}`, false, 0},
		{"x.write", `{}`, false, fault.ApprovalRequired},
		{"x.write", `{}`, true, 0},
		{"x.write", `{"path":"` + outside + `/f"}`, true, 0},
		{"x.write", `{"path":"/etc/passwd"}`, true, fault.InvalidParams},
		{"x.admin", `{}`, false, fault.ApprovalRequired},
		{"x.admin", `{}`, true, 0},
		{"x.run", `{"command":"git push --force"}`, false, fault.ApprovalRequired},
		{"x.run", `{"command":"git push --force"}`, true, 0},
		{"x.run", `{"command":"rm x"}`, true, fault.CommandBlocked},
	} {
		call := judgedCall(t, root, c.tool, c.input)
		call.From.Cage, call.From.Job = nil, &contract.Job{}
		if c.listed {
			call.From.Job.Tools = []string{c.tool}
		}
		out, err := d.Dispatch(t.Context(), call)
		if err != nil || out.Approval != nil || c.want == 0 && out.Fault != nil ||
			c.want != 0 && !errors.Is(out.Fault, c.want) {
			t.Errorf("%s %s listed %v: %v, %v", c.tool, c.input, c.listed, out.Fault, err)
		}
	}
}

// A preview has the time limit of the call; it ends with timeout, or with its caller.
func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()
	d, root, outside, ran := judged(t)
	synctest.Test(t, func(t *testing.T) {
		slow := func() *tool.Call { return judgedCall(t, root, "x.write", `{"path":"`+outside+`/slow"}`) }
		began := time.Now()
		out, err := d.Dispatch(t.Context(), slow())
		if err != nil || !errors.Is(out.Fault, fault.Timeout) || out.Approval != nil || time.Since(began) != time.Minute {
			t.Errorf("%v, %v after %s", out.Fault, err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := d.Dispatch(ctx, slow()); !errors.Is(err, fault.Cancelled) {
			t.Errorf("error %v", err)
		}
	})
	if len(*ran) > 0 {
		t.Error("it was done")
	}
}

// A refusal for safety is recorded as a denial with the missing requirement (T-AUD-03).
func TestSafetyDenialsAreRecorded(t *testing.T) {
	t.Parallel()
	d, root, _, _ := judged(t)
	call := judgedCall(t, root, "x.run", `{"command":"rm x"}`)
	call.From.Cage = &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "."}}, Capabilities: []string{"shell"}}
	out, err := d.Dispatch(t.Context(), call)
	if err != nil || !slices.Equal(types(out.Records), []string{audit.ToolCalled, audit.ToolDenied}) ||
		out.Records[1].Payload["denied_capability"] != "command:rm x" {
		t.Errorf("%+v, %v", out.Records, err)
	}
}
