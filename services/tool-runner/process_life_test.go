package toolrunner_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/fault"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// A restarted tool runner finds the processes that it started, with the read offsets, and controls them as before.
func TestProcessesSurviveTheToolRunner(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	ended := w.background("echo bye; exit 9")
	w.until(ended, "bye")
	w.end(ended)
	id := w.background("echo one; cat")
	w.until(id, "one\n")
	w.ask("shell.process", p{"action": "poll", "process_id": id, "wait": 0}) // confirms the answer of the previous poll
	w.restartRunner(t)
	if a := w.status(id); a.Status != "running" || a.Command != "echo one; cat" {
		t.Errorf("after the restart: %v", a)
	}
	w.ask("shell.process", p{"action": "input", "process_id": id, "input": "two\n"})
	if got := w.until(id, "two\n"); got != "two\n" {
		t.Errorf("the next poll: %q", got)
	}
	if a := w.status(ended); !a.ended(9) {
		t.Errorf("what had ended: %v", a)
	}
	if a := w.ask("shell.process", p{"action": "kill", "process_id": id}); a.Reason != "killed" {
		t.Errorf("killed: %v", a)
	}
}

// The restart of a supervisor ends its processes. The table marks them as lost, which is recorded once. Processes that
// had ended before keep their known ends.
func TestProcessesAreLostWithTheSupervisor(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	ended := w.background("exit 9")
	w.end(ended)
	id := w.background("echo $$ pid; sleep 300")
	all := w.until(id, "pid\n")
	w.restartBox(t)
	a := w.status(id)
	if a.Status != "lost" || a.ExitCode != nil || a.Note == "" || a.EndedAt == 0 || len(alive(all)) > 0 ||
		a.record("process.lost")["process_id"] != id {
		t.Errorf("after the restart: %v, recorded %v", a, a.audit)
	}
	if a = w.ask("shell.process", p{"action": "poll", "process_id": id}); a.Status != "lost" || *a.Output != "" ||
		a.record("process.lost") != nil {
		t.Errorf("polled: %v", a)
	}
	if a = w.ask("shell.process", p{"action": "kill", "process_id": id}); a.Status != "lost" {
		t.Errorf("killed: %v", a)
	}
	if f := w.refuse(fault.ProcessEnded, "shell.process", p{
		"action": "input", "process_id": id, "input": "x",
	}); f.Details["status"] != "lost" {
		t.Errorf("input: %v", f.Details)
	}
	if a = w.status(ended); !a.ended(9) {
		t.Errorf("what had ended: %v", a)
	}
	w.restartRunner(t)
	list := w.ask("shell.process", p{"action": "list"})
	if len(list.Processes) != 2 || list.Processes[0].Status != "exited" || list.Processes[1].Status != "lost" {
		t.Errorf("listed: %v", list)
	}
}

// The end of a session ends its processes with everything they started, and the table has the reason, even after a
// restart.
func TestProcessesEndWithTheirSession(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	id := w.background("trap '' TERM; (setsid sleep 300) & echo $! pid; echo $$ pid; while :; do sleep 300; done")
	other := w.background("sleep 300", in("s2"))
	all := ""
	for strings.Count(all, "pid") < 2 {
		all += w.until(id, "pid")
	}
	// The answer has the ends of the processes, and so has a second answer: the first may be lost, perhaps with the tool
	// runner.
	for range 2 {
		resp, err := w.EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{SessionId: "s1"})
		if err != nil || len(resp.GetAudit()) != 1 {
			t.Fatalf("%v, %v", resp, err)
		}
		r, payload := resp.GetAudit()[0], resp.GetAudit()[0].GetPayload().AsMap()
		if r.GetEventType() != "shell.executed" || r.GetAgentPath() != "primary" || payload["process_id"] != id ||
			payload["exit_code"] != 137.0 ||
			!strings.HasPrefix(payload["command"].(string), "trap") ||
			payload["session_id"] != "s1" {
			t.Errorf("recorded: %v", r)
		}
		w.restartRunner(t)
	}
	if left := alive(all); len(left) > 0 {
		t.Errorf("alive are %v", left)
	}
	for range 2 {
		if a := w.status(id); !a.ended(137) || a.Reason != "session_ended" {
			t.Errorf("the ended session's: %v", a)
		}
		if a := w.ask("shell.process", p{"action": "status", "process_id": other}, in("s2")); a.Status != "running" {
			t.Errorf("the other session's: %v", a)
		}
		w.restartRunner(t)
	}
	if resp, err := w.EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{SessionId: "s1"}); err != nil ||
		len(resp.GetAudit()) > 0 {
		t.Errorf("after somebody was told: %v, %v", resp, err)
	}
}

// The same call starts one process, even if the tool runner is restarted in between.
func TestBackgroundStartsOnce(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	same := func(r *toolrunnerv1.RunToolRequest) { r.CallId = "call" }
	id := w.background("sleep 300", same)
	w.restartRunner(t)
	if again := w.background("sleep 300", same); again != id {
		t.Errorf("asked again it started %s beside %s", again, id)
	}
	if list := w.ask("shell.process", p{"action": "list"}); len(list.Processes) != 1 {
		t.Errorf("listed: %v", list)
	}
}
