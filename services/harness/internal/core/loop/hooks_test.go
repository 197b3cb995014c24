package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/llm"
)

// plugin is a hook that stores its calls and returns the test's answer.
type plugin struct {
	name   string
	answer func(HookCall) (*HookAnswer, error)
	calls  []HookCall
	after  int
}

func (p *plugin) Name() string { return p.name }

func (p *plugin) PreCompact(_ context.Context, call HookCall) (*HookAnswer, error) {
	p.calls = append(p.calls, call)
	if p.answer == nil {
		return nil, nil
	}
	return p.answer(call)
}

func (p *plugin) PostCompact(context.Context, HookCall) error {
	p.after++
	return nil
}

// Observers are asked in order before the strategy. Each call names the agent and has its own id. Retained messages
// are kept, injected texts follow the note, and a failing observer changes nothing. Each observer is called again
// afterwards, and the record names them (H-COMPACT-PIPE-01, H-COMPACT-PIPE-04, H-COMPACT-PIPE-05, H-HOOK-CTX-01,
// H-COMPACT-REC-05, H-COMPACT-DROP-04).
func TestObserversOfACompaction(t *testing.T) {
	t.Parallel()
	b := narrow(t, 10)
	retains := &plugin{name: "retains", answer: func(HookCall) (*HookAnswer, error) {
		return &HookAnswer{Retain: []int{0, 99}, Inject: "Remember the milk."}, nil
	}}
	fails := &plugin{name: "fails", answer: func(HookCall) (*HookAnswer, error) { return nil, errors.New("gone") }}
	quiet := &plugin{name: "quiet"}
	b.deps.Hooks = []Hook{retains, fails, quiet}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	got := b.compactions()
	var fired []string
	for _, f := range got[1].Fired {
		fired = append(fired, f.Name+" "+f.Role+" "+f.Result)
	}
	if d := cmp.Diff([]string{"retains observer retain", "fails observer error", "quiet observer null"}, fired); d != "" {
		t.Error(d)
	}
	if len(got) != 2 || len(retains.calls) != 1 || retains.after != 1 || quiet.after != 1 {
		t.Errorf("%d stages, %d calls, %d and %d after", len(got), len(retains.calls), retains.after, quiet.after)
	}
	call := retains.calls[0]
	if call.OperatorID != "operator1" || call.ProjectID != "demo" || call.AgentPath != "primary" ||
		call.SessionID != "session1" ||
		call.RequestID == "" || call.RequestID == quiet.calls[0].RequestID || call.DryRun || len(call.Units) == 0 ||
		len(call.Units[0].Messages) != 2 {
		t.Errorf("call %+v", call)
	}
	last := b.model.requests[10]
	if !slices.ContainsFunc(results(last), func(r llm.ToolResult) bool { return r.CallID == "c0" }) {
		t.Error("what the observer retains was dropped")
	}
	if note := got[1].Summary; !strings.Contains(note, "<plugin:retains>\nRemember the milk.\n</plugin:retains>") {
		t.Errorf("note %q", note)
	}
	if !slices.ContainsFunc(of[contract.Record](b.sink), func(r contract.Record) bool {
		return r.Type == "plugin.hook.failed"
	}) {
		t.Error("the failed hook is not recorded")
	}
}

// A compactor chooses the superseded messages and the text that replaces them. Drop replaces a compactor that is
// missing, fails, names protected messages, or returns no text (H-COMPACT-DEL-01..03, H-COMPACT-CFG-02,
// H-COMPACT-KEEP-03, H-COMPACT-PAIR-02).
func TestACompactor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hook   *plugin
		reason string // of the fallback, empty without one
	}{
		"chooses": {&plugin{name: "memory", answer: func(call HookCall) (*HookAnswer, error) {
			return &HookAnswer{Superseded: []int{1, 2, 3, 4}, Summary: "In short: words."}, nil
		}}, ""},
		"missing": {&plugin{name: "another"}, "does not exist or cannot compact"},
		"null":    {&plugin{name: "memory"}, "gave no result"},
		"fails": {
			&plugin{name: "memory", answer: func(HookCall) (*HookAnswer, error) { return nil, errors.New("x") }},
			"gave no result",
		},
		"outside": {&plugin{name: "memory", answer: func(HookCall) (*HookAnswer, error) {
			return &HookAnswer{Superseded: []int{1000}, Summary: "x"}, nil
		}}, "may not be superseded"},
		"no text": {&plugin{name: "memory", answer: func(HookCall) (*HookAnswer, error) {
			return &HookAnswer{Superseded: []int{1}}, nil
		}}, "returned no summary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := narrow(t, 10)
			b.deps.Hooks = []Hook{c.hook}
			b.start.Agent.Compaction = &dsl.Compaction{Strategy: contract.StrategyDelegate, DelegatePlugin: "memory"}
			if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
			got := b.compactions()
			last := got[len(got)-1]
			if last.Phase != contract.CompactionCompleted || !strings.Contains(last.Reason, c.reason) ||
				(last.Fallback == "") != (c.reason == "") {
				t.Fatalf("%+v", last)
			}
			if c.reason == "" && (got[1].Spans[0].From != 2 || c.hook.calls[0].Role != RoleCompactor ||
				!strings.Contains(got[1].Summary, "In short: words.")) {
				t.Errorf("%+v", got[1])
			}
		})
	}
}
