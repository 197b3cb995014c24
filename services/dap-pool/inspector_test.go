package dappool_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit"
	"kaged.dev/services/dap-pool/internal/core"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// runtimes runs a test with each runtime that has an inspector.
func runtimes(t *testing.T, test func(t *testing.T, b *bench, runtime string)) {
	t.Parallel()
	for _, runtime := range []string{"node", "bun"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			test(t, serve(t), runtime)
		})
	}
}

// expand returns the parts of a value.
func (b *bench) expand(name string) map[string]string {
	b.t.Helper()
	parts := map[string]string{}
	for _, v := range b.do(dappoolv1.Action_ACTION_VARIABLES, func(r *dappoolv1.ActRequest) {
		r.Expand = name
	}).GetVariables() {
		parts[v.GetName()] = v.GetValue()
	}
	return parts
}

// evaluate evaluates an expression.
func (b *bench) evaluate(expression, in string) (string, error) {
	res, err := b.act(dappoolv1.Action_ACTION_EVALUATE, func(r *dappoolv1.ActRequest) {
		r.Expression, r.Context = expression, in
	})
	return res.GetResult().GetValue(), err
}

const values = `class Person {
	constructor(name) { this.name = name; this.tags = ["a", "b"]; }
	get secret() { return 1; }
}
function look() {
	const person = new Person("Ann \"quoted\"");
	const list = Array.from({ length: 5000 }, (_, i) => i * 2);
	const wide = Object.fromEntries(list.map((n) => ["key-" + n, n]));
	const map = new Map([["one", { deep: [1, 2, 3] }]]);
	const text = "x".repeat(100000), none = undefined, empty = null, big = 12345678901234567890n, at = NaN;
	const self = { name: "me" }; self.self = self;
	debugger;
	return [person, list, wide, map, text, none, empty, big, at, self];
}
look();
`

// An inspector runs code for every client that knows its path, so only the debugger gets the path; other users of the
// host cannot read it at the port.
func TestInspectorPathIsASecret(t *testing.T) {
	t.Parallel()
	program := testkit.Own(t, t.TempDir()).Join("program.js")
	if err := os.WriteFile(program, []byte("setInterval(() => {}, 1000);\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, a := range core.Builtin() {
		if a.Inspector == nil {
			continue
		}
		t.Run(a.Program, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), a.Program, a.Runs(&core.Start{Program: program})...)
			stderr, err := cmd.StderrPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			at := ""
			for lines := bufio.NewScanner(stderr); at == "" && lines.Scan(); {
				_, at, _ = strings.Cut(lines.Text(), a.Listens)
			}
			address, path, ok := strings.Cut(strings.TrimSpace(at), "/")
			if !ok || path == "" {
				t.Fatalf("the runtime listens at %q, want an address and a path", at)
			}
			for _, ask := range []string{"/json", "/json/list", "/json/version", "/"} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+ask, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := http.DefaultClient.Do(request)
				if err != nil {
					continue // no answer has the path
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if strings.Contains(string(body), path) {
					t.Errorf("%s tells the path to anyone: %s", ask, body)
				}
			}
		})
	}
}

// Values of every kind are shown in the language's notation, up to the limits. Their parts are found by name.
func TestInspectorValues(t *testing.T) {
	runtimes(t, func(t *testing.T, b *bench, runtime string) {
		b.must(runtime, b.write("values.js", values), nil)
		state := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
		if state.GetStatus() != "stopped" || state.GetLocation().GetLine() != 12 {
			t.Fatalf("at the statement: %v", state)
		}
		locals := b.expand("")
		for name, part := range map[string]string{
			"person": "Person", "list": "5000", "none": "undefined", "empty": "null", "at": "NaN",
			"big": "12345678901234567890n",
		} {
			if !strings.Contains(locals[name], part) {
				t.Errorf("%s is %q, want %s in it", name, locals[name], part)
			}
		}
		if n := len(locals["text"]); n == 0 || n > 5000 {
			t.Errorf("a long text has %d bytes", n)
		}
		if got := b.expand("person")["person.name"]; got != `"Ann \"quoted\""` {
			t.Errorf("the name is %s", got)
		}
		if got := b.expand("person.tags"); got["person.tags[0]"] != `"a"` || got["person.tags[1]"] != `"b"` {
			t.Errorf("the tags are %v", got)
		}
		if got := b.expand("self.self.self.self")["self.self.self.self.name"]; got != `"me"` {
			t.Errorf("deep in a circle: %s", got)
		}
		page := b.do(dappoolv1.Action_ACTION_VARIABLES, func(r *dappoolv1.ActRequest) {
			r.Expand, r.First, r.Count = "list", 4000, 3
		})
		if v := page.GetVariables(); len(v) != 3 || v[0].GetName() != "list[4000]" || v[2].GetValue() != "8004" {
			t.Errorf("a page of the list is %v", v)
		}
		if page.GetTotal() != 5000 {
			t.Errorf("the list has %d elements", page.GetTotal())
		}
		if got := b.expand("wide"); len(got) != 100 || got[`wide["key-0"]`] != "0" {
			t.Errorf("of an object with 5000 properties there are %d, first %q", len(got), got[`wide["key-0"]`])
		}
	})
}

// In Node the context watch leaves a program unchanged; the context repl may change it. An expression that fails
// returns the reason.
func TestInspectorEvaluate(t *testing.T) {
	runtimes(t, func(t *testing.T, b *bench, runtime string) {
		b.must(runtime, b.write("main.js", "let n = 1;\nfunction f() {\n\tlet m = 2;\n\tdebugger;\n\t"+
			"return m - n + 1;\n}\nn = n * 1;\nconsole.log(f());\n"), nil)
		b.do(dappoolv1.Action_ACTION_CONTINUE, nil)
		if got, err := b.evaluate("m + n", "watch"); err != nil || got != "3" {
			t.Errorf("m + n is %s, %v", got, err)
		}
		if _, err := b.evaluate("missing.part", "watch"); err == nil || !strings.Contains(err.Error(), "missing") {
			t.Errorf("a name that is not there: %v", err)
		}
		if _, err := b.evaluate("m +", "watch"); err == nil || !strings.Contains(err.Error(), "SyntaxError") {
			t.Errorf("half an expression: %v", err)
		}
		_, err := b.evaluate("m = 5", "watch")
		if runtime == "node" && (err == nil || !strings.Contains(err.Error(), "repl")) {
			t.Errorf("a watch that changes the program: %v", err)
		}
		if got, err := b.evaluate("m = 7", "repl"); err != nil || got != "7" {
			t.Errorf("m = 7 is %s, %v", got, err)
		}
		end := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
		if end.GetStatus() != "exited" || end.GetExitCode() != 0 || end.GetOutput().GetText() != "7\n" {
			t.Errorf("it ends as %v", end)
		}
	})
}

// A program stops at an uncaught exception, and ends with its exit code.
func TestInspectorExceptions(t *testing.T) {
	runtimes(t, func(t *testing.T, b *bench, runtime string) {
		path := b.write("main.js", "function fail() {\n\tthrow new TypeError(\"no such thing\");\n}\n"+
			"try { fail(); } catch {}\nfail();\n")
		b.must(runtime, path, nil)
		state := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
		if state.GetStoppedReason() != "exception" || !strings.Contains(state.GetText(), "no such thing") ||
			state.GetLocation().GetLine() != 2 {
			t.Errorf("it stops as %v", state)
		}
		frames := b.do(dappoolv1.Action_ACTION_STACK_TRACE, func(r *dappoolv1.ActRequest) { r.Levels = 5 }).GetFrames()
		if len(frames) < 2 || frames[1].GetLine() != 5 {
			t.Errorf("not the one that is caught: %v", frames)
		}
		end := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
		printed := end.GetOutput().GetText()
		if end.GetStatus() != "exited" || end.GetExitCode() != 1 || !strings.Contains(printed, "no such thing") {
			t.Errorf("it ends as %v", end)
		}
	})
}

// A step into a function of the runtime continues to the next line of the program.
func TestInspectorStepsInto(t *testing.T) {
	runtimes(t, func(t *testing.T, b *bench, runtime string) {
		path := b.write("main.js", "function f() {\n\tconsole.log(\"one\");\n\t[3, 1].sort();\n\treturn 2;\n}\nf();\n")
		b.must(runtime, path, nil)
		b.at(path, "console.log", nil)
		b.do(dappoolv1.Action_ACTION_CONTINUE, nil)
		for _, text := range []string{"[3, 1]", "return 2"} {
			at := b.do(dappoolv1.Action_ACTION_STEP_INTO, nil).GetState().GetLocation()
			if at.GetPath() != path || at.GetLine() != b.line(path, text) {
				t.Errorf("want %s, at %v", text, at)
			}
		}
	})
}

// An endless loop can be paused, inspected and ended.
func TestInspectorPause(t *testing.T) {
	runtimes(t, func(t *testing.T, b *bench, runtime string) {
		// bun reads no request while code runs.
		path := b.write("main.js", "let n = 0;\nasync function main() {\n\twhile (true) {\n\t\tn++;\n"+
			"\t\tawait new Promise((resume) => setTimeout(resume));\n\t}\n}\nmain();\n")
		b.must(runtime, path, nil)
		pid := b.adapter()
		state := b.do(dappoolv1.Action_ACTION_CONTINUE, func(r *dappoolv1.ActRequest) { r.TimeoutMs = 1 }).GetState()
		if state.GetStatus() != "running" {
			t.Errorf("it runs as %v", state)
		}
		state = b.do(dappoolv1.Action_ACTION_PAUSE, nil).GetState()
		if state.GetStatus() != "stopped" || state.GetStoppedReason() != "pause" || state.GetLocation().GetPath() != path {
			t.Errorf("it pauses as %v", state)
		}
		if n, err := b.evaluate("n >= 0", "watch"); err != nil || n != "true" {
			t.Errorf("n >= 0 is %s, %v", n, err)
		}
		res := b.do(dappoolv1.Action_ACTION_DISCONNECT, nil)
		if !res.GetDebuggeeTerminated() || !gone(pid) {
			t.Error("the program outlives its session")
		}
	})
}

// A breakpoint in a file that is loaded later takes effect. A breakpoint with an incomplete expression as its condition
// gets an error.
func TestInspectorLaterFiles(t *testing.T) {
	runtimes(t, func(t *testing.T, b *bench, runtime string) {
		later := b.write("later file.mjs", "export function double(n) {\n\tconst twice = n * 2;\n\treturn twice;\n}\n")
		path := b.write("main.mjs", "import { double } from \"./later file.mjs\";\nconsole.log(double(21));\n")
		b.must(runtime, path, nil)
		point := b.at(later, "return twice", nil)
		wrong := b.at(path, "console.log", func(r *dappoolv1.ActRequest) { r.Condition = "1 +" })
		if wrong.GetVerified() || !strings.Contains(wrong.GetMessage(), "condition") {
			t.Errorf("a wrong condition: %v", wrong)
		}
		state := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
		if state.GetBreakpointId() != point.GetId() || state.GetLocation().GetPath() != later || b.value("twice") != "42" {
			t.Errorf("it stops as %v", state)
		}
		for _, x := range b.do(dappoolv1.Action_ACTION_LIST_BREAKPOINTS, nil).GetBreakpoints() {
			if x.GetId() == point.GetId() && !x.GetVerified() {
				t.Errorf("the breakpoint is %v", x)
			}
		}
		sources := b.do(dappoolv1.Action_ACTION_LOADED_SOURCES, func(r *dappoolv1.ActRequest) { r.Count = 1000 }).GetSources()
		if list := strings.Join(sources, "\n"); !strings.Contains(list, later) || !strings.Contains(list, path) {
			t.Errorf("the sources are %q", sources)
		}
	})
}

// For code compiled from TypeScript, Node shows breakpoints, frames and steps in the TypeScript.
func TestNodeSourceMap(t *testing.T) {
	t.Parallel()
	b := serve(t)
	source := b.write("src/total.ts", "interface Item {\n\tprice: number\n}\n\n"+
		"export function total(items: Item[]): number {\n\tlet sum = 0\n"+
		"\tfor (const item of items) {\n\t\tsum += item.price\n\t}\n\treturn sum\n}\n")
	b.write("dist/total.js", "\"use strict\";\nObject.defineProperty(exports, \"__esModule\", { value: true });\n"+
		"exports.total = total;\nfunction total(items) {\n    let sum = 0;\n    for (const item of items) {\n"+
		"        sum += item.price;\n    }\n    return sum;\n}\n//# sourceMappingURL=total.js.map\n")
	// In the format of the TypeScript compiler.
	b.write("dist/total.js.map", `{"version":3,"file":"total.js","sourceRoot":"","sources":["../src/total.ts"],`+
		`"names":[],"mappings":";;AAIA,sBAMC;AAND,SAAgB,KAAK,CAAC,KAAa;IAClC,IAAI,GAAG,GAAG,CAAC,CAAA;IACX,KAAK,MAAM,`+
		`IAAI,IAAI,KAAK,EAAE,CAAC;QAC1B,GAAG,IAAI,IAAI,CAAC,KAAK,CAAA;IAClB,CAAC;IACD,OAAO,GAAG,CAAA;AACX,CAAC"}`)
	path := b.write("main.js", "console.log(require(\"./dist/total.js\").total([{ price: 3 }, { price: 4 }]));\n")
	b.must("node", path, nil)
	point := b.at(source, "sum += item.price", func(r *dappoolv1.ActRequest) { r.Condition = "item.price === 4" })
	if point.GetVerified() {
		t.Errorf("before the script is loaded: %v", point)
	}
	state := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
	at := state.GetLocation()
	if at.GetPath() != source || at.GetLine() != b.line(source, "sum += item.price") ||
		state.GetBreakpointId() != point.GetId() {
		t.Errorf("it stops as %v", state)
	}
	if sum := b.value("sum"); sum != "3" {
		t.Errorf("the sum is %s", sum)
	}
	at = b.do(dappoolv1.Action_ACTION_STEP_OVER, nil).GetState().GetLocation()
	if at.GetPath() != source || at.GetLine() != b.line(source, "for (const item") {
		t.Errorf("a step leads to %v", at)
	}
	end := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
	if end.GetStatus() != "exited" || end.GetOutput().GetText() != "7\n" {
		t.Errorf("it ends as %v", end)
	}
}

// A program with its inspector at a port is attached to and debugged, and continues afterwards (T-DBG-ATTACH-01).
func TestInspectorAttach(t *testing.T) {
	runtimes(t, attach)
}

func attach(t *testing.T, b *bench, runtime string) {
	path := b.write("main.js", "process.stdin.on(\"data\", (text) => {\n\tconst got = String(text).trim();\n"+
		"\tconsole.log(\"got \" + got);\n\tif (got === \"end\") process.exit(4);\n});\n")
	program := exec.CommandContext(t.Context(), runtime, "--inspect=127.0.0.1:0/", path)
	if runtime == "node" {
		program.Args[1] = "--inspect=127.0.0.1:0"
	}
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := program.StderrPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	address, found := "", false
	for !found && lines.Scan() {
		_, address, found = strings.Cut(lines.Text(), "ws://")
	}
	_, text, _ := net.SplitHostPort(strings.Split(address, "/")[0])
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err, lines.Text())
	}
	begin := func(port int) (*commonv1.DebugState, error) {
		return b.start(runtime, "", func(r *dappoolv1.StartRequest) { r.Attach, r.Port = true, int32(port) })
	}
	if state, err := begin(port); err != nil || state.GetStatus() != "running" {
		t.Fatalf("attached: %v, %v", state, err)
	}
	b.at(path, "console.log", nil)
	if _, err := in.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	state := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
	if state.GetStoppedReason() != "breakpoint" || b.value("got") != `"hello"` {
		t.Errorf("it stops as %v", state)
	}
	res := b.do(dappoolv1.Action_ACTION_DISCONNECT, nil)
	if res.GetDebuggeeTerminated() {
		t.Error("the program has been ended")
	}
	printed := bufio.NewScanner(out)
	if !printed.Scan() || printed.Text() != "got hello" {
		t.Errorf("it goes on with %q", printed.Text())
	}
	if _, err := in.Write([]byte("end\n")); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := program.Wait(); program.ProcessState.ExitCode() != 4 {
		t.Errorf("it ends with %v", err)
	}
	if _, err := begin(port); err == nil || !strings.Contains(err.Error(), "--inspect=127.0.0.1:") {
		t.Errorf("attached to a program that has ended: %v", err)
	}
}

// A missing program and a program that ends at once have clear errors.
func TestInspectorBeginnings(t *testing.T) {
	runtimes(t, func(t *testing.T, b *bench, runtime string) {
		path := b.write("broken.js", "function (\n")
		state, err := b.start(runtime, path, nil)
		if err == nil && state.GetStatus() == "stopped" { // bun stops before it
			state = b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
		}
		switch {
		case err != nil:
			output, _ := json.Marshal(fault.From(err).Details)
			if !strings.Contains(string(output), "SyntaxError") {
				t.Errorf("%v: %s", err, output)
			}
		case state.GetStatus() != "exited" || state.GetExitCode() != 1:
			t.Errorf("a program that does not parse: %v", state)
		}
		if _, err := b.start(runtime, filepath.Join(b.root, "broken.js"), func(r *dappoolv1.StartRequest) {
			r.Env = b.environment(map[string]string{"PATH": "/nonexistent"})
		}); err == nil || fault.CodeOf(err) != fault.DapAdapterNotFound {
			t.Errorf("without the runtime: %v", err)
		}
	})
}
