package harnesswire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/sample"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// events has events of the stream with every field set. The test makes samples of the others.
func events() map[string]contract.Event {
	ttft := 1.5
	failure := fault.New(fault.ProviderUnreachable, "x").With("status", 500.0)
	record := contract.Record{
		Type: "tool.called", At: 12, Agent: "primary", Payload: map[string]any{"a": []any{1.0, "b", nil}},
	}
	usage := llm.Usage{Input: 1, Output: 2, Reasoning: 3, CacheRead: 4, CacheWrite: 5}
	stats := &llm.Stats{TTFT: &ttft, Duration: 2000, TPS: 3, Cost: &llm.Cost{Input: 1, Total: 1}}
	return map[string]contract.Event{
		"message_start": contract.MessageStart{Provider: "p", Model: "m", Driver: "d", StartedAt: 12},
		"delta":         contract.Delta{Thinking: true, Text: "a"},
		"tool_call":     contract.ToolStarted{Step: 1, Call: llm.ToolCall{ID: "c", Name: "n", Input: "{}"}},
		"tool_output":   contract.ToolOutput{CallID: "c", Stream: "stdout", Text: "a"},
		"tool_result": contract.ToolFinished{
			Step: 1, Input: "{}", Err: failure, Audit: []contract.Record{record},
			Result: llm.ToolResult{CallID: "c", Name: "n", Content: "x", IsError: true, DurationMS: 7},
		},
		"turn": contract.TurnDone{Wait: true, Turn: contract.Turn{
			Step: 1, Blocks: []llm.Block{{Text: &llm.Text{Text: "t"}}}, Stop: llm.StopToolUse, Usage: usage, Stats: stats,
			Provider: "p", Model: "m",
		}},
		"step_done": contract.StepDone{Step: 1},
		"audit":     record,
		"retracted": contract.Retracted{Step: 2, Reason: "It broke off.", Audit: record},
		"retry":     contract.Retry{Err: failure, Attempt: 2, DelayMS: 1000, Provider: "q", Model: "m"},
		"finished": contract.Finished{
			Outcome: contract.Failed, Stop: llm.StopAborted, Usage: usage, Stats: stats, Err: failure, ClosingText: "c",
			Partial: []llm.Block{{Text: &llm.Text{Text: "t"}}}, Steps: 2, Detail: map[string]any{"status": 500.0},
		},
		"budget_state": contract.BudgetState{
			Scope: contract.AgentBudget, Agent: "primary", Limit: contract.Amount{NanoUSD: 9, Tokens: 8, Calls: 7},
			Spent:    contract.Amount{NanoUSD: 6, Tokens: 5, Calls: 4},
			Reserved: contract.Amount{NanoUSD: 3, Tokens: 2, Calls: 1},
		},
		"compaction": contract.Compaction{
			Phase: contract.CompactionCompleted, ID: "cmp", Trigger: contract.OverflowRetry, Strategy: contract.StrategyDrop,
			Before: 9, After: 4, Window: 10, Upper: 0.85, Lower: 0.6, Turns: 2, Messages: 5, Summary: "s", Fallback: "drop",
			Reason: "r", DurationMS: 3, At: 7, Audit: record,
			Spans: []contract.Span{{MessageID: "m"}, {MessageID: "n", From: 1, To: 2}},
		},
		"call_wanted": contract.CallWanted{
			Call: 2, Agent: "primary", Model: "p:m", Amount: contract.Amount{NanoUSD: 3, Tokens: 2, Calls: 1}, Unpriced: true,
			Audit: []contract.Record{record},
		},
		"call_settled": contract.CallSettled{Call: 2, Amount: contract.Amount{Tokens: 2}, Estimated: true, OfTurn: true},
		"debug": contract.DebugEvent{ID: "dap_1", Invocation: "i", Agent: "primary", At: 5, Stop: &contract.DebugStop{
			Reason: "breakpoint", Text: "t", Thread: 2, BreakpointID: 1,
			Frames: []contract.DebugFrame{{Name: "main.main", Path: "main.go", Line: 3, Column: 1, Instruction: "0x1"}},
			Locals: []contract.DebugVariable{{Name: "n", Value: "1", Type: "int", Reference: 3, Memory: "0x2"}},
			Source: []contract.DebugLine{{Line: 3, Text: "n := 1"}},
			Moved:  &contract.DebugMove{Action: "step_over", Operator: "o", At: 4},
		}},
		"history_wanted":  contract.HistoryWanted{After: "h"},
		"session_started": contract.SessionStarted{Injections: []contract.Injection{{Plugin: "a", Text: "t"}}},
		"audit_head":      contract.AuditMoved{Head: contract.AuditHead{Hash: "h", Items: 3}},
		"approval": contract.ApprovalRequested{
			ID: "i", CallID: "c", Step: 1, Audit: []contract.Record{record},
			Subject: contract.Subject{
				Tool: "t", Agent: "primary", Reasons: []string{"r"}, Command: "c", Cwd: "./d", Paths: []string{"./p"}, Preview: "+",
			},
		},
		"cage": contract.CageChanged{
			Status: contract.Caged, Tier: "userns", BestEffort: []string{"b"}, Summary: "s", Notes: []string{"n"}, Ended: "disk",
			Found: []contract.Finding{{Kind: "name", Path: "/p", Text: "t"}}, Audit: record,
		},
		"network": contract.NetworkTried{
			Attempt: contract.Attempt{At: 5, Target: "t", Allowed: true, Rule: "r", Count: 2}, Audit: record,
		},
		"agent_started": contract.AgentStarted{
			ParentID: "p", CallID: "c", Name: "n", Prompt: "Do it.", Cage: contract.CagePending, Tools: []string{"file.read"},
			StartedAt: 5, Audit: record,
		},
		"agent_ended": contract.AgentEnded{
			Outcome: contract.Cancelled, Err: failure, Text: "t", Truncated: true, Steps: 2, Usage: usage,
			Cost: &llm.Cost{Input: 1, Total: 1}, DurationMS: 7, FilesChanged: []string{"a.go"}, EndedAt: 9, Audit: record,
		},
	}
}

// Every event of the stream has one Go type and is equal after encoding and decoding.
func TestEventsRoundTrip(t *testing.T) {
	t.Parallel()
	all := events()
	fields := (&harnessv1.RunEvent{}).ProtoReflect().Descriptor().Oneofs().ByName("event").Fields()
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := contract.Happening{InvocationID: "i", Event: all[name]}
			if want.Event == nil {
				want.Event = sampled(t, fields.Get(i))
			}
			p, err := harnesswire.Event(want)
			if err != nil {
				t.Fatal(err)
			}
			data, err := proto.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			var back harnessv1.RunEvent
			if err := proto.Unmarshal(data, &back); err != nil {
				t.Fatal(err)
			}
			if set := back.ProtoReflect().WhichOneof(fields.Get(i).ContainingOneof()); set == nil || string(set.Name()) != name {
				t.Errorf("got the message of %v, want %s", set, name)
			}
			if d := cmp.Diff(want, harnesswire.FromEvent(&back)); d != "" {
				t.Error(d)
			}
		})
	}
}

// sampled returns the event of a sample of its message. Every field of the message has a place in the event.
func sampled(t *testing.T, field protoreflect.FieldDescriptor) contract.Event {
	t.Helper()
	ev := &harnessv1.RunEvent{}
	ev.ProtoReflect().Set(field, protoreflect.ValueOfMessage(sample.Message(field.Message()).ProtoReflect()))
	e := harnesswire.FromEvent(ev)
	back, err := harnesswire.Event(e)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(ev, back, protocmp.Transform()); d != "" {
		t.Errorf("the event does not have every field of its message (-message +event):\n%s", d)
	}
	return e.Event
}

// An event unknown to this build decodes to nil and fails to encode.
func TestUnknownEvents(t *testing.T) {
	t.Parallel()
	if got := harnesswire.FromEvent(&harnessv1.RunEvent{}).Event; got != nil {
		t.Errorf("got %v, want nil", got)
	}
	if got, err := harnesswire.Event(contract.Happening{}); fault.CodeOf(err) != fault.Internal {
		t.Errorf("got %v and %v, want internal", got, err)
	}
	failed := harnesswire.FromEvent(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Finished{}}).Event
	if f, ok := failed.(contract.Finished); !ok || f.Outcome != contract.Failed || f.Stop != llm.StopError {
		t.Errorf("got %+v for an end that says nothing, want a failure", failed)
	}
}

// A record's payload that cannot be encoded as JSON is sent as text.
func TestPayloadsWithoutJSON(t *testing.T) {
	t.Parallel()
	ev, err := harnesswire.Event(contract.Happening{Event: contract.Record{Payload: map[string]any{"a": make(chan int)}}})
	if err != nil || ev.GetAudit().GetPayload().GetFields()["a"].GetStringValue() == "" {
		t.Errorf("got record %v and error %v, want the value as a text", ev, err)
	}
}

// Routes keep their targets in order, with unusable ones and the reason.
func TestRoutesRoundTrip(t *testing.T) {
	t.Parallel()
	want := map[string]contract.Route{"smart": {Alias: "smart", Targets: []contract.Target{
		{Target: llm.Target{
			Provider: "p", Model: "m", Driver: "openai", APIKey: "k", BaseURL: "u", Headers: map[string]string{"a": "b"},
			Script: []byte("s"),
		}},
		{Target: llm.Target{Provider: "q"}, Unusable: fault.New(fault.ProviderNotConfigured, "No key.")},
	}}}
	if d := cmp.Diff(want, harnesswire.FromRoutes(harnesswire.Routes(want))); d != "" {
		t.Error(d)
	}
	if got := harnesswire.Routes(nil); got != nil {
		t.Errorf("got %v for no routes, want nil", got)
	}
}

// Every verdict is equal after encoding and decoding, and an unknown one is not an approval.
func TestDecisions(t *testing.T) {
	t.Parallel()
	for _, verdict := range []contract.Verdict{contract.Approved, contract.Denied, contract.Expired} {
		want := contract.Decision{Verdict: verdict, Comment: "c"}
		if id, got := harnesswire.FromDecision(harnesswire.Decision(want, "a")); id != "a" || got != want {
			t.Errorf("got %s %+v, want a %+v", id, got, want)
		}
	}
	if _, got := harnesswire.FromDecision(&harnessv1.ApprovalDecision{Verdict: 99}); got.Verdict == contract.Approved {
		t.Error("got an approval for an unknown verdict")
	}
}
