package sessionmanager

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// An operator reads the system prompts of the root agent and of the active agents below it. A run keeps the prompts
// of its beginning; between runs the list has those of the next run (H-PROMPT-VIS-01, H-TEST-PROMPT-01).
func TestPromptsOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team()
	n := w.start("a")
	s := n.session("ada")
	begun, on := make(chan struct{}), make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "agent-writer", `{"prompt":"Write."}`))
		p.started(1, "c1", "agent-writer", `{"prompt":"Write."}`)
		wr := p.below(writer).agent("", "c1", "writer", writerPath, "Write.")
		close(begun)
		<-on
		wr.turn(1, true, text("Written."))
		wr.ended(harnessv1.Outcome_OUTCOME_COMPLETED, "Written.", writerPath, 1, nil)
		p.result(1, "c1", "agent-writer", "written")
		p.done(1)
		p.turn(2, false, text("Thanks."))
		p.complete(2)
	})
	file := filepath.Join(w.project, "prompt.md")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prompts := func() []string {
		t.Helper()
		resp, err := n.Sessions.ListSessionPrompts(as(t, "ada"), &apiv1.ListSessionPromptsRequest{SessionId: s})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, p := range resp.GetItems() {
			sum := sha256.Sum256([]byte(p.GetText()))
			if p.GetPath() != "prompt.md" || p.GetSha256() != hex.EncodeToString(sum[:]) {
				t.Errorf("the prompt of %s is %v", p.GetAgentPath(), p)
			}
			out = append(out, p.GetAgentPath()+" "+p.GetInvocationId()+" "+p.GetText())
		}
		return out
	}
	posted := n.post("ada", s, "Build it.")
	<-begun
	w.await(s, "output", "subagent.start")
	w.write("prompt.md", "Another prompt.")
	want := []string{"primary  " + string(before), writerPath + " " + writer + " " + string(before)}
	if d := cmp.Diff(want, prompts()); d != "" {
		t.Errorf("during a run: %s", d)
	}
	close(on)
	n.run("ada", s, posted.GetRunId())
	if d := cmp.Diff([]string{"primary  Another prompt."}, prompts()); d != "" {
		t.Errorf("between runs: %s", d)
	}
	_, err = n.Sessions.ListSessionPrompts(as(t, "eve"), &apiv1.ListSessionPromptsRequest{SessionId: s})
	refused(t, err, fault.NotFound)
}
