package toolrunner_test

import (
	"fmt"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// The specification's statements on shell.bash, row by row, on the real supervisor.
func TestBashToTheLetter(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("packages/daemon/x", "")
	for _, c := range []struct {
		row    string
		params p
		stdout string
		code   int
	}{
		{"T-SHELL-02, TN-SHELL-1", p{"command": "echo hello"}, "hello\n", 0},
		{"T-SHELL-03", p{"command": "echo a; echo b >&2; echo c"}, "a\nb\nc\n", 0},
		{"T-SHELL-04, TN-SHELL-2", p{"command": "exit 42"}, "", 42},
		{"T-SHELL-05, TN-SHELL-3", p{"command": "pwd", "cwd": "./packages/daemon"}, w.root + "/packages/daemon\n", 0},
		{"T-SHELL-09, TN-SHELL-6", p{"command": "sleep 0.8; echo done", "timeout": 500}, "done\n", 0},
		{
			"T-SHELL-13, TN-SHELL-9",
			p{"command": "echo $FOO $PATH", "env": p{"FOO": "bar", "PATH": "/usr/bin:/bin"}},
			"bar /usr/bin:/bin\n", 0,
		},
		{"T-SHELL-16", p{"command": "test -t 0 && test -t 1 && test -t 2 && echo tty"}, "tty\n", 0},
		{"a signal of its own", p{"command": "kill -TERM $$"}, "", 143},
		{"nobody answers", p{"command": "read x || echo nobody"}, "nobody\n", 0},
	} {
		a := w.ask("shell.bash", c.params)
		if a.Stdout != c.stdout || a.Stderr != "" || a.ExitCode == nil || *a.ExitCode != c.code || a.TimedOut {
			t.Errorf("%s: %v", c.row, a)
		}
	}
	many := p{}
	for i := range 65 {
		many[fmt.Sprint("V", i)] = ""
	}
	for row, params := range map[string]p{
		"T-SHELL-01 length":         {"command": strings.Repeat("x", 64<<10+1)},
		"T-SHELL-01 entries":        {"command": "x", "env": many},
		"T-SHELL-06, TN-SHELL-4":    {"command": "pwd", "cwd": "../../"},
		"T-SHELL-12, TN-SHELL-8":    {"command": ""},
		"T-SHELL-14, TN-SHELL-10 a": {"command": "x", "env": p{"": "val"}},
		"T-SHELL-14, TN-SHELL-10 b": {"command": "x", "env": p{"A=B": "x"}},
		"T-SHELL-14, TN-SHELL-10 c": {"command": "x", "env": p{"A": 1}},
	} {
		f := w.refuse(fault.InvalidParams, "shell.bash", params)
		if strings.HasPrefix(row, "T-SHELL-06") && f.Details["resolved"] == nil {
			t.Errorf("%s: %v", row, f.Details)
		}
	}
	// T-SHELL-10, TN-SHELL-7: a requested time is moved into its bounds, and recorded as it was.
	for asked, want := range map[int]float64{999_999: 600_000, 500: 1000, 30_000: 30_000} {
		if got := w.ask("shell.bash", p{"command": "true", "timeout": asked}).
			record("shell.executed")["timeout_ms"]; got != want {
			t.Errorf("%d ms became %v", asked, got)
		}
	}
	// T-SHELL-11, TN-SHELL-11, T-FM-26.
	a := w.ask("shell.bash", p{"command": "head -c 2000000 /dev/zero | tr '\\0' x"})
	if marker := "\n[output truncated \u2014 1 MB limit]"; !strings.HasSuffix(a.Stdout, marker) ||
		len(a.Stdout) != 1<<20+len(marker) ||
		*a.ExitCode != 0 {
		t.Errorf("%d bytes end in %q", len(a.Stdout), a.Stdout[max(0, len(a.Stdout)-40):])
	}
	// T-SHELL-19: there is one shell tool; others are missing even if they are on an agent's list.
	w.refuse(fault.ToolNotFound, "shell.python", p{"command": "1"}, func(r *toolrunnerv1.RunToolRequest) {
		r.Context.Tools = append(r.Context.Tools, "shell.python", "shell.node")
	})
}

// After a timeout no process of the command runs, however it tried to stay, and the exit code is 137 for any cause of
// death (T-SHELL-07, -08, -17, -20, TN-SHELL-5, T-FM-25). A command that exits leaves no process either.
func TestBashLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for command, timedOut := range map[string]bool{
		"echo $$ pid; sleep 60":                                            true,
		"sleep 300 & echo $! pid; wait":                                    true,
		"trap '' TERM HUP; echo $$ pid; while :; do sleep 60; done":        true,
		"(trap '' TERM HUP; setsid sh -c 'echo $$ pid; sleep 300') & wait": true,
		"sleep 300 & echo $! pid; exit 0":                                  false,
		"nohup setsid sleep 300 >/dev/null 2>&1 & echo $! pid":             false,
	} {
		a := w.ask("shell.bash", p{"command": command, "timeout": 1000})
		if a.TimedOut != timedOut || (*a.ExitCode == 137) != timedOut || strings.Count(a.Stdout, "pid") != 1 {
			t.Errorf("%s: %v", command, a)
		}
		if left := alive(a.Stdout); len(left) > 0 {
			t.Errorf("%s: alive are %v", command, left)
		}
	}
}
