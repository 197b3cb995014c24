package sessionmanager

import (
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// A tool result that is shortened in answers with many results is complete if requested by its call, and has the
// call's input. If two calls have the same id the later result is returned. A missing call, run or session, and
// another operator's session, are not_found.
func TestToolResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	large := strings.Repeat("x", 3<<20)
	const steps = 5
	w.harness.expect(func(p *play) {
		p.model()
		for i := range int32(steps) {
			id := string(rune('a' + i%(steps-1))) // the last has the id of the first
			p.turn(i+1, true, call(id, "file.read", `{"path":"p"}`))
			p.tool(i+1, id, "file.read", `{"path":"p"}`, id+string(rune('0'+i))+large)
			p.done(i + 1)
		}
		p.complete(steps)
	})
	run := n.post("ada", s, "Go.").GetRunId()
	n.run("ada", s, run)
	for id, begin := range map[string]string{"a": "a4", "b": "b1"} {
		got, err := n.Sessions.GetToolResult(as(t, "ada"),
			&apiv1.GetToolResultRequest{SessionId: s, RunId: run, ToolCallId: id})
		if err != nil {
			t.Fatalf("getting the result of %s: %v", id, err)
		}
		r := got.GetResult()
		if r.GetType() != "tool_result" || r.GetToolCallId() != id || r.GetName() != "file.read" ||
			string(r.GetInput()) != `{"path":"p"}` {
			t.Errorf("got %s of %s %s with %s, want the tool result of %s", r.GetType(), r.GetName(), r.GetToolCallId(),
				r.GetInput(), id)
		}
		if r.GetOutput() != begin+large {
			t.Errorf("got %d bytes from %.2q on, want all %d of %s", len(r.GetOutput()), r.GetOutput(), len(begin+large), begin)
		}
	}
	for _, c := range []struct{ user, session, run, call string }{
		{"ada", s, run, "e"},
		{"ada", s, "01JZZZZZZZZZZZZZZZZZZZZZZZ", "a"},
		{"ada", "01JZZZZZZZZZZZZZZZZZZZZZZZ", run, "a"},
		{"eve", s, run, "a"},
	} {
		req := &apiv1.GetToolResultRequest{SessionId: c.session, RunId: c.run, ToolCallId: c.call}
		if _, err := n.Sessions.GetToolResult(as(t, c.user), req); !errors.Is(err, fault.NotFound) {
			t.Errorf("%v: got %v, want %s", c, err, fault.NotFound)
		}
	}
}
