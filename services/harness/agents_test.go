package harness

import (
	"strings"
	"testing"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/testkit/fakellm"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// withScout returns a start whose root agent has a child with its own provider.
func (r *rig) withScout(driver string) (*harnessv1.RunStart, *fakellm.Server) {
	r.t.Helper()
	start, model := r.start(driver), fakellm.Start(r.t)
	target := model.Target(driver)
	start.Compiled.Root.Children = []*harnessv1.AgentNode{(&compile.Agent{
		Key: "scout", Path: "primary.subagents.scout", Model: "fast", PromptPath: "s.md", Description: "Looks.",
		Tools: []string{"file.read"},
	}).Proto()}
	start.Prompts["s.md"] = "You look."
	start.Routes["fast"] = &harnessv1.Route{Alias: "fast", Targets: []*harnessv1.Target{{
		Provider: target.Provider, Model: target.Model, Driver: driver, ApiKey: target.APIKey, BaseUrl: target.BaseURL,
	}}}
	return start, model
}

// An agent calls its child through each wire format. The child's events carry its invocation id, and its steps are
// answered like the root's.
func TestAgents(t *testing.T) {
	for _, driver := range []string{"anthropic", "openai", "openai-chat"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			start, scout := r.withScout(driver)
			r.model.Script(fakellm.Steps(
				fakellm.Step{fakellm.GotTool("agent-scout"), fakellm.Tool("agent-scout", `{"prompt":"Look at a."}`)},
				fakellm.Step{fakellm.GotResult(`"outcome":"completed","text":"It says a."`), fakellm.Say("Done.")},
			))
			scout.Script(fakellm.Steps(
				fakellm.Step{fakellm.GotSystem("You look."), fakellm.Tool("file.read", `{"path":"a"}`)},
				fakellm.Step{fakellm.GotResult(`read {"path":"a"}`), fakellm.Say("It says a.")},
			))
			w := r.begin(t.Context(), start)
			if fin := w.finish(t); fin.GetOutcome() != harnessv1.Outcome_OUTCOME_COMPLETED || fin.GetSteps() != 2 {
				t.Errorf("%v", fin)
			}
			const want = "MessageStart Turn ToolCall AgentStarted MessageStart Turn ToolCall ToolOutput ToolResult StepDone " +
				"Turn AgentEnded ToolResult StepDone Turn Finished"
			if got := strings.ReplaceAll(w.story(), " delta", ""); got != want {
				t.Errorf("story is %s", got)
			}
			id, between := "", false
			for _, ev := range w.events {
				if ev.GetAgentStarted() != nil {
					id, between = ev.GetInvocationId(), true
				}
				if got := ev.GetInvocationId(); between && got != id || !between && got != "" || between && got == "" {
					t.Errorf("%T is of the invocation %q, want %q", ev.GetEvent(), got, id)
				}
				between = between && ev.GetAgentEnded() == nil
			}
		})
	}
}

// The caller can cancel an invocation, and the run continues without it.
func TestCancelInvocation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start, scout := r.withScout("anthropic")
	r.model.Script(fakellm.Steps(
		fakellm.Step{fakellm.Tool("agent-scout", `{"prompt":"Look at a."}`)},
		fakellm.Step{fakellm.GotError(`"outcome":"cancelled"`), fakellm.Say("Then not.")},
	))
	scout.Script(fakellm.Steps(fakellm.Step{fakellm.Say("Half"), fakellm.Hang()}))
	w := r.begin(t.Context(), start)
	ev := w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetDelta() != nil })
	err := w.stream.Send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_CancelInvocation{
		CancelInvocation: &harnessv1.CancelInvocation{InvocationId: ev.GetInvocationId(), Reason: "enough"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ended := w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetAgentEnded() != nil }).GetAgentEnded()
	text := ended.GetText()
	if ended.GetOutcome() != harnessv1.Outcome_OUTCOME_CANCELLED || text == "" || !strings.HasPrefix("Half", text) {
		t.Errorf("%v", ended)
	}
	if fin := w.finish(t); fin.GetOutcome() != harnessv1.Outcome_OUTCOME_COMPLETED {
		t.Errorf("%v", fin)
	}
	if _, err := scout.WaitFinished(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

// A run that is halted for a hand-over stops at a step boundary, and none of its invocations ends.
func TestHalt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start, scout := r.withScout("anthropic")
	r.model.Script(fakellm.Steps(fakellm.Step{fakellm.Tool("agent-scout", `{"prompt":"Look at a."}`)}))
	scout.Script(fakellm.Steps(fakellm.Step{fakellm.Tool("file.read", `{"path":"a"}`)}))
	w := r.begin(t.Context(), start)
	w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetAgentStarted() != nil })
	err := w.stream.Send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Halt{Halt: &harnessv1.RunHalt{}}})
	if err != nil {
		t.Fatal(err)
	}
	fin := w.finish(t)
	if fin.GetOutcome() != harnessv1.Outcome_OUTCOME_HANDED_OVER || fin.GetError() != nil {
		t.Errorf("the run ended with %v, want it handed over", fin)
	}
	if story := w.story(); strings.Contains(story, "AgentEnded") {
		t.Errorf("an invocation ended: %s", story)
	}
}
