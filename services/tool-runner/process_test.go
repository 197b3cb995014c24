package toolrunner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// A call that starts a background process returns at once. Other calls read its output, write its input and end it; the
// last ones return its exit (T-T20-EXEC-06, T-T20-PROC-02, -03, -04, -05).
func TestBackgroundProcess(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	started := w.ask("shell.exec", p{"command": "echo up; cat; echo done >&2; exit 3", "background": true})
	id := started.ProcessID
	if r := started.record("process.started"); r["process_id"] != id || r["cwd"] != "./" && r["cwd"] != "." {
		t.Errorf("recorded is %v", r)
	}
	if got := w.until(id, "up\n"); got != "up\n" {
		t.Errorf("the first poll: %q", got)
	}
	if a := w.ask("process", p{"action": "status", "process_id": id}); a.Status != "running" || a.ExitCode != nil ||
		*a.UnreadBytes != 0 ||
		a.Command != "echo up; cat; echo done >&2; exit 3" ||
		a.StartedAt == 0 ||
		a.EndedAt != 0 {
		t.Errorf("the status: %v", a)
	}
	if a := w.ask("process", p{"action": "input", "process_id": id, "input": "hi\n"}); a.Status != "running" {
		t.Errorf("after input: %v", a)
	}
	if got := w.until(id, "hi"); got != "hi\n" {
		t.Errorf("the next poll: %q", got)
	}
	a := w.ask("shell.process", p{"action": "poll", "process_id": id, "wait": 0})
	if *a.Output != "" || a.Offset != 6 || a.NextOffset != 6 || a.Status != "running" {
		t.Errorf("with nothing new: %v", a)
	}
	w.ask("shell.process", p{"action": "input", "process_id": id, "input": "no end of line", "eof": true})
	if a = w.end(id); !a.ended(3) || a.Reason != "" || a.EndedAt < a.StartedAt {
		t.Errorf("the end: %v", a)
	}
	if a = w.ask("shell.process", p{
		"action": "poll", "process_id": id, "offset": 3,
	}); *a.Output != "hi\nno end of linedone\n" ||
		a.Offset != 3 ||
		a.NextOffset != 25 {
		t.Errorf("read again: %v", a)
	}
	for _, params := range []p{
		{"action": "input", "process_id": id, "input": "x"}, {"action": "signal", "process_id": id, "signal": "SIGTERM"},
	} {
		if f := w.refuse(fault.ProcessEnded, "process", params); f.Details["status"] != "exited" {
			t.Errorf("details %v", f.Details)
		}
	}
	if a = w.ask("shell.process", p{"action": "kill", "process_id": id}); !a.ended(3) {
		t.Errorf("killing what has ended: %v", a)
	}
}

// The end of a background process is recorded once, by the first call that gets to know it (T-AUD-24).
func TestEndOfBackgroundIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.background("exit 5")
	a := w.end(id)
	if r := a.record("shell.executed"); r["exit_code"] != 5.0 || r["process_id"] != id || r["command"] != "exit 5" ||
		r["timed_out"] != false ||
		r["duration_ms"] == nil {
		t.Errorf("recorded is %v", r)
	}
	if a = w.status(id); !a.ended(5) || a.record("shell.executed") != nil {
		t.Errorf("recorded again: %v", a.audit)
	}
}

// A signal reaches the process, by several spellings of its name. The answer to a signal that ends the process has the
// end (T-T20-PROC-04).
func TestSignalAProcess(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for signal, code := range map[string]int{"SIGTERM": 143, "term": 143, "SIGKILL": 137, "int": 130, "sighup": 129} {
		id := w.ask("exec", p{"command": "echo up; exec sleep 300", "background": true}).ProcessID
		w.until(id, "up")
		if a := w.ask("shell.process", p{"action": "signal", "process_id": id, "signal": signal}); !a.ended(code) ||
			a.Signal == "" ||
			a.Reason != "" {
			t.Errorf("%s: %v", signal, a)
		}
	}
	id := w.background("trap 'echo told' USR1; echo up; while :; do sleep 0.01; done")
	w.until(id, "up")
	if a := w.ask("shell.process", p{"action": "signal", "process_id": id, "signal": "SIGUSR1"}); a.Status != "running" {
		t.Errorf("%v", a)
	}
	w.until(id, "told")
	w.refuse(fault.InvalidParams, "shell.process", p{"action": "signal", "process_id": id, "signal": "SIGNONE"})
	if a := w.ask("shell.process", p{"action": "kill", "process_id": id}); a.Status != "exited" || a.Reason != "killed" {
		t.Errorf("killed: %v", a)
	}
}

// A kill ends all descendants of the process, even those in other process groups.
func TestKillAProcess(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.background(
		"trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ pid; while :; do sleep 300; done') & echo $$ pid; while :; " +
			"do sleep 300; done",
	)
	all := ""
	for strings.Count(all, "pid") < 2 {
		all += w.until(id, "pid")
	}
	if a := w.ask("shell.process", p{"action": "kill", "process_id": id}); !a.ended(137) || a.Reason != "killed" ||
		len(alive(all)) > 0 {
		t.Errorf("%v, alive %v", a, alive(all))
	}
}

// A process on a terminal has an interactive terminal, with echo and with a signal for Ctrl-C.
func TestProcessOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.ask(
		"shell.exec",
		p{
			"command":    "test -t 0 && echo terminal; trap 'echo caught; exit 4' INT; while read x; do echo got $x; done",
			"background": true,
			"terminal":   true,
		},
	).ProcessID
	w.until(id, "terminal\n")
	w.ask("shell.process", p{"action": "input", "process_id": id, "input": "hi\n"})
	if got := w.until(id, "got hi\n"); got != "hi\ngot hi\n" {
		t.Errorf("the terminal shows %q", got)
	}
	w.ask("shell.process", p{"action": "input", "process_id": id, "input": "\x03"})
	if a := w.end(id); !a.ended(4) {
		t.Errorf("after Ctrl-C: %v", a)
	}
}

// A poll returns at most the last 10,000 characters, with the number of omitted characters and the offset to read them
// from as long as they are kept (T-T20-EXEC-05, T-T20-PROC-05).
func TestPollIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.background(`i=0; while [ $i -lt 5000 ]; do echo "line é $i"; i=$((i+1)); done; sleep 300`)
	total := 0
	for i := range 5000 {
		total += len(fmt.Sprintf("line é %d\n", i))
	}
	for w.status(id).unread() < int64(total) {
	}
	shown, a, err := w.try("process", p{"action": "poll", "process_id": id})
	if err != nil || len([]rune(*a.Output)) != 10_000 || !strings.HasSuffix(*a.Output, "line é 4999\n") ||
		a.NextOffset != int64(total) ||
		a.OmittedBytes != a.Offset ||
		a.Offset != int64(total-len(*a.Output)) {
		t.Errorf(
			"%d characters: %.20q from %d to %d, %d left out, %v",
			len([]rune(*a.Output)),
			*a.Output,
			a.Offset,
			a.NextOffset,
			a.OmittedBytes,
			err,
		)
	}
	if len(shown) != total {
		t.Errorf("people were shown %d of %d bytes", len(shown), total)
	}
	var all strings.Builder
	for at := int64(0); at < a.Offset; {
		page := w.ask("shell.process", p{"action": "poll", "process_id": id, "offset": at})
		if page.Offset != at || len([]rune(*page.Output)) > 10_000 || page.NextOffset <= at || page.OmittedBytes != 0 {
			t.Fatalf("from %d: %d to %d", at, page.Offset, page.NextOffset)
		}
		all.WriteString(*page.Output)
		at = page.NextOffset
	}
	if !strings.HasPrefix(all.String(), "line é 0\nline é 1\n") ||
		!strings.Contains(all.String(), "line é 3000\nline é 3001\n") {
		t.Errorf("what was left out reads %.50q", all.String())
	}
	if a = w.ask("shell.process", p{"action": "poll", "process_id": id, "wait": 0}); *a.Output != "" {
		t.Errorf("the next poll: %v", a)
	}
	// Dropped output is reported as missing.
	flood := w.background("head -c 1000000 /dev/zero | tr '\\0' x; echo end")
	for w.status(flood).Status == "running" {
	}
	a = w.ask("shell.process", p{"action": "poll", "process_id": flood, "offset": 0})
	if a.OmittedBytes != 1_000_004-256<<10 || a.Offset != a.OmittedBytes || len(*a.Output) != 10_000 {
		t.Errorf("from 0: %d left out, from %d, %d characters", a.OmittedBytes, a.Offset, len(*a.Output))
	}
	a = w.ask("shell.process", p{"action": "poll", "process_id": flood})
	if a.OmittedBytes != 1_000_004-10_000 || !strings.HasSuffix(*a.Output, "xend\n") || len(*a.Output) != 10_000 {
		t.Errorf("what is new: %d left out, %d characters", a.OmittedBytes, len(*a.Output))
	}
}

// A process with endless output is polled like any other, and can be ended.
func TestPollOfEndlessOutput(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.background("yes")
	w.until(id, "y\ny\n")
	at := int64(0)
	for range 10 {
		a := w.ask("shell.process", p{"action": "poll", "process_id": id})
		if a.Status != "running" || a.NextOffset < at || len(*a.Output) > 10_000 {
			t.Errorf("from %d: %d to %d, %d characters, %s", at, a.Offset, a.NextOffset, len(*a.Output), a.Status)
		}
		at = a.NextOffset
	}
	if a := w.ask("shell.process", p{"action": "kill", "process_id": id}); a.Reason != "killed" {
		t.Errorf("killed: %v", a)
	}
}

func (a answer) unread() int64 { return *a.UnreadBytes }

// Calls without a meaning are refused, under both names (T-T20-PROC-01, T-T20-PROC-06).
func TestProcessRefuses(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.background("sleep 300")
	for _, params := range []p{
		{},
		{"action": "status"},
		{"process_id": id},
		{"action": "restart", "process_id": id},
		{"action": "poll", "process_id": 7},
		{"action": "signal", "process_id": id},
		{"action": "input", "process_id": id},
		{"action": "input", "process_id": id, "input": strings.Repeat("x", 64<<10+1)},
		{"action": "poll"},
		{"action": "status", "process_id": id, "more": true},
	} {
		w.refuse(fault.InvalidParams, "process", params)
		w.refuse(fault.InvalidParams, "shell.process", params)
	}
	w.refuse(fault.InvalidParams, "shell.process", p{"action": "poll", "process_id": id, "offset": -1})
	for _, action := range []string{"list", "kill"} { // the flat name has the four actions of its specification
		w.refuse(fault.InvalidParams, "process", p{"action": action, "process_id": id})
	}
	for _, unknown := range []string{"x", "1", strconv.Itoa(os.Getpid()), ident.New(), strings.ToLower(id)} {
		for _, action := range []p{
			{"action": "status"},
			{"action": "poll"},
			{"action": "input", "input": "x"},
			{"action": "signal", "signal": "SIGTERM"},
		} {
			action["process_id"] = unknown
			w.refuse(fault.ProcessNotFound, "process", action)
		}
		w.refuse(fault.ProcessNotFound, "shell.process", p{"action": "kill", "process_id": unknown})
	}
}

// A process is visible only to the agent that started it and to the agents above that one, in its session: a child's
// cage may be narrower.
func TestProcessesHaveOwners(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	parent, child, sibling := by("primary"), by("primary.subagents.a"), by("primary.subagents.ab")
	root, sub := w.background("sleep 300", parent), w.background("cat", child)
	for id, who := range map[string][]func(*toolrunnerv1.RunToolRequest){
		root: {child, sibling, in("s2")}, sub: {sibling, in("s2")},
	} {
		for _, other := range who {
			for _, params := range []p{
				{"action": "status"},
				{"action": "poll"},
				{"action": "input", "input": "x"},
				{"action": "signal", "signal": "SIGKILL"},
				{"action": "kill"},
			} {
				params["process_id"] = id
				w.refuse(fault.ProcessNotFound, "shell.process", params, other)
			}
		}
	}
	for _, c := range []struct {
		who  func(*toolrunnerv1.RunToolRequest)
		want []string
	}{{parent, []string{root, sub}}, {child, []string{sub}}, {sibling, nil}, {in("s2"), nil}} {
		list := w.ask("shell.process", p{"action": "list"}, c.who)
		var got []string
		for _, e := range list.Processes {
			got = append(got, e.ProcessID)
			if e.Status != "running" || e.Cwd == "" || e.StartedAt == 0 || e.Agent == "" {
				t.Errorf("listed is %v", e)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) || list.Processes == nil {
			t.Errorf("listed are %v, want %v", got, c.want)
		}
	}
	if a := w.ask("shell.process", p{"action": "kill", "process_id": sub}, parent); a.Status != "exited" {
		t.Errorf("a parent kills: %v", a)
	}
}

// A caged agent needs the shell capability for all shell tools, and write access to the working folder of a command
// (T-SHELL-18, T-AVAIL-10).
func TestShellToolsInACage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("src/x", "")
	caged := func(mode string, capabilities ...string) func(*toolrunnerv1.RunToolRequest) {
		return func(r *toolrunnerv1.RunToolRequest) {
			r.Context.Caller = "primary.subagents.coder"
			r.Context.Cage = &commonv1.CagePolicy{
				Fs:           []*commonv1.CageMount{{Mode: mode, Path: "./src"}},
				Capabilities: capabilities,
			}
		}
	}
	exec := p{"command": "true", "cwd": "src"}
	w.refuse(fault.CapabilityDenied, "shell.exec", exec, caged("rw"))
	w.refuse(fault.CapabilityDenied, "shell.exec", exec, caged("rw", "exec"))
	w.refuse(fault.CapabilityDenied, "shell.exec", exec, caged("ro", "shell"))
	w.refuse(fault.CapabilityDenied, "shell.exec", p{"command": "true"}, caged("rw", "shell"))
	w.refuse(fault.CapabilityDenied, "shell.process", p{"action": "list"}, caged("rw"))
	if a := w.ask("shell.process", p{"action": "list"}, caged("ro", "shell")); len(a.Processes) != 0 {
		t.Errorf("%v", a)
	}
	// The command runs in the cage: it sees the granted files, and a machine without cages does not run it.
	w.write("top", "")
	_, a, err := w.try("shell.exec", p{"command": "ls ..", "cwd": "src"}, caged("rw", "shell"))
	if errors.Is(err, fault.CageUnavailable) {
		w.refuse(
			fault.CageUnavailable,
			"shell.exec",
			p{"command": "true", "cwd": "src", "background": true},
			caged("rw", "shell"),
		)
	} else if err != nil || a.Stdout != "src\n" {
		t.Errorf("beside its folder a caged command sees %q, %v", a.Stdout, err)
	}
	if a := w.ask("shell.process", p{"action": "list"}); len(a.Processes) != 0 {
		t.Errorf("what was not started is listed: %v", a)
	}
}

// A process's environment has nine variables of kaged's own environment, if set, and the variables of the call. No tool
// that runs commands passes other variables (T-ENV-01, T-ENV-02, T-ENV-04, T-SHELL-15, T-TOOLS-S6.6, T-TOOLS-S6.13).
func TestNoSecretLeaks(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-leak")
	t.Setenv("KAGED_LEAK", "leak")
	t.Setenv("TZ", "Europe/Berlin")
	w := newWorkspace(t)
	declared := p{"FOO": "bar", "TZ": "UTC", "QUOTED": "${OPENAI_API_KEY} $(id)"}
	outputs := map[string]string{
		"shell.bash": w.ask("shell.bash", p{"command": "env", "env": declared}).Stdout,
		"bash":       w.ask("bash", p{"command": "env", "env": declared}).Stdout,
		"shell.exec": w.ask("shell.exec", p{"command": "env", "env": declared}).Stdout,
		"exec":       w.ask("exec", p{"command": "env", "env": declared}).Stdout,
	}
	id := w.ask("exec", p{"command": "env; echo end", "env": declared, "background": true}).ProcessID
	outputs["background"] = w.until(id, "end\n")
	for name, output := range outputs {
		for line := range strings.Lines(output) {
			key, _, _ := strings.Cut(strings.TrimSpace(line), "=")
			if !strings.Contains(
				" PATH HOME USER LANG LC_ALL TERM SHELL TMPDIR TZ FOO QUOTED PWD OLDPWD SHLVL _ end ",
				" "+key+" ",
			) {
				t.Errorf("%s: the command has %s", name, line)
			}
		}
		for _, want := range []string{"FOO=bar\n", "TZ=UTC\n", "QUOTED=${OPENAI_API_KEY} $(id)\n"} {
			if !strings.Contains(output, want) {
				t.Errorf("%s: no %q in %q", name, want, output)
			}
		}
		if strings.Contains(output, "leak") {
			t.Errorf("%s: a secret leaked: %q", name, output)
		}
	}
}

// A waiting poll shows output to people as it arrives. It ends with the process, or at once if its caller leaves.
func TestPollWaits(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.background("read x; echo one; read x; echo two; exit 1")
	stream, err := w.RunTool(
		t.Context(),
		w.request("shell.process", fmt.Sprintf(`{"action":"poll","process_id":%q,"wait":60000}`, id)),
	)
	if err != nil {
		t.Fatal(err)
	}
	w.ask("shell.process", p{"action": "input", "process_id": id, "input": "\n"})
	event, err := stream.Recv()
	if err != nil || event.GetOutput().GetText() != "one\n" || event.GetOutput().GetStream() != "stdout" {
		t.Errorf("shown is %v, %v", event, err)
	}
	for err == nil {
		event, err = stream.Recv()
		if r := event.GetResult(); r != nil && !strings.Contains(r.GetContent(), `"output":"one\n"`) {
			t.Errorf("the answer is %s", r.GetContent())
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if stream, err = w.RunTool(
		ctx, w.request("shell.process", fmt.Sprintf(`{"action":"poll","process_id":%q,"wait":60000}`, id)),
	); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err = stream.Recv(); !errors.Is(err, fault.Cancelled) {
		t.Errorf("a caller that leaves: %v", err)
	}
	w.ask("shell.process", p{"action": "input", "process_id": id, "input": "\n"})
	if a := w.end(id); !a.ended(1) {
		t.Errorf("the end: %v", a)
	}
}

// Input to a process is checked like a command if it may be a command (T-SAFE-02, S6.5).
func TestInputIsJudged(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.background("cat")
	for _, name := range []string{"shell.process", "process"} {
		f := w.refuse(fault.CommandBlocked, name, p{"action": "input", "process_id": id, "input": "ls\n/bin/rm -rf x\n"})
		if !strings.Contains(f.Msg, "rm") {
			t.Errorf("%s: %s", name, f.Msg)
		}
		w.ask(name, p{"action": "input", "process_id": id, "input": "print(\"x\")\n"})
		w.until(id, "print(\"x\")\n")
	}
	for _, background := range []bool{false, true} {
		w.refuse(fault.CommandBlocked, "shell.exec", p{"command": "env rm x", "background": background})
		w.refuse(fault.CommandBlocked, "exec", p{"command": "env rm x", "background": background})
	}
}

// A job that runs unattended may read the state of processes; its policy must allow other actions (T-CAT-03).
func TestProcessesOfAJob(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.background("cat")
	job := func(tools ...string) func(*toolrunnerv1.RunToolRequest) {
		return func(r *toolrunnerv1.RunToolRequest) { r.Context.Job = &toolrunnerv1.JobPolicy{Tools: tools} }
	}
	for _, action := range []string{"status", "poll", "list"} {
		w.ask("shell.process", p{"action": action, "process_id": id, "wait": 0}, job())
	}
	for _, params := range []p{
		{"action": "input", "input": "x"}, {"action": "signal", "signal": "SIGTERM"}, {"action": "kill"},
	} {
		params["process_id"] = id
		w.refuse(fault.ApprovalRequired, "shell.process", params, job())
	}
	w.refuse(fault.ApprovalRequired, "shell.exec", p{"command": "true"}, job("shell.process"))
	w.ask("shell.exec", p{"command": "true"}, job("shell.exec"))
	w.ask("shell.process", p{"action": "kill", "process_id": id}, job("shell.process"))
}
