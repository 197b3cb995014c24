package loop

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// agentTools returns the names of the agents that a request offers.
func agentTools(req llm.Request) (names []string) {
	for _, t := range req.Tools {
		if strings.HasPrefix(t.Name, contract.AgentTool) {
			names = append(names, t.Name)
		}
	}
	return names
}

// The tree is the call graph: an agent is offered its direct children and can call no other agent, neither a sibling
// nor a deeper one. Its prompt is only its prompt file (H-SUP-01, H-SUP-TOOL-02, H-EXCL-01).
func TestAnAgentCallsItsChildrenAlone(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "smith", "Mend."), asks("c2", "helper", "Help.")), says("Done."))
	f.child(f.start.Agent, "scout", says("It is never asked."))
	smith := f.child(f.start.Agent, "smith",
		wants(asks("s1", "helper", "Help."), asks("s2", "scout", "Look.")), says("Mended."))
	f.child(smith, "helper", says("Helped."))
	f.models["scout"].answers = nil
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	for key, want := range map[string][]string{
		"": {"agent-scout", "agent-smith"}, "smith": {"agent-helper"}, "helper": nil,
	} {
		if d := cmp.Diff(want, agentTools(f.models[key].requests[0])); d != "" {
			t.Errorf("%s is offered: %s", key, d)
		}
	}
	for key, want := range map[string]string{
		"": "You are careful.", "smith": "You are smith.", "helper": "You are helper.",
	} {
		if got := f.models[key].requests[0].System; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is told %q", key, got)
		}
	}
	for key, id := range map[string]string{"": "c2", "smith": "s2"} {
		failed := false
		for _, r := range results(f.models[key].requests[1]) {
			failed = failed || r.IsError && strings.Contains(r.Content, "tool_not_found") && (key != "" || r.CallID == id)
		}
		if !failed || f.models["scout"].calls() > 0 {
			t.Errorf("%q called an agent that is not its child", key)
		}
	}
}

// In a project without children the root is offered no agents (H-SUP-CFG-01).
func TestARootAloneIsOfferedNoAgents(t *testing.T) {
	t.Parallel()
	b := newBench(t, says("Hello."))
	b.run(t.Context())
	if got := agentTools(b.model.requests[0]); len(got) > 0 {
		t.Errorf("it is offered %q", got)
	}
}
