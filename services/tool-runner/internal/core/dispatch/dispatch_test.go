package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echoParams are the parameters of a test's tool, whose work the test gives.
type echoParams struct {
	Path string     `json:"path"`
	N    schema.Int `json:"n,omitempty" default:"7"`
}

type echoResult struct {
	N int `json:"n"`
}

// tools is a catalogue of working tools.
func tools(run func(context.Context, *tool.Call, *echoParams) (echoResult, error)) []*tool.Entry {
	spec := func(name string, requires ...tool.Requirement) tool.Spec[echoParams, echoResult] {
		return tool.Spec[echoParams, echoResult]{
			Name: name, Description: "For tests.", Category: tool.Write, Requires: requires, Run: run,
			Needs: func(p *echoParams) []tool.Requirement {
				needs := slices.Clone(requires)
				for i := range needs {
					if needs[i].Kind == tool.FS {
						needs[i].Path = p.Path
					}
				}
				return needs
			},
		}
	}
	root := spec("kaged.secret", tool.ChangePath("path", tool.CallerPath))
	root.RootOnly = true
	write := spec("x.write", tool.ChangePath("path", tool.CallerPath))
	write.Aliases = []tool.Alias{tool.AliasOf("w", "Short.", func(p struct {
		File string `json:"file"`
	},
	) echoParams {
		return echoParams{Path: p.File, N: 1}
	})}
	slow := spec("x.slow")
	slow.Category = tool.Read
	return []*tool.Entry{
		tool.Define(
			write,
		), tool.Define(root), tool.Define(slow),
		tool.Define(spec("x.trace", tool.Requirement{Kind: tool.Seccomp, Name: "relaxed"})),
		tool.Define(
			spec("x.net", tool.Requirement{Kind: tool.Net, Name: "example.org:443"}),
		), tool.Define(spec("x.shell", tool.Can("shell"))),
	}
}

func echo(_ context.Context, _ *tool.Call, p *echoParams) (echoResult, error) {
	return echoResult{int(p.N)}, nil
}

func newDispatcher(
	t testing.TB,
	run func(context.Context, *tool.Call, *echoParams) (echoResult, error),
) *dispatch.Dispatcher {
	t.Helper()
	d, err := dispatch.New(tools(run), dispatch.Options{
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		LockWait: 5 * time.Second, Timeout: 2 * time.Minute, AuditValue: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newCall is a call by the root agent in an empty project.
func newCall(t testing.TB, root, name, input string) *tool.Call {
	t.Helper()
	return &tool.Call{
		ID:    "c1",
		Name:  name,
		Input: json.RawMessage(input),
		Emit:  func(string, string) {},
		From: contract.Caller{
			SessionID: "s", RunID: "r", RequestID: "q", Agent: tool.RootAgent, Root: root,
			Tools: []string{"x.write", "kaged.secret", "x.slow", "x.trace", "x.net", "x.shell"},
		},
	}
}

func types(records []contract.Record) []string {
	var list []string
	for _, r := range records {
		list = append(list, r.Type)
	}
	return list
}

// A call runs by its name or an alias, and its answer is canonical JSON (T-DISP-04, S6.1).
func TestDispatchRuns(t *testing.T) {
	t.Parallel()
	d, root := newDispatcher(t, echo), t.TempDir()
	for name, c := range map[string][2]string{"x.write": {`{"path":"a"}`, `{"n":7}`}, "w": {`{"file":"a"}`, `{"n":1}`}} {
		out, err := d.Dispatch(t.Context(), newCall(t, root, name, c[0]))
		if err != nil || out.Fault != nil || out.Result.Content != c[1] || out.Tool != "x.write" || !out.Acted {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
		if got := types(out.Records); !slices.Equal(got, []string{"tool.called", "tool.completed"}) {
			t.Errorf("%s: records %v", name, got)
		}
	}
}

// The first refusing step decides the answer: unknown before invalid before out of scope before denied (T-DISP-01..03,
// -06, -11, T-RES-02, T-REG-08, T-REG-28, T-FM-13).
func TestStepsAreInOrder(t *testing.T) {
	t.Parallel()
	d, root := newDispatcher(t, echo), t.TempDir()
	caged := func(name, input string) *tool.Call {
		c := newCall(t, root, name, input)
		c.From.Agent, c.From.Cage = "primary.subagents.x", &dsl.Cage{}
		return c
	}
	for _, c := range []struct {
		call *tool.Call
		code fault.Code
		rpc  string
	}{
		{caged("nope.tool", `{}`), fault.ToolNotFound, `"rpc_code":-32601`},
		{caged("eval", `{"path":"a"}`), fault.ToolNotFound, `"rpc_code":-32601`},
		{caged("kaged.secret", `{}`), fault.InvalidParams, `"rpc_code":-32602`},
		{caged("kaged.secret", `{"path":"a"}`), fault.PrincipalScopeViolation, `"rpc_code":-32000`},
		{caged("x.write", `{"path":1}`), fault.InvalidParams, `"rpc_code":-32602`},
		{caged("x.write", `{"path":"../a"}`), fault.InvalidParams, `"rpc_code":-32602`},
		{caged("x.write", `{"path":"a"}`), fault.CapabilityDenied, `"rpc_code":-32001`},
		{caged("w", `{"path":"a"}`), fault.InvalidParams, `"rpc_code":-32602`},
	} {
		out, err := d.Dispatch(t.Context(), c.call)
		if err != nil || !errors.Is(out.Fault, c.code) || !out.Result.IsError ||
			!strings.Contains(out.Result.Content, c.rpc) ||
			out.Acted {
			t.Errorf("%s %s: %v, %v, %s", c.call.Name, c.call.Input, out.Fault, err, out.Result.Content)
		}
	}
	off := newCall(t, root, "x.write", `{"path":"a"}`)
	off.From.Tools = nil
	if out, _ := d.Dispatch(t.Context(), off); !errors.Is(out.Fault, fault.ToolNotFound) || out.Tool != "" {
		t.Errorf("a tool that is not enabled: %+v", out)
	}
}

// All four kinds of requirement are enforced with a cage, and none without (T-REG-03, T-PERM-02, -05..07,
// H-TOOL-RES-03).
func TestEveryRequirementIsEnforced(t *testing.T) {
	t.Parallel()
	d, root := newDispatcher(t, echo), t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, denied := range map[string]struct {
		code     fault.Code
		required string
		cage     dsl.Cage
	}{
		"x.write": {fault.CapabilityDenied, "rw:fs:./src/a", dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "./"}}}},
		"x.trace": {fault.SeccompInsufficient, "seccomp:relaxed", dsl.Cage{Seccomp: "relaxed"}},
		"x.net":   {fault.CapabilityDenied, "net:example.org:443", dsl.Cage{Net: []string{"example.org:443"}}},
		"x.shell": {fault.CapabilityDenied, "capability:shell", dsl.Cage{Capabilities: []string{"shell"}}},
	} {
		for policy, allowed := range map[*dsl.Cage]bool{
			nil: true, {}: false, {FS: []dsl.Mount{{Mode: "ro", Path: "./src"}}}: false, &denied.cage: true,
		} {
			call := newCall(t, root, name, `{"path":"./src/a"}`)
			call.From.Cage = policy
			out, err := d.Dispatch(t.Context(), call)
			switch {
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case allowed && out.Fault != nil:
				t.Errorf("%s with %s: %v", name, policy.Summary(), out.Fault)
			case !allowed && (!errors.Is(out.Fault, denied.code) || out.Fault.Details["required"] != denied.required):
				t.Errorf("%s with %s: %v %v", name, policy.Summary(), out.Fault, out.Fault.Details)
			case !allowed && !slices.Equal(types(out.Records), []string{"tool.called", "tool.denied"}):
				t.Errorf("%s: records %v", name, types(out.Records))
			}
		}
	}
	call := newCall(t, root, "x.trace", `{"path":"a"}`)
	call.From.Cage = &dsl.Cage{}
	if out, _ := d.Dispatch(t.Context(), call); out.Fault.Details["detail"] != "requires relaxed, have default" {
		t.Errorf("details %v", out.Fault.Details)
	}
}

// Records name the caller, the call and its outcome, without large values and secrets (T-AUD-01..03, T-DISP-07, -08,
// -10).
func TestCallsAreRecorded(t *testing.T) {
	t.Parallel()
	d, root := newDispatcher(t, echo), t.TempDir()
	who := map[string]any{
		"request_id": "q",
		"session_id": "s",
		"run_id":     "r",
		"call_id":    "c1",
		"caller":     "primary.subagents.x",
	}
	with := func(fields map[string]any) map[string]any {
		maps.Copy(fields, who)
		return fields
	}
	run := func(name, input string, policy *dsl.Cage) []contract.Record {
		call := newCall(t, root, name, input)
		call.From.Agent, call.From.Cage = "primary.subagents.x", policy
		out, err := d.Dispatch(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range out.Records {
			if r.At == 0 || r.Agent != "primary.subagents.x" {
				t.Errorf("record %+v", r)
			}
			if ms, ok := r.Payload["duration_ms"].(int64); ok && ms < 0 {
				t.Errorf("record %+v", r)
			}
			delete(out.Records[i].Payload, "duration_ms")
		}
		return out.Records
	}
	check := func(got contract.Record, event string, fields map[string]any) {
		t.Helper()
		a, _ := json.Marshal(got.Payload)
		b, _ := json.Marshal(with(fields))
		if got.Type != event || string(a) != string(b) {
			t.Errorf("%s %s\nwant %s %s", got.Type, a, event, b)
		}
	}
	records := run("w", `{"file":"sk-abcdefghijklmnopqrstuvwx"}`, nil)
	check(
		records[0],
		"tool.called",
		map[string]any{"tool_name": "x.write", "alias": "w", "params": map[string]any{"file": "[masked]"}},
	)
	check(records[1], "tool.completed", map[string]any{"tool_name": "x.write", "alias": "w", "success": true})
	records = run("x.write", `{"path":"`+strings.Repeat("x", 101)+`","n":"3"}`, nil)
	check(
		records[0],
		"tool.called",
		map[string]any{"tool_name": "x.write", "params": map[string]any{"n": "3", "path": map[string]any{
			"redacted": true, "bytes": 101, "sha256": "c675a2e604b0cd1229c036e3ce0c87422980a245e295bbc605a507a2299752db",
		}}},
	)
	check(
		records[1],
		"tool.completed",
		map[string]any{"tool_name": "x.write", "success": false, "error_code": "invalid_params"},
	)
	records = run(
		"x.shell",
		`{"path":"a"}`,
		&dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./a"}, {Mode: "rw", Path: "/b"}}},
	)
	check(records[1], "tool.denied", map[string]any{
		"tool_name": "x.shell", "denied_capability": "capability:shell",
		"cage_summary": "fs ro ./a, rw /b; net none; seccomp default; capabilities none",
	})
	records = run("nope", `not json`, nil)
	check(records[0], "tool.called", map[string]any{"tool_name": "nope", "params": "not json"})
	check(
		records[1],
		"tool.completed",
		map[string]any{"tool_name": "nope", "success": false, "error_code": "tool_not_found"},
	)
}

// A tool's panic is a failed call and reveals no secrets (S6.2, P6).
func TestPanicIsAResult(t *testing.T) {
	t.Parallel()
	d := newDispatcher(t, func(context.Context, *tool.Call, *echoParams) (echoResult, error) { panic("secret") })
	out, err := d.Dispatch(t.Context(), newCall(t, t.TempDir(), "x.write", `{"path":"a"}`))
	if err != nil || !errors.Is(out.Fault, fault.Internal) || strings.Contains(out.Result.Content, "secret") {
		t.Errorf("%+v, %v", out, err)
	}
	if got := types(out.Records); !slices.Equal(got, []string{"tool.called", "tool.completed"}) {
		t.Errorf("records %v", got)
	}
	again := newDispatcher(t, echo)
	if out, err := again.Dispatch(t.Context(), newCall(t, t.TempDir(), "x.write", `{"path":"a"}`)); err != nil ||
		out.Fault != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

// A tool without its own limit is stopped after the configured time (T-SAFE-04, S6.4); the end of a caller does not
// count as a timeout.
func TestToolsAreBoundInTime(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, func(ctx context.Context, _ *tool.Call, _ *echoParams) (echoResult, error) {
			<-ctx.Done()
			return echoResult{}, ctx.Err()
		})
		began := time.Now()
		out, err := d.Dispatch(t.Context(), newCall(t, root, "x.slow", `{"path":"a"}`))
		if err != nil || !errors.Is(out.Fault, fault.Timeout) || time.Since(began) != 2*time.Minute {
			t.Errorf("%v, %v after %s", out.Fault, err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := d.Dispatch(ctx, newCall(t, root, "x.slow", `{"path":"a"}`)); !errors.Is(err, fault.Cancelled) {
			t.Errorf("error %v", err)
		}
	})
}

// Of two calls that change one file the second waits, and fails after five seconds (T-FM-12); files are distinguished
// by their real paths.
func TestChangesWaitForEachOther(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"f", "g"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("f", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		hold := map[string]time.Duration{"3": 3 * time.Second, "9": 9 * time.Second}
		d := newDispatcher(t, func(_ context.Context, c *tool.Call, _ *echoParams) (echoResult, error) {
			<-time.After(hold[c.ID])
			return echoResult{}, nil
		})
		start := func(id, path string) chan string {
			done := make(chan string, 1)
			call := newCall(t, root, "x.write", `{"path":"`+path+`"}`)
			call.ID = id
			go func() {
				began := time.Now()
				out, err := d.Dispatch(t.Context(), call)
				answer := "ok"
				switch {
				case err != nil:
					answer = err.Error()
				case out.Fault != nil:
					answer = out.Fault.Code.String()
				}
				done <- answer + " after " + time.Since(began).String()
			}()
			synctest.Wait()
			return done
		}
		first, second, other := start("3", "f"), start("0", "link"), start("0", "g")
		for _, c := range []struct {
			done chan string
			want string
		}{{other, "ok after 0s"}, {first, "ok after 3s"}, {second, "ok after 3s"}} {
			if got := <-c.done; got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		}
		long, busy := start("9", "f"), start("0", "f")
		if got := <-busy; got != "file_busy after 5s" {
			t.Errorf("the second call: %s", got)
		}
		if got := <-long; got != "ok after 9s" {
			t.Errorf("the first call: %s", got)
		}
		if got := <-start("0", "f"); got != "ok after 0s" {
			t.Errorf("a later call: %s", got)
		}
	})
}

// Calls that hold several additional paths at once, in any order, do not deadlock; a path already held by the call
// costs no wait, and a failed hold holds no path.
func TestHoldingSeveralPaths(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"a", "b", "c", "own1", "own2"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	orders := map[string][]string{"own1": {"a", "b", "a", "own1"}, "own2": {"b", "c", "a"}}
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, func(ctx context.Context, c *tool.Call, _ *echoParams) (echoResult, error) {
			var list []paths.Path
			for _, name := range orders[c.ID] {
				p, err := c.Space.Resolve("path", name)
				if err != nil {
					return echoResult{}, err
				}
				list = append(list, p)
			}
			release, err := c.Hold(ctx, list...)
			if err != nil {
				return echoResult{}, err
			}
			defer release()
			<-time.After(4 * time.Second)
			return echoResult{}, nil
		})
		var done [3]chan string
		for i, id := range []string{"own1", "own2", "own1"} {
			done[i] = make(chan string, 1)
			call := newCall(t, root, "x.write", `{"path":"`+id+`"}`)
			call.ID = id
			began := time.Now()
			if i == 2 { // a third path that no other call uses: it waits for a and b only
				call.Input = json.RawMessage(`{"path":"c2"}`)
			}
			go func() {
				out, err := d.Dispatch(t.Context(), call)
				answer := "ok"
				switch {
				case err != nil:
					answer = err.Error()
				case out.Fault != nil:
					answer = out.Fault.Code.String()
				}
				done[i] <- answer + " after " + time.Since(began).String()
			}()
			synctest.Wait()
		}
		for i, want := range []string{"ok after 4s", "ok after 8s", "file_busy after 5s"} {
			if got := <-done[i]; got != want {
				t.Errorf("call %d: got %s, want %s", i, got, want)
			}
		}
	})
}

// Two tools cannot have one name.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	if _, err := dispatch.New(append(tools(echo), tools(echo)[0]), dispatch.Options{}); err == nil {
		t.Error("two tools of one name were taken")
	}
}

// BenchmarkDispatch measures the dispatcher without the tool.
func BenchmarkDispatch(b *testing.B) {
	d, root := newDispatcher(b, echo), b.TempDir()
	b.ReportAllocs()
	for b.Loop() {
		if out, err := d.Dispatch(b.Context(), newCall(b, root, "x.write", `{"path":"./src/main.go","n":3}`)); err != nil ||
			out.Fault != nil {
			b.Fatal(err, out.Fault)
		}
	}
}
