package loop

import (
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// The project's instructions follow the prompt of an agent that enables them, and of no other agent.
func TestInstructionsFollowThePrompt(t *testing.T) {
	t.Parallel()
	for name, wanted := range map[string]bool{"asked for": true, "not asked for": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, says("done"))
			b.start.Agent.AgentsMD = wanted
			b.start.Prompts[dsl.InstructionsPath] = "Run make check."
			if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
			system := strings.Join(b.model.requests[0].System, "|")
			if got := strings.Contains(system, "You are careful.|Run make check."); got != wanted {
				t.Errorf("the system prompt is %q", b.model.requests[0].System)
			}
		})
	}
}
