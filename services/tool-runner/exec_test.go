package toolrunner_test

import (
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	toolrunner "kaged.dev/services/tool-runner"
)

// A command of shell.exec runs to its end like one of shell.bash, with separate standard error, and both streams are
// shown while it runs (T-T20-EXEC-01, T-SHELL-04).
func TestExec(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("sub/x", "")
	shown, a, err := w.try(
		"shell.exec",
		p{"command": "pwd; echo $FOO; echo err >&2; cat; test -t 1 || exit 7", "cwd": "sub", "env": p{"FOO": "bar"}},
	)
	if err != nil || !a.ended(7) || a.Stdout != w.root+"/sub\nbar\n" || a.Stderr != "err\n" || a.TimedOut ||
		a.ProcessID != "" {
		t.Errorf("%v, %v", a, err)
	}
	if len(shown) != len(a.Stdout)+len(a.Stderr) || !strings.Contains(shown, "bar\n") ||
		!strings.Contains(shown, "err\n") {
		t.Errorf("shown was %q", shown)
	}
	if r := a.record("shell.executed"); r["exit_code"] != 7.0 || r["cwd"] != "./sub" || r["timeout_ms"] != 1_800_000.0 ||
		r["timed_out"] != false {
		t.Errorf("recorded is %v", r)
	}
	a = w.ask("shell.exec", p{"command": "test -t 0 && test -t 1 && printf 'a\\r\\nb' && echo err >&2", "terminal": true})
	if !a.ended(0) || a.Stdout != "a\nberr\n" || a.Stderr != "" {
		t.Errorf("on a terminal: %v", a)
	}
	// Without a terminal, output is unchanged.
	if a = w.ask("shell.exec", p{"command": `printf 'a\r\nb\377'`}); a.Stdout != "a\r\nb\uFFFD" {
		t.Errorf("through pipes: %v", a)
	}
}

// The flat name takes workdir and seconds, has its own limits, and uses its own parameter names in refusals
// (T-T20-EXEC-01, -02, -03).
func TestExecAlias(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("sub/x", "")
	for asked, want := range map[any]float64{
		nil: 1_800_000, 1: 10_000, -5: 10_000, 60: 60_000, 1 << 40: 86_400_000, 1e300: 86_400_000,
	} {
		params := p{"command": "pwd", "workdir": "./sub"}
		if asked != nil {
			params["timeout"] = asked
		}
		a := w.ask("exec", params)
		if a.Stdout != w.root+"/sub\n" || a.record("shell.executed")["timeout_ms"] != want {
			t.Errorf("%v: %v with %v", asked, a, a.record("shell.executed"))
		}
		if called := a.record("tool.called"); called["tool_name"] != "shell.exec" || called["alias"] != "exec" {
			t.Errorf("recorded is %v", called)
		}
	}
	for _, params := range []p{
		{},
		{"command": ""},
		{"command": "x", "cwd": "."},
		{"command": "x", "workdir": "../.."},
		{"command": "x", "timeout": "1"},
		{"command": strings.Repeat("x", 64<<10+1)},
		{"command": "x", "env": p{"A=B": "x"}},
		{"command": "x", "background": 1},
		{"command": "a\x00"},
	} {
		w.refuse(fault.InvalidParams, "exec", params)
	}
	if f := w.refuse(fault.InvalidParams, "exec", p{"command": "x", "workdir": "/"}); f.Details["field"] != "workdir" {
		t.Errorf("details %v", f.Details)
	}
	w.refuse(fault.InvalidParams, "shell.exec", p{"command": "x", "workdir": "."})
}

// A command that exceeds its time limit is ended with all its descendants, in the foreground and in the background,
// with exit code 137 (T-SHELL-08, T-SHELL-20, T-FM-25, S6.4).
func TestExecTimesOut(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, func(c *toolrunner.Config) { c.ExecMinTimeout = config.Duration(300 * time.Millisecond) })
	command := "sleep 300 & echo $! pid; trap '' TERM; echo $$ pid; while :; do sleep 300; done"
	a := w.ask("shell.exec", p{"command": command, "timeout": 1})
	if !a.ended(137) || !a.TimedOut || len(alive(a.Stdout)) > 0 || strings.Count(a.Stdout, "pid") != 2 {
		t.Errorf("%v, alive %v", a, alive(a.Stdout))
	}
	id := w.ask("shell.exec", p{"command": command, "timeout": 1, "background": true}).ProcessID
	a = w.end(id)
	all := w.ask("shell.process", p{"action": "poll", "process_id": id, "offset": 0})
	if !a.ended(137) || a.Reason != "timeout" || !a.TimedOut || len(alive(*all.Output)) > 0 ||
		strings.Count(*all.Output, "pid") != 2 {
		t.Errorf("%v, alive %v of %v", a, alive(*all.Output), all)
	}
}

// Of long output the beginning and the end are returned, within 100,000 characters, with a note between them
// (T-T20-EXEC-04).
func TestExecOutputIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	a := w.ask("shell.exec", p{"command": `echo first; head -c 200000 /dev/zero | tr '\0' x; echo; echo last`})
	note := "\n[output truncated \u2014 100012 of 200012 characters left out]\n"
	if n := len([]rune(a.Stdout)); n != 100_000+len([]rune(note)) || !strings.HasPrefix(a.Stdout, "first\nx") ||
		!strings.HasSuffix(a.Stdout, "x\nlast\n") ||
		!strings.Contains(a.Stdout, note) {
		t.Errorf("%d characters: %.20q ... %q", n, a.Stdout, a.Stdout[len(a.Stdout)-20:])
	}
	// Long standard output does not displace standard error.
	a = w.ask("shell.exec", p{"command": `head -c 200000 /dev/zero | tr '\0' x; echo why >&2`})
	if n := len(a.Stdout); a.Stderr != "why\n" || n > 100_000+100 {
		t.Errorf("%d characters beside %q", n, a.Stderr)
	}
	a = w.ask("shell.exec", p{"command": `head -c 200000 /dev/zero | tr '\0' x; head -c 200000 /dev/zero | tr '\0' y >&2`})
	if len(a.Stdout) > 50_100 || len(a.Stderr) > 50_100 || len(a.Stdout)+len(a.Stderr) < 100_000 {
		t.Errorf("%d and %d characters", len(a.Stdout), len(a.Stderr))
	}
}
