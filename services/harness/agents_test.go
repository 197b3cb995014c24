package harness

import (
	"encoding/json"
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

// A fault of a child's provider, after a step that succeeded, is a failed result for the parent, which continues: each
// class of fault has its code, the child's finished step counts, and the model's wait for a retry ends.
func TestProviderFaultsInAChild(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault fakellm.Step
		code  string
	}{
		"it rejects the request":  {fakellm.Step{fakellm.Status(400, "bad schema")}, "provider_rejected"},
		"it refuses the key":      {fakellm.Step{fakellm.Status(401, "invalid x-api-key")}, "provider_auth_failed"},
		"the request is too long": {fakellm.Step{fakellm.Status(413, "too large")}, "context_overflow"},
		"it limits requests":      {fakellm.Step{fakellm.Status(429, "slow down")}, "provider_rate_limited"},
		"it is overloaded":        {fakellm.Step{fakellm.Status(529, "Overloaded")}, "provider_rate_limited"},
		"it fails":                {fakellm.Step{fakellm.Status(500, "oops")}, "provider_unreachable"},
		"it fails in mid-answer": {
			fakellm.Step{fakellm.Say("Half"), fakellm.Error("api_error", "oops")}, "provider_bad_response",
		},
		"the connection is cut":       {fakellm.Step{fakellm.Say("Half of it"), fakellm.Cut(200)}, "provider_bad_response"},
		"the answer ends too early":   {fakellm.Step{fakellm.Say("Half of it"), fakellm.End(200)}, "provider_bad_response"},
		"the answer is no event":      {fakellm.Step{fakellm.Garbage()}, "provider_bad_response"},
		"the call has broken input":   {fakellm.Step{fakellm.Tool("file.read", `{"path":`)}, ""},
		"the call is of another tool": {fakellm.Step{fakellm.Tool("no.such", `{}`)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			start, scout := r.withScout("anthropic")
			r.model.Handle(func(req *fakellm.Request) fakellm.Step {
				if req.Turns() == 0 {
					return fakellm.Step{fakellm.Tool("agent-scout", `{"prompt":"Look at a."}`)}
				}
				return fakellm.Step{fakellm.Say("Done.")}
			})
			scout.Handle(func(req *fakellm.Request) fakellm.Step {
				switch req.Turns() {
				case 0:
					return fakellm.Step{fakellm.Tool("file.read", `{"path":"a"}`)}
				case 1:
					return tt.fault
				}
				return fakellm.Step{fakellm.Say("It says a.")}
			})
			w := r.begin(t.Context(), start)
			if fin := w.finish(t); fin.GetOutcome() != harnessv1.Outcome_OUTCOME_COMPLETED || fin.GetSteps() != 2 {
				t.Fatalf("the run ended with %v", fin)
			}
			requests := r.model.Requests()
			results := requests[len(requests)-1].Results()
			var got struct {
				Outcome string
				Steps   int
				Error   struct{ Code, Message string }
			}
			if len(results) != 1 || json.Unmarshal([]byte(results[0].Content), &got) != nil {
				t.Fatalf("the parent reads %+v", results)
			}
			if tt.code == "" { // the child reads the fault of its own call
				if results[0].IsError || got.Outcome != "completed" || got.Steps != 3 {
					t.Errorf("the parent reads %s", results[0].Content)
				}
				return
			}
			if !results[0].IsError || got.Outcome != "failed" || got.Steps != 1 || got.Error.Code != tt.code ||
				got.Error.Message == "" {
				t.Errorf("the parent reads %s, want %s after one step", results[0].Content, tt.code)
			}
		})
	}
}
