package dappool_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// program is a program for one runtime: a sum over a loop, with a call, a structure, output and an exit code.
type program struct {
	runtime, file, source string
	// add, inner and end are texts of lines: in the loop, in the function that it calls, and after the loop.
	add, inner, end string
	// condition is true at the sixth hit; expression is the sum there.
	condition, expression string
	// user is the expanded name of its structure, name a part and its value. number is the type of integers.
	user, part, name, number string
	// out is the text of the line after a step out of the function.
	out  string
	exit int32
}

var golang = program{
	runtime: "go", file: "main.go", add: "total = add", inner: "return a + b", end: "fmt.Println", condition: "i == 5",
	expression: "total + i", user: "user", part: "user.Name", name: `"Ann"`, number: "int", out: "total = add", exit: 3,
	source: `package main

import (
	"fmt"
	"os"
)

type person struct {
	Name string
	Age  int
}

func add(a, b int) int {
	return a + b
}

func main() {
	user := person{"Ann", 42}
	total := 0
	for i := 0; i < 10; i++ {
		total = add(total, i)
	}
	fmt.Println(user.Name, total)
	os.Exit(3)
}
`,
}

var python = program{
	runtime: "python", file: "main.py", add: "total = add", inner: "return a + b", end: "print(user", condition: "i == 5",
	expression: "total + i", user: "user", part: "user.name", name: "'Ann'", number: "int", out: "total = add", exit: 3,
	source: `import sys

class Person:
    def __init__(self, name, age):
        self.name = name
        self.age = age

def add(a, b):
    return a + b

def main():
    user = Person("Ann", 42)
    total = 0
    for i in range(10):
        total = add(total, i)
    print(user.name, total)
    sys.exit(3)

main()
`,
}

var clang = program{
	runtime: "c", file: "main.c", add: "total = add", inner: "return a + b", end: "printf", condition: "i == 5",
	expression: "total + i", user: "user", part: "user.name", name: `"Ann"`, number: "int", out: "total = add", exit: 3,
	source: `#include <stdio.h>

struct person {
	char name[4];
	int age;
};

int add(int a, int b) {
	return a + b;
}

int main(void) {
	struct person user = {"Ann", 42};
	int total = 0;
	for (int i = 0; i < 10; i++) {
		total = add(total, i);
	}
	printf("%s %d\n", user.name, total);
	return 3;
}
`,
}

var cplusplus = program{
	runtime: "cpp", file: "main.cpp", add: "total = add", inner: "return a + b", end: "std::printf",
	condition: "i == 5", expression: "total + i", user: "user", part: "user.age", name: "42", number: "int",
	out: "total = add", exit: 3,
	source: `#include <cstdio>
#include <string>

struct Person {
	std::string name;
	int age;
};

static int add(int a, int b) {
	return a + b;
}

int main() {
	Person user{"Ann", 42};
	int total = 0;
	for (int i = 0; i < 10; i++) {
		total = add(total, i);
	}
	std::printf("%s %d\n", user.name.c_str(), total);
	return 3;
}
`,
}

var rust = program{
	runtime: "rust", file: "main.rs", add: "total = add", inner: "a + b", end: "println!", condition: "i == 5",
	expression: "total + i", user: "user", part: "user.age", name: "42", number: "int", out: "total = add", exit: 3,
	source: `struct Person {
    name: &'static str,
    age: i32,
}

#[inline(never)]
fn add(a: i32, b: i32) -> i32 {
    a + b
}

fn main() {
    let user = Person { name: "Ann", age: 42 };
    let mut total: i32 = 0;
    let mut i: i32 = 0;
    while i < 10 {
        total = add(total, i);
        i += 1;
    }
    println!("{} {}", user.name, total);
    std::process::exit(user.age - 39);
}
`,
}

var javascript = program{
	runtime: "node", file: "main.js", add: "total = add", inner: "return a + b", end: "console.log",
	condition: "i === 5", expression: "total + i", user: "user", part: "user.name", name: `"Ann"`, number: "number",
	out:  "for (let i", // V8 continues to the next statement
	exit: 3,
	source: `class Person {
	constructor(name, age) {
		this.name = name;
		this.age = age;
	}
}

function add(a, b) {
	return a + b;
}

function main() {
	const user = new Person("Ann", 42);
	let total = 0;
	for (let i = 0; i < 10; i++) {
		total = add(total, i);
	}
	console.log(user.name, total);
	process.exit(3);
}

main();
`,
}

var typescript = program{
	runtime: "bun", file: "main.ts", add: "total = add", inner: "return a + b", end: "console.log",
	condition: "i === 5", expression: "total + i", user: "user", part: "user.name", name: `"Ann"`, number: "number",
	out:  "for (let i", // as V8 does
	exit: 3,
	source: `interface Person {
	name: string
	age: number
}

function add(a: number, b: number): number {
	return a + b
}

function main() {
	const user: Person = { name: "Ann", age: 42 }
	let total = 0
	for (let i = 0; i < 10; i++) {
		total = add(total, i)
	}
	console.log(user.name, total)
	process.exit(3)
}

main()
`,
}

// each runs a test without a cage and in a relaxed cage.
func each(t *testing.T, test func(b *bench)) {
	t.Parallel()
	t.Run("uncaged", func(t *testing.T) { test(serve(t)) })
	t.Run("relaxed", func(t *testing.T) { test(serve(t).caged("relaxed")) })
}

// T-DBG-LAUNCH-02, T-DBG-BP-01..04, T-DBG-STEP-01, T-DBG-CONT-01/02, T-DBG-STACK-01, T-DBG-VARS-01..04,
// T-DBG-EVAL-01, T-DBG-SEC-01, -02, T-DBG-CFG-07, T-AVAIL-08: a Go program is debugged from its first line to its exit
// code.
func TestGo(t *testing.T) {
	each(t, func(b *bench) {
		b.write("go.mod", "module example.com/p\n\ngo 1.24\n")
		path := b.write(golang.file, golang.source)
		b.must("go", b.root, func(r *dappoolv1.StartRequest) { r.Folder = true })
		b.roundTrip(golang, path)
	})
}

// T-DBG-CFG-06, T-AVAIL-07: a Python program is debugged in the same way, also in a cage with the usual filter, because
// its adapter traces no processes.
func TestPython(t *testing.T) {
	if err := exec.Command("/usr/bin/python3", "-c", "import debugpy").Run(); err != nil {
		t.Fatal("debugpy is missing; scripts/setup.sh test installs it")
	}
	test := func(b *bench) {
		path := b.write(python.file, python.source)
		b.must("python", path, nil)
		b.roundTrip(python, path)
	}
	each(t, test)
	t.Run("default", func(t *testing.T) { test(serve(t).caged("default")) })
}

// C, C++ and Rust programs are debugged in the same way, with lldb-dap.
func TestLLDB(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		program
		compiler []string
	}{
		{clang, []string{"gcc", "-g", "-O0"}},
		{cplusplus, []string{"g++", "-g", "-O0"}},
		{rust, []string{"rustc", "-g", "--edition=2021"}},
	} {
		t.Run(x.runtime, func(t *testing.T) {
			each(t, func(b *bench) {
				path := b.write(x.file, x.source)
				built := filepath.Join(b.root, "main")
				argv := append(slices.Clone(x.compiler), "-o", built, path)
				if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				b.must(x.runtime, built, nil)
				b.roundTrip(x.program, path)
			})
		})
	}
}

// The machine code of a Go program can be read, and a breakpoint set at an instruction (T-DBG-EXT-01, -02, -09).
func TestInstructions(t *testing.T) {
	each(t, func(b *bench) {
		b.write("go.mod", "module example.com/p\n\ngo 1.24\n")
		path := b.write(golang.file, golang.source)
		b.must("go", b.root, func(r *dappoolv1.StartRequest) { r.Folder = true })
		b.at(path, golang.add, nil)
		at := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState().GetLocation()
		code := b.do(dappoolv1.Action_ACTION_DISASSEMBLE, func(r *dappoolv1.ActRequest) {
			r.MemoryReference, r.Count = at.GetInstructionReference(), 4
		}).GetInstructions()
		if len(code) != 4 || code[0].GetInstruction() == "" || code[1].GetAddress() == "" {
			b.t.Fatalf("at %v the code is %v", at, code)
		}
		reference := func(r *dappoolv1.ActRequest) { r.InstructionReference = code[1].GetAddress() }
		b.do(dappoolv1.Action_ACTION_SET_INSTRUCTION_BREAKPOINT, reference)
		next := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState().GetLocation()
		if next.GetInstructionReference() != code[1].GetAddress() {
			b.t.Errorf("it stops at %v, want %s", next, code[1].GetAddress())
		}
		b.do(dappoolv1.Action_ACTION_REMOVE_INSTRUCTION_BREAKPOINT, reference)
		b.do(dappoolv1.Action_ACTION_DISCONNECT, nil)
	})
}

// T-DBG-VARS-01, T-DBG-EXT-08: variables of a Go package are read on request, and are not among those of a function.
func TestGlobals(t *testing.T) {
	t.Parallel()
	b := serve(t)
	b.write("go.mod", "module example.com/p\n\ngo 1.24\n")
	path := b.write("main.go", "package main\n\nvar limit = 7\n\nfunc main() {\n\tn := limit + 1\n\tprintln(n)\n}\n")
	b.must("go", b.root, func(r *dappoolv1.StartRequest) { r.Folder = true })
	b.at(path, "println", nil)
	b.do(dappoolv1.Action_ACTION_CONTINUE, nil)
	for scope, want := range map[string]string{"local": "n=8", "global": "limit=7"} {
		var got []string
		res := b.do(dappoolv1.Action_ACTION_VARIABLES, func(r *dappoolv1.ActRequest) { r.Scope = scope })
		for _, v := range res.GetVariables() {
			got = append(got, v.GetName()+"="+v.GetValue())
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, want %s", scope, got, want)
		}
	}
	var scopes []string
	for _, x := range b.do(dappoolv1.Action_ACTION_SCOPES, nil).GetScopes() {
		scopes = append(scopes, x.GetName())
	}
	if len(scopes) != 2 {
		t.Errorf("the scopes are %q", scopes)
	}
	b.do(dappoolv1.Action_ACTION_DISCONNECT, nil)
}

// T-DBG-CFG-05, T-AVAIL-08: a JavaScript program is debugged over Node's own inspector, also in a cage with the usual
// filter.
func TestNode(t *testing.T) {
	test := func(b *bench) {
		path := b.write(javascript.file, javascript.source)
		b.must("node", path, nil)
		b.roundTrip(javascript, path)
	}
	each(t, test)
	t.Run("default", func(t *testing.T) { test(serve(t).caged("default")) })
}

// T-DBG-CFG-04, T-DBG-SEC-05: a TypeScript program is debugged over bun's own inspector, also in a cage with the usual
// filter.
func TestBun(t *testing.T) {
	test := func(b *bench) {
		path := b.write(typescript.file, typescript.source)
		b.must("bun", path, nil)
		b.roundTrip(typescript, path)
	}
	each(t, test)
	t.Run("default", func(t *testing.T) { test(serve(t).caged("default")) })
}

// roundTrip debugs a program that is stopped at its entry.
func (b *bench) roundTrip(p program, path string) {
	t := b.t
	pid := b.adapter()
	fifth := b.at(path, p.add, func(r *dappoolv1.ActRequest) { r.Condition = p.condition })
	if !fifth.GetVerified() || fifth.GetActualLine() != b.line(path, p.add) {
		t.Errorf("the breakpoint is %v", fifth)
	}
	res := b.do(dappoolv1.Action_ACTION_CONTINUE, nil)
	state := res.GetState()
	if state.GetStatus() != "stopped" || state.GetStoppedReason() != "breakpoint" ||
		state.GetBreakpointId() != fifth.GetId() || state.GetLocation().GetPath() != path ||
		state.GetLocation().GetLine() != fifth.GetActualLine() {
		t.Errorf("it stops as %v", state)
	}
	if events := recorded(res.GetRecords()); !strings.Contains(events, "debug.breakpoint_hit") {
		t.Errorf("records %q", events)
	}
	if i, total := b.value("i"), b.value("total"); i != "5" || total != "10" {
		t.Errorf("i is %s, total %s", i, total)
	}
	result := b.do(dappoolv1.Action_ACTION_EVALUATE, func(r *dappoolv1.ActRequest) {
		r.Expression = p.expression
	}).GetResult()
	if result.GetValue() != "15" || result.GetType() != p.number {
		t.Errorf("%s is %v", p.expression, result)
	}
	b.expands(p)
	b.steps(p, path)
	b.do(dappoolv1.Action_ACTION_REMOVE_BREAKPOINT, func(r *dappoolv1.ActRequest) {
		r.Path, r.Line = path, b.line(path, p.add)
	})
	// This is the seventh hit, so the second hit from here is the ninth.
	b.at(path, p.inner, func(r *dappoolv1.ActRequest) { r.HitCount = 2 })
	if state := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState(); state.GetStatus() != "stopped" {
		t.Errorf("at the counted breakpoint: %v", state)
	}
	if b, second := b.value("b"), "8"; b != second && b != "7" {
		t.Errorf("the counted breakpoint stops at %s", b)
	}
	b.do(dappoolv1.Action_ACTION_REMOVE_BREAKPOINT, func(r *dappoolv1.ActRequest) {
		r.Path, r.Line = path, b.line(path, p.inner)
	})
	if list := b.do(dappoolv1.Action_ACTION_LIST_BREAKPOINTS, nil).GetBreakpoints(); len(list) != 0 {
		t.Errorf("breakpoints are left: %v", list)
	}
	b.at(path, p.end, func(r *dappoolv1.ActRequest) { r.LogMessage = "the total is {total}" })
	res = b.do(dappoolv1.Action_ACTION_CONTINUE, nil)
	printed := res.GetState().GetOutput().GetText()
	if res.GetState().GetStoppedReason() == "exception" { // debugpy stops if a program exits with an error
		res = b.do(dappoolv1.Action_ACTION_CONTINUE, nil)
		printed += res.GetState().GetOutput().GetText()
	}
	state = res.GetState()
	if state.GetStatus() != "exited" || state.GetExitCode() != p.exit || state.ExitCode == nil {
		t.Errorf("it ends as %v", state)
	}
	const log = "the total is 45"
	before, after, _ := strings.Cut(printed, log+"\n") // debugpy's output may interrupt a line of the program's output
	for text, in := range map[string]string{log: printed, "Ann 45": before + after} {
		if !strings.Contains(in, text) {
			t.Errorf("no %q in the output %q", text, printed)
		}
	}
	if !gone(pid) {
		t.Error("the adapter outlives the program")
	}
	if events := recorded(res.GetRecords()); !strings.Contains(events, "debug.session_ended disconnect") {
		t.Errorf("records %q", events)
	}
	// T-FM-06: the end is returned again; reading the program's state fails.
	if again := b.do(dappoolv1.Action_ACTION_STEP_OVER, nil).GetState(); again.GetStatus() != "exited" {
		t.Errorf("after the end: %v", again)
	}
	if _, err := b.act(dappoolv1.Action_ACTION_VARIABLES, nil); !errors.Is(fault.From(err), fault.DapSessionEnded) {
		t.Errorf("variables after the end: %v", err)
	}
}

// expands expands a structure.
func (b *bench) expands(p program) {
	b.t.Helper()
	expanded := b.do(dappoolv1.Action_ACTION_VARIABLES, func(r *dappoolv1.ActRequest) { r.Expand = p.user }).GetVariables()
	found := false
	for _, v := range expanded {
		found = found || v.GetName() == p.part && v.GetValue() == p.name
	}
	if !found {
		b.t.Errorf("%s is expanded to %v", p.user, expanded)
	}
	filtered := b.do(dappoolv1.Action_ACTION_VARIABLES, func(r *dappoolv1.ActRequest) { r.Filter = "tot" }).GetVariables()
	if len(filtered) != 1 || filtered[0].GetName() != "total" {
		b.t.Errorf("filtered: %v", filtered)
	}
}

// steps makes a step into the function, out of it, and over a line.
func (b *bench) steps(p program, path string) {
	b.t.Helper()
	step := func(action dappoolv1.Action, text string) {
		b.t.Helper()
		state := b.do(action, nil).GetState()
		want := b.line(path, text)
		if state.GetStatus() != "stopped" || state.GetStoppedReason() != "step" || state.GetLocation().GetLine() != want {
			b.t.Errorf("%v leads to %v, want line %d", action, state, want)
		}
	}
	for range 3 { // some adapters first stop at the line of the function
		state := b.do(dappoolv1.Action_ACTION_STEP_INTO, nil).GetState()
		if state.GetLocation().GetLine() == b.line(path, p.inner) {
			break
		}
	}
	res := b.do(dappoolv1.Action_ACTION_STACK_TRACE, func(r *dappoolv1.ActRequest) { r.Levels = 2 })
	frames := res.GetFrames()
	if len(frames) != 2 || frames[0].GetLine() != b.line(path, p.inner) || frames[1].GetLine() != b.line(path, p.add) ||
		res.GetTotal() < 2 {
		b.t.Errorf("the stack is %v of %d", frames, res.GetTotal())
	}
	step(dappoolv1.Action_ACTION_STEP_OUT, p.out)
}
