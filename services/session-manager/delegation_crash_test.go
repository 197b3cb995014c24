//go:build faults

package sessionmanager

import (
	"strings"
	"testing"

	"kaged.dev/pkg/crash"
)

// After a kill at any moment of an agent's life the next process ends its invocation once: with its outcome if that
// was stored, else as interrupted. Each invocation has one frame for its beginning and one for its end, and frames,
// rows and the run's totals agree.
func TestKilledInAnInvocation(t *testing.T) {
	t.Parallel()
	for point, want := range map[crash.Point]string{
		crash.AgentStarted: "failed", crash.ChildTurnStored: "failed", crash.ChildResultsStored: "failed",
		crash.AgentEnded: "completed",
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.team()
			w.network(t)
			first, dead := w.spawn(t, "one", crash.Variable+"="+string(point))
			s := first.session("ada")
			w.harness.expect(func(p *play) {
				p.model()
				p.turn(1, true, call("c1", "agent-writer", `{"prompt":"Write."}`))
				p.started(1, "c1", "agent-writer", `{"prompt":"Write."}`)
				wr := p.below(writer).agent("", "c1", "writer", writerPath, "Write.")
				wr.turn(1, true, text("I write."), call("w1", "file.write", `{}`))
				wr.tool(1, "w1", "file.write", `{}`, "written")
				wr.done(1)
				wr.turn(2, true, text("Written."))
				wr.ended(1, "Written.", writerPath, 2, nil)
				<-p.stream.Context().Done()
				panic(errGone)
			})
			posted := first.post("ada", s, "Go.")
			dead.died(t)
			second := w.start("one")
			run := second.run("ada", s, posted.GetRunId())
			if i := run.GetSubagentInvocations(); len(i) != 1 || i[0].GetState() != want ||
				run.GetTokensIn() != 12+i[0].GetTokensIn() {
				t.Errorf("run = %v", run)
			}
			output := w.await(s, "output", "message.end")
			if count(output, "subagent.start") != 1 || count(output, "subagent.end") != 1 {
				t.Errorf("output = %v", types(output))
			}
			for _, f := range of(output, writer) {
				if strings.HasPrefix(f, "subagent.end") && !strings.Contains(f, `"outcome":"`+want+`"`) {
					t.Errorf("the end is %s", f)
				}
			}
			messages := second.messages("ada", s)
			parts := messages[len(messages)-1].GetParts()
			if last := parts[len(parts)-1]; last.GetToolCallId() != "c1" || !strings.Contains(last.GetOutput(),
				`"outcome":"`+want+`"`) {
				t.Errorf("the call is answered with %v", last)
			}
		})
	}
}
