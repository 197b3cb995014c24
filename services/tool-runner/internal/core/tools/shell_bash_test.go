package tools_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/schema"
)

type shellResult struct {
	Stdout, Stderr string
	ExitCode       int  `json:"exit_code"`
	TimedOut       bool `json:"timed_out"`
}

// A call returns the command's output and exit code. A failing command is an answer (T-SHELL-02..04, TN-SHELL-1, -2).
func TestShellRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for command, want := range map[string]shellResult{
		"echo hello": {Stdout: "hello\n"}, "exit 42": {ExitCode: 42}, "echo a; echo b >&2": {Stdout: "a\nb\n"},
		"test -t 1 && test -t 0 && echo tty": {Stdout: "tty\n"}, "printf 'x\\r\\ny\\rz'": {Stdout: "x\ny\rz"},
		"kill -9 $$": {ExitCode: 137},
		"printf 'caf\\303'; printf '\\251 \\377'": {Stdout: "café \uFFFD"}, "cat; echo end": {Stdout: "end\n"},
		"read -r x || echo nobody": {Stdout: "nobody\n"}, "true": {},
	} {
		var r shellResult
		if b.ok("shell.bash", in{"command": command}, &r); r != want {
			t.Errorf("%s: %+v, want %+v", command, r, want)
		}
	}
}

// A call is recorded with its command and exit, secrets masked (T-AUD-24).
func TestShellIsRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("sub/x", "")
	o := b.ok("shell.bash", in{
		"command": "exit 3 # TOKEN=abcdefgh " + strings.Repeat("é", 500), "cwd": "sub", "timeout": 999_999,
	}, nil)
	r := b.record(o, "shell.executed")
	command := r["command"].(string)
	if n := len([]rune(command)); n != 200 || !strings.HasPrefix(command, "exit 3 # TOKEN=[masked] ") {
		t.Errorf("%d characters: %.40q", n, command)
	}
	if r["cwd"] != "./sub" || r["exit_code"] != 3 || r["timed_out"] != false || r["duration_ms"] == nil ||
		r["timeout_ms"] != int64(600_000) {
		t.Errorf("record %v", r)
	}
}

// cwd is a folder of the project; other paths are refused (T-SHELL-05, -06, TN-SHELL-3, -4, T-FM-24).
func TestShellWorkingFolder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("packages/daemon/x", "")
	b.link("/tmp", "out")
	var r shellResult
	if b.ok("shell.bash", in{"command": "pwd", "cwd": "./packages/daemon"}, &r); r.Stdout != b.root+"/packages/daemon\n" {
		t.Errorf("pwd says %q", r.Stdout)
	}
	if b.ok("shell.bash", in{"command": "pwd"}, &r); r.Stdout != b.root+"\n" {
		t.Errorf("pwd says %q", r.Stdout)
	}
	for _, cwd := range []string{"../../", "out", "/", "packages/daemon/x", "nope"} {
		f := b.fails(fault.InvalidParams, "shell.bash", in{"command": "pwd", "cwd": cwd})
		if f.Details["resolved"] == nil || f.Details["field"] != "cwd" {
			t.Errorf("%s: %v", cwd, f.Details)
		}
	}
	if n := len(b.shell.Specs()); n != 2 {
		t.Errorf("%d commands ran", n)
	}
}

// A command that no shell can run is refused before a shell starts (T-SHELL-01, -12, -14, TN-SHELL-8, -10, T-FM-23).
func TestShellRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint("V", i)] = ""
	}
	for _, params := range []in{
		{"command": ""},
		{"command": " \n\t"},
		{},
		{"command": strings.Repeat("x", 64<<10+1)},
		{"command": "a\x00b"},
		{"command": "x", "env": in{"": "v"}},
		{"command": "x", "env": in{"A=B": "x"}},
		{"command": "x", "env": in{"A": 1}},
		{"command": "x", "env": in{"A": "\x00"}},
		{"command": "x", "env": many},
		{"command": "x", "timeout": "1"},
		{"command": "x", "timeout": 1.5},
		{"command": "x", "shell": "zsh"},
	} {
		b.fails(fault.InvalidParams, "shell.bash", params)
	}
	if f := b.fails(fault.InvalidParams, "shell.bash", in{"command": ""}); !strings.Contains(f.Msg, "required") {
		t.Errorf("message %q", f.Msg)
	}
	if n := len(b.shell.Specs()); n != 0 {
		t.Errorf("%d commands ran", n)
	}
}

// The environment has nine variables of kaged's own environment, if set, and the call's variables, which take
// precedence; it has no other variable (T-ENV-01, -02, -04, T-SHELL-13, -15, S6.6, S6.13).
func TestShellEnvironment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env["OPENAI_API_KEY"], b.env["SECRET_X"], b.env["TZ"], b.env["LANG"] = "sk-leak", "leak", "Europe/Berlin", "C"
	var r shellResult
	b.ok("shell.bash", in{
		"command": "env; echo $FOO", "env": in{"FOO": "bar", "TZ": "UTC", "QUOTED": "${SECRET_X} $(id)"},
	}, &r)
	var names []string
	for line := range strings.Lines(r.Stdout) {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	for _, want := range []string{"TZ=UTC\n", "FOO=bar\n", "LANG=C\n", "QUOTED=${SECRET_X} $(id)\n", "\nbar\n"} {
		if !strings.Contains("\n"+r.Stdout, want) {
			t.Errorf("no %q in %q", want, r.Stdout)
		}
	}
	if strings.Contains(r.Stdout, "leak") {
		t.Errorf("a secret leaked: %q", r.Stdout)
	}
	got := slices.Sorted(maps.Keys(b.shell.Specs()[0].Env))
	if want := []string{"FOO", "HOME", "LANG", "PATH", "QUOTED", "TZ"}; !slices.Equal(got, want) {
		t.Errorf("the command was given %v, want %v (and has %v)", got, want, names)
	}
}

// A command that exceeds its time limit is ended with its children. This is an answer with exit code 137 (T-SHELL-07,
// -08, -20, TN-SHELL-5, T-FM-25, S6.4).
func TestShellTimesOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, command := range []string{"sleep 60", "trap '' TERM; echo deaf; sleep 60", "sleep 300 & wait"} {
		var r shellResult
		o := b.ok("shell.bash", in{"command": command, "timeout": 1}, &r)
		if !r.TimedOut || r.ExitCode != 137 || o.Duration < time.Second || o.Duration > 20*time.Second {
			t.Errorf("%s: %+v after %s", command, r, o.Duration)
		}
	}
}

// A requested time out of the limits becomes the nearest limit (T-SHELL-01, -09, -10, TN-SHELL-6, -7).
func TestShellTimeoutIsClamped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, asked := range []any{500, -1, 30_000, 999_999, 1e300, nil} {
		params := in{"command": "true", "timeout": asked}
		if asked == nil {
			delete(params, "timeout")
		}
		b.ok("shell.bash", params, nil)
	}
	var got []time.Duration
	for _, spec := range b.shell.Specs() {
		got = append(got, spec.Timeout)
	}
	if want := []time.Duration{
		time.Second, time.Second, 30 * time.Second, 600 * time.Second, 600 * time.Second, 120 * time.Second,
	}; !slices.Equal(got, want) {
		t.Errorf("timeouts %v, want %v", got, want)
	}
}

// Output beyond 1 MB is cut at the end of a character, with a note, while the command continues (T-SHELL-11,
// TN-SHELL-11, T-FM-26, S6.3). The alias bash keeps 200 KB (T-BI-01).
func TestShellOutputIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const marker = "\n[output truncated \u2014 1 MB limit]"
	var r shellResult
	b.ok("shell.bash", in{"command": "yes ééé | head -c 3000000; touch done; exit 7"}, &r)
	if n := len(r.Stdout) - len(marker); n > 1<<20 || n < 1<<20-4 || !strings.HasSuffix(r.Stdout, marker) ||
		r.ExitCode != 7 {
		t.Errorf("%d bytes, exit %d, end in %q", n, r.ExitCode, r.Stdout[len(r.Stdout)-60:])
	}
	if strings.ContainsRune(r.Stdout, '\uFFFD') || b.content("done") != "" {
		t.Error("a character was cut, or the command was")
	}
	if b.emitted.String() != r.Stdout {
		t.Errorf("%d bytes were shown while it ran", b.emitted.Len())
	}
	b.ok("bash", in{"command": "yes | head -c 300000"}, &r)
	if want := "\n[output truncated \u2014 200 KB limit]"; len(r.Stdout) != 200<<10+len(want) ||
		!strings.HasSuffix(r.Stdout, want) {
		t.Errorf("%d bytes, end in %q", len(r.Stdout), r.Stdout[len(r.Stdout)-60:])
	}
}

// Cancelling the call ends the command (S5.8).
func TestShellIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.onEmit = cancel
	began := time.Now()
	o, err := b.do(ctx, "shell.bash", in{"command": "echo started; sleep 60"})
	if !errors.Is(err, fault.Cancelled) || !o.Acted || time.Since(began) > 10*time.Second {
		t.Errorf("error %v, outcome %+v", err, o)
	}
}

// A shell that cannot be started makes the tool fail; a missing executor makes the RPC fail (T-FM-27).
func TestShellCannotStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, code := range []fault.Code{fault.ShellSpawnFailed, fault.CageUnavailable, fault.Interrupted} {
		b.shell.Refuse = fault.New(code, "no: %s", os.ErrPermission)
		if f := b.fails(code, "shell.bash", in{"command": "true"}); f.Msg != "no: permission denied" {
			t.Errorf("message %q", f.Msg)
		}
	}
	b.shell.Refuse = fault.New(fault.Unavailable, "nobody there")
	if _, err := b.do(t.Context(), "shell.bash", in{"command": "true"}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("error %v", err)
	}
}

// A cage must grant both the shell and write access to the working folder (T-SHELL-18, T-AVAIL-10, T-PERM-07).
func TestShellInACage(t *testing.T) {
	t.Parallel()
	src := []dsl.Mount{{Mode: "rw", Path: "./src"}, {Mode: "ro", Path: "./doc"}}
	b := caged(t, &dsl.Cage{FS: src, Capabilities: []string{"shell"}})
	b.write("src/x", "")
	b.write("doc/x", "")
	b.ok("shell.bash", in{"command": "true", "cwd": "src"}, nil)
	if spec := b.shell.Specs()[0]; spec.Cage != b.from.Cage || spec.Root != b.root || spec.Owner.SessionID != "s" ||
		spec.Owner.RunID != "r" {
		t.Errorf("the sandbox was asked for %+v", spec)
	}
	for _, cwd := range []string{"doc", "."} {
		if f := b.fails(fault.CapabilityDenied, "shell.bash",
			in{"command": "true", "cwd": cwd}); f.Details["required"] != "rw:fs:"+cwd {
			t.Errorf("%s: %v", cwd, f.Details)
		}
	}
	b.from.Cage = &dsl.Cage{FS: src}
	if f := b.fails(fault.CapabilityDenied, "shell.bash",
		in{"command": "true", "cwd": "src"}); f.Details["required"] != "capability:shell" {
		t.Errorf("details %v", f.Details)
	}
}

// The safety check of a call receives the command before it runs, under each of the tool's names.
func TestShellTellsItsCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"shell.bash", "bash"} {
		entry := b.entry("shell.bash")
		params, err := entry.Decode(name, schema.Parse([]byte(`{"command":"rm -rf x"}`)))
		if err != nil {
			t.Fatal(err)
		}
		if got := entry.Commands(params); len(got) != 1 || got[0].Shell != "rm -rf x" || got[0].Argv != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Approval is never requested for a command that would be refused, in any mode of approval (T-CAT-04).
func TestShellRefusesBeforeItAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.system = []string{"/etc"} })
	asked := "echo x > /etc/hosts"
	for _, name := range []string{"shell.bash", "shell.exec"} {
		if o, err := b.do(t.Context(), name, in{"command": asked}); err != nil || o.Approval == nil {
			t.Fatalf("%s: %+v %v", name, o, err)
		}
		for _, params := range []in{
			{"command": asked + strings.Repeat(" x", 64<<10)},
			{"command": asked + "\x00"},
			{"command": asked, "env": map[string]string{"A=B": "1"}},
			{"command": asked, "cwd": "nowhere"},
		} {
			b.fails(fault.InvalidParams, name, params)
		}
	}
	b.fails(fault.InvalidParams, "shell.process", in{"action": "input", "input": asked + "\n"})
	b.fails(fault.InvalidParams, "shell.process", in{
		"action": "input", "process_id": "x", "input": strings.Repeat(asked+"\n", 64<<10),
	})
}
