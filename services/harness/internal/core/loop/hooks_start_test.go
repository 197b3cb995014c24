package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
)

// starter is a plugin that is also a [SessionStarter].
type starter struct {
	plugin
	start func(context.Context) (string, error)
	began []HookCall
}

func (s *starter) OnSessionStart(ctx context.Context, call HookCall) (string, error) {
	s.began = append(s.began, call)
	return s.start(ctx)
}

func answers(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

// In a session's first run hooks add texts to the system prompt, in order and after the agent's own prompt. The texts
// are emitted before the first request is recorded, and the record holds them. A hook that fails, panics, returns an
// empty text or is no starter changes nothing (H-HOOK-START-02..05, H-HOOK-CTX-01, H-HOOK-SUM-01).
func TestHooksAtASessionsStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, says("done"))
	second := &starter{plugin: plugin{name: "b"}, start: answers("Second.")}
	first := &starter{plugin: plugin{name: "a"}, start: answers("First.")}
	b.deps.Hooks = []Hook{
		second, first,
		&starter{plugin: plugin{name: "fails"}, start: func(context.Context) (string, error) {
			return "x", errors.New("gone")
		}},
		&starter{plugin: plugin{name: "panics"}, start: func(context.Context) (string, error) { panic("x") }},
		&starter{plugin: plugin{name: "quiet"}, start: answers("")}, &plugin{name: "other"},
	}
	b.start.First = true
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	want := []string{"You are careful.", "<plugin:b>\nSecond.\n</plugin:b>", "<plugin:a>\nFirst.\n</plugin:a>"}
	if d := cmp.Diff(want, b.model.requests[0].System); d != "" {
		t.Error(d)
	}
	told := of[contract.SessionStarted](b.sink)
	texts := []contract.Injection{{Plugin: "b", Text: "Second."}, {Plugin: "a", Text: "First."}}
	if len(told) != 1 || !slices.Equal(told[0].Injections, texts) {
		t.Errorf("told %+v", told)
	}
	var failed []string
	for _, r := range of[contract.Record](b.sink) {
		if strings.HasPrefix(r.Type, "plugin.hook.") {
			failed = append(failed, r.Type+" "+r.Payload["plugin"].(string))
		}
	}
	if d := cmp.Diff([]string{"plugin.hook.failed fails", "plugin.hook.failed panics"}, failed); d != "" {
		t.Error(d)
	}
	call := first.began[0]
	if call.OperatorID != "operator1" || call.ProjectID != "demo" ||
		call.SessionID != "session1" || call.AgentPath != "primary" ||
		call.RequestID == "" || call.RequestID == b.start.RequestID || call.RequestID == second.began[0].RequestID {
		t.Errorf("call %+v", call)
	}
}

// A later run asks no hook and uses the texts of the first run.
func TestHooksTextsOfLaterRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, says("done"))
	hook := &starter{plugin: plugin{name: "a"}, start: answers("Again.")}
	b.deps.Hooks = []Hook{hook}
	b.start.Injections = []contract.Injection{{Plugin: "a", Text: "First."}}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	want := []string{"You are careful.", "<plugin:a>\nFirst.\n</plugin:a>"}
	if d := cmp.Diff(want, b.model.requests[0].System); d != "" || len(hook.began) != 0 {
		t.Errorf("asked %d times, %s", len(hook.began), d)
	}
}

// A hook that hangs is awaited up to the timeout and recorded, and changes nothing.
func TestAHookThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		b := newBench(t, says("done"))
		b.deps.Hooks = []Hook{&starter{plugin: plugin{name: "slow"}, start: func(context.Context) (string, error) {
			<-over // the hook ignores its context
			return "late", nil
		}}}
		b.start.First = true
		if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
			t.Fatalf("%+v", fin)
		}
		close(over)
		if n := len(b.model.requests[0].System); n != 1 {
			t.Errorf("%d parts of a system prompt", n)
		}
		if !slices.ContainsFunc(of[contract.Record](b.sink), func(r contract.Record) bool {
			return r.Type == "plugin.hook.timeout"
		}) {
			t.Error("the hook is not recorded")
		}
	})
}

// Children have no session: only the hooks of compactions are called for them (H-HOOK-SUB-01).
func TestHooksOfAgentsBelow(t *testing.T) {
	t.Parallel()
	hook := &starter{plugin: plugin{name: "a"}, start: answers("Hello.")}
	f := newFamily(t, wants(asks("c1", "scout", "Look.")), says("Done."))
	f.child(f.start.Agent, "scout", says("Looked."))
	f.deps.Hooks, f.start.First = []Hook{hook}, true
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if len(hook.began) != 1 || hook.began[0].AgentPath != "primary" {
		t.Errorf("asked for %+v", hook.began)
	}
	if d := cmp.Diff([]string{"You are scout."}, f.models["scout"].requests[0].System); d != "" {
		t.Error(d)
	}
}
