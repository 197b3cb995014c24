package framejson_test

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/adapter/framejson"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

func render(t testing.TB, p frames.Payload) string {
	t.Helper()
	out, err := framejson.Renderer{}.Append([]byte("before"), p)
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := strings.CutPrefix(string(out), "before")
	if !ok {
		t.Fatalf("what was there is gone: %.40s", out)
	}
	return rest
}

// payloadCase is a payload with its expected channel, type and JSON.
type payloadCase struct {
	payload frames.Payload
	channel frames.Channel
	kind    string
	want    string
}

var (
	timeToFirst = 1.5
	someStats   = &llm.Stats{TTFT: &timeToFirst, Duration: 20, TPS: 50}
	someFailure = fault.New(fault.Interrupted, "It was cut off.").With("step", 2)
)

// payloadCases has at least one case of every payload but those of events that are only shown: they may have a sample
// in place of a case.
var payloadCases = []payloadCase{
	{
		frames.MessageStart{MessageID: "m", RunID: "r", Role: "primary", Provider: "p", Model: "o", StartedAt: 7},
		frames.Output, "message.start",
		`{"message_id":"m","run_id":"r","role":"primary","provider":"p","model":"o","started_at":7}`,
	},
	{
		frames.MessageStart{MessageID: "m", Rehearsal: true},
		frames.Output, "message.start",
		`{"message_id":"m","run_id":"","role":"","provider":"","model":"","rehearsal":true,"started_at":0}`,
	},
	{
		frames.ApprovalRequested{ApprovalID: "a", RunID: "r", MessageID: "m", ToolCallID: "c", Subject: contract.Subject{
			Tool: "shell.bash", Agent: "primary", Reasons: []string{"why"}, Command: "x", Cwd: "./", Paths: []string{"./p"},
			Preview: "+d",
		}, RequestedAt: 1, ExpiresAt: 2},
		frames.Events, "approval.requested",
		`{"approval_id":"a","run_id":"r","message_id":"m","tool_call_id":"c","subject":{"tool":"shell.bash",` +
			`"agent_path":"primary",` +
			`"reasons":["why"],"command":"x","cwd":"./","paths":["./p"],"preview":"+d"},"requested_at":1,"expires_at":2,` +
			`"hash":"4122f40d1ea408c7715694a44a19d808fc7f295840aac2c567d70032a0fd8e5e"}`,
	},
	{
		frames.ApprovalResolved{
			ApprovalID: "a", RunID: "r", ToolCallID: "c", State: "denied", ResolvedBy: "ada",
			Comment: "no", ResolvedAt: 3,
		},
		frames.Events, "approval.resolved",
		`{"approval_id":"a","run_id":"r","tool_call_id":"c","state":"denied","resolved_by":"ada","comment":"no",` +
			`"resolved_at":3}`,
	},
	{
		frames.ApprovalResolved{ApprovalID: "a", State: "expired"},
		frames.Events, "approval.resolved",
		`{"approval_id":"a","run_id":"","tool_call_id":"","state":"expired","resolved_by":null,"resolved_at":0}`,
	},
	{
		frames.MessageDelta{MessageID: "m", Delta: "a\n<b>"},
		frames.Output, "message.delta",
		`{"message_id":"m","delta":"a\n<b>","kind":"text"}`,
	},
	{
		frames.MessageDelta{MessageID: "m", Delta: "a", Thinking: true},
		frames.Output, "message.delta",
		`{"message_id":"m","delta":"a","kind":"thinking"}`,
	},
	{
		frames.MessageToolCall{MessageID: "m", Call: llm.ToolCall{
			ID: "c", Name: "file.read",
			Input: `{"b":1, "a":[true,null]}`,
		}},
		frames.Output, "message.tool_call",
		`{"message_id":"m","id":"c","name":"file.read","input":{"b":1,"a":[true,null]}}`,
	},
	{
		frames.MessageToolCall{MessageID: "m", Call: llm.ToolCall{ID: "c", Name: "file.read", Input: `{"b":`}},
		frames.Output, "message.tool_call",
		`{"message_id":"m","id":"c","name":"file.read","input":"{\"b\":"}`,
	},
	{
		frames.MessageToolOutput{MessageID: "m", ToolCallID: "c", Stream: "stdout", Text: "x"},
		frames.Output, "message.tool_output",
		`{"message_id":"m","tool_call_id":"c","stream":"stdout","text":"x"}`,
	},
	{
		frames.MessageToolResult{MessageID: "m", Result: llm.ToolResult{
			CallID: "c", Name: "n", Content: "out",
			IsError: true, DurationMS: 3,
		}, Input: "{}"},
		frames.Output, "message.tool_result",
		`{"message_id":"m","tool_call_id":"c","name":"n","input":{},"output":"out","is_error":true,"duration_ms":3}`,
	},
	{
		frames.MessageEnd{
			MessageID: "m", EndedAt: 9, StopReason: llm.StopToolUse, Usage: &llm.Usage{Input: 1},
			Stats: someStats,
		},
		frames.Output, "message.end",
		`{"message_id":"m","ended_at":9,"stop_reason":"toolUse","usage":{"input":1,"output":0,"reasoning":0,` +
			`"cache_read":0,"cache_write":0},"stats":{"ttft":1.5,"duration":20,"tps":50,"cost":null}}`,
	},
	{
		frames.MessageEnd{MessageID: "m", EndedAt: 9, StopReason: llm.StopError, ErrorMessage: "No."},
		frames.Output, "message.end",
		`{"message_id":"m","ended_at":9,"stop_reason":"error","error_message":"No."}`,
	},
	{
		frames.MessageRetract{MessageID: "m", Step: 2, Reason: "It broke off."},
		frames.Output, "message.retract", `{"message_id":"m","step":2,"reason":"It broke off."}`,
	},
	{
		frames.MessageSteer{MessageID: "m", RunID: "r", State: "delivered", Content: "Go.", AfterStep: 2, At: 5},
		frames.Output, "message.steer",
		`{"message_id":"m","run_id":"r","state":"delivered","content":"Go.","after_step":2,"at":5}`,
	},
	{
		frames.SubagentRetract{InvocationID: "i", Step: 2, Reason: "It broke off."},
		frames.Output, "subagent.retract", `{"invocation_id":"i","step":2,"reason":"It broke off."}`,
	},
	{frames.RunStarted{RunID: "r", MessageID: "m"}, frames.Events, "run.started", `{"run_id":"r","message_id":"m"}`},
	{
		frames.Told{RunID: "r", Event: contract.Retry{Err: someFailure, Attempt: 1, DelayMS: 500, Provider: "p", Model: "o"}},
		frames.Events, "run.retry",
		`{"run_id":"r","error":{"code":"interrupted","message":"It was cut ` +
			`off.","details":{"step":2}},"attempt":1,"delay_ms":500,"provider":"p","model":"o"}`,
	},
	{
		frames.RunCage{
			RunID: "r", AgentPath: "primary", Status: "caged", Tier: "userns", BestEffort: []string{"b"},
			Policy: "fs none",
		},
		frames.Events, "run.cage",
		`{"run_id":"r","agent_path":"primary","cage_status":"caged","tier":"userns","best_effort":["b"],"policy":"fs none"}`,
	},
	{
		frames.RunCage{RunID: "r", AgentPath: "primary", Status: "caged", Ended: "walltime"},
		frames.Events, "run.cage", `{"run_id":"r","agent_path":"primary","cage_status":"caged","ended":"walltime"}`,
	},
	{
		frames.Told{RunID: "r", Event: contract.NetworkTried{
			Audit:   contract.Record{Agent: "primary"},
			Attempt: contract.Attempt{At: 5, Target: "a:1", Rule: "No rule allows it.", Count: 2},
		}},
		frames.Events, "net.attempt",
		`{"run_id":"r","agent_path":"primary","at":5,"target":"a:1","allowed":false,"rule":"No rule allows it.","count":2}`,
	},
	{
		frames.Told{RunID: "r", InvocationID: "i", Event: contract.BudgetState{
			Scope: contract.AgentBudget, Agent: "primary", Limit: contract.Amount{NanoUSD: contract.NanoUSD / 2, Calls: 3},
			Spent: contract.Amount{NanoUSD: contract.NanoUSD / 4, Tokens: 9, Calls: 2}, Reserved: contract.Amount{Calls: 1},
		}},
		frames.Events, "budget.state",
		`{"scope":"agent","agent_path":"primary","limit":{"usd":0.5,"calls":3},"spent":{"usd":0.25,"tokens":9,"calls":2},` +
			`"reserved":{"usd":0,"tokens":0,"calls":1},"run_id":"r","invocation_id":"i"}`,
	},
	{
		frames.Told{RunID: "r", Event: contract.BudgetState{
			Scope: contract.SessionBudget, Limit: contract.Amount{Tokens: 7}, Walltime: time.Minute, AllowUnpriced: true,
		}},
		frames.Events, "budget.state",
		`{"scope":"session","limit":{"tokens":7,"unpriced":"allow","walltime_ms":60000},` +
			`"spent":{"usd":0,"tokens":0,"calls":0,"walltime_ms":0},"reserved":{"usd":0,"tokens":0,"calls":0},"run_id":"r"}`,
	},
	{
		compaction(contract.CompactionTriggered), frames.Events, "compaction.triggered",
		`{"session_id":"s","compaction_id":"c","agent_path":"p","trigger":"threshold_crossed",` +
			`"strategy":"summarize","threshold_estimate":9,"run_id":"r","invocation_id":"i"}`,
	},
	{
		compaction(contract.CompactionCompleted), frames.Events, "compaction.completed",
		`{"session_id":"s","compaction_id":"c","agent_path":"p","superseded_count":3,"summary_message_id":null,` +
			`"after_estimate":4,"duration_ms":2,"run_id":"r","invocation_id":"i"}`,
	},
	{
		compaction(contract.CompactionFailed), frames.Events, "compaction.failed",
		`{"session_id":"s","compaction_id":"c","agent_path":"p","attempted_strategy":"summarize",` +
			`"fallback_strategy":"drop","reason":"It is away.","run_id":"r","invocation_id":"i"}`,
	},
	{
		compaction(contract.CompactionNoop), frames.Events, "compaction.noop",
		`{"session_id":"s","compaction_id":"c","agent_path":"p","strategy":"summarize","reason":"It is away.",` +
			`"run_id":"r","invocation_id":"i"}`,
	},
	{
		frames.CompactionFlagged{SessionID: "s", CompactionID: "c", Notes: 3},
		frames.Events, "compaction.flagged",
		`{"session_id":"s","compaction_id":"c","flag":null,"notes_length":3}`,
	},
	{
		frames.CompactionUndone{SessionID: "s", CompactionID: "c", AgentPath: "p"},
		frames.Events, "compaction.undone",
		`{"session_id":"s","compaction_id":"c","agent_path":"p"}`,
	},
	{
		frames.RunEnded{RunID: "r", Outcome: "completed", Steps: 2, TokensIn: 3, TokensOut: 4, CostUSD: new(0.5)},
		frames.Events, "run.ended",
		`{"run_id":"r","outcome":"completed","steps":2,"tokens_in":3,"tokens_out":4,"cost_usd":0.5}`,
	},
	{
		frames.RunEnded{RunID: "r", Outcome: "failed", Error: someFailure},
		frames.Events, "run.ended",
		`{"run_id":"r","outcome":"failed","error":{"code":"interrupted","message":"It was cut off.","details":{"step":2}},` +
			`"steps":0,"tokens_in":0,"tokens_out":0,"cost_usd":null}`,
	},
	{
		frames.PromptHeld{RunID: "r", Path: "p.md", Accepted: "a", Found: "b"},
		frames.Events, "prompt.held",
		`{"run_id":"r","path":"p.md","accepted_sha256":"a","sha256":"b"}`,
	},
	{
		frames.SubagentStart{
			InvocationID: "i", RunID: "r", ToolCallID: "c", Name: "n", AgentPath: "p",
			CageStatus: "pending", StartedAt: 1,
		},
		frames.Output, "subagent.start",
		`{"invocation_id":"i","parent_invocation_id":null,"run_id":"r","tool_call_id":"c","name":"n","agent_path":"p",` +
			`"cage_status":"pending","started_at":1}`,
	},
	{
		frames.SubagentOutput{InvocationID: "i", Stream: "stderr", Part: "tool", Text: "x", ToolCallID: "c"},
		frames.Output, "subagent.output",
		`{"invocation_id":"i","stream":"stderr","kind":"tool","text":"x","tool_call_id":"c"}`,
	},
	{
		frames.SubagentToolCall{InvocationID: "i", Call: llm.ToolCall{ID: "c", Name: "n", Input: `{"a":1}`}},
		frames.Output, "subagent.tool_call",
		`{"invocation_id":"i","id":"c","name":"n","input":{"a":1}}`,
	},
	{
		frames.SubagentToolResult{InvocationID: "i", Result: llm.ToolResult{
			CallID: "c", Name: "n", Content: "out",
			IsError: true, DurationMS: 3,
		}},
		frames.Output, "subagent.tool_result",
		`{"invocation_id":"i","tool_call_id":"c","name":"n","output":"out","is_error":true,"duration_ms":3}`,
	},
	{
		frames.SubagentEnd{
			InvocationID: "i", Outcome: "failed", Exit: 1, Error: someFailure, Steps: 2, Usage: llm.Usage{Input: 1},
			CostUSD:      new(0.5),
			FilesChanged: []string{"a"}, EndedAt: 9,
		},
		frames.Output, "subagent.end",
		`{"invocation_id":"i","exit":1,"outcome":"failed","error":{"code":"interrupted","message":"It was cut ` +
			`off.","details":{"step":2}},"steps":2,` +
			`"usage":{"input":1,"output":0,"reasoning":0,"cache_read":0,"cache_write":0},"cost_usd":0.5,` +
			`"files_changed":["a"],"ended_at":9}`,
	},
	{
		frames.RunCage{RunID: "r", InvocationID: "i", AgentPath: "p", Status: "caged"},
		frames.Events, "run.cage",
		`{"run_id":"r","agent_path":"p","cage_status":"caged","invocation_id":"i"}`,
	},
	{
		debugged(contract.DebugEvent{Running: &contract.DebugRunning{Runtime: "go", Program: "./x", Moved: moved}}),
		frames.Events, "debug.session",
		`{"run_id":"r","invocation_id":"i","agent_path":"p","debug_session_id":"d","runtime":"go","program":"./x",` +
			`"moved":{"action":"step_over","operator_id":"o","at":4},"at":5}`,
	},
	{
		debugged(contract.DebugEvent{Stop: &contract.DebugStop{
			Reason: "breakpoint", Text: "here", Thread: 1, BreakpointID: 2,
			Frames: []contract.DebugFrame{{ID: 0, Name: "main.main", Path: "./x/main.go", Line: 7, Column: 2}},
			Locals: []contract.DebugVariable{{Name: "n", Value: "3", Type: "int", Reference: 4}},
			Source: []contract.DebugLine{{Line: 7, Text: "n := 3"}},
		}}),
		frames.Events, "debug.stopped",
		`{"run_id":"r","invocation_id":"i","agent_path":"p","debug_session_id":"d","stopped_reason":"breakpoint",` +
			`"text":"here",` +
			`"thread_id":1,"breakpoint_id":2,"location":{"id":0,"name":"main.main","path":"./x/main.go","line":7,"column":2},` +
			`"frames":[{"id":0,"name":"main.main","path":"./x/main.go","line":7,"column":2}],` +
			`"locals":[{"name":"n","value":"3","type":"int","variables_reference":4}],"source":[{"line":7,"text":"n := ` +
			`3"}],"at":5}`,
	},
	{
		debugged(contract.DebugEvent{Output: &contract.DebugOutput{Text: "Hi.\n", From: 3, Next: 7, Omitted: 3}}),
		frames.Output, "debug.output",
		`{"run_id":"r","invocation_id":"i","debug_session_id":"d","text":"Hi.\n","from":3,"next":7,"omitted":3}`,
	},
	{
		debugged(contract.DebugEvent{End: &contract.DebugEnd{Reason: contract.DebugCrash, ExitCode: new(2)}}),
		frames.Events, "debug.ended",
		`{"run_id":"r","invocation_id":"i","agent_path":"p","debug_session_id":"d","reason":"crash","exit_code":2,"at":5}`,
	},
	{
		frames.IssueChanged{ProjectID: "p", Number: 7, Created: true},
		frames.Events, "issue.created", `{"project_id":"p","number":7}`,
	},
	{frames.IssueChanged{ProjectID: "p", Number: 7}, frames.Events, "issue.updated", `{"project_id":"p","number":7}`},
	{frames.SessionState{State: "idle"}, frames.Events, "session.state", `{"state":"idle"}`},
	{
		frames.SessionState{State: "idle", BlockedReason: "provider_unreachable"},
		frames.Events, "session.state",
		`{"state":"idle","blocked_reason":"provider_unreachable"}`,
	},
}

// Each payload has the JSON, channel and type that the API defines. A-WS-OUT-01 to A-WS-OUT-05, A-WS-EV-01,
// A-WS-EV-05, A-WS-EV-06, A-CONTRA-09, H-STREAM-EV-08.
func TestPayloads(t *testing.T) {
	shown := map[frametype.Type]bool{}
	for i, c := range payloadCases {
		t.Run(fmt.Sprint(i, " ", c.kind), func(t *testing.T) {
			if d := cmp.Diff(c.want, render(t, c.payload)); d != "" {
				t.Error(d)
			}
			kind := c.payload.Kind()
			if kind.Channel != c.channel || kind.Name != c.kind {
				t.Errorf("%T goes to %s as %s, want %s as %s", c.payload, kind.Channel, kind.Name, c.channel, c.kind)
			}
			shown[kind] = true
		})
	}
	samples := told()
	for _, kind := range frametype.All() {
		if p, ok := samples[kind]; ok && !shown[kind] {
			complete(t, p)
		} else if !shown[kind] && !kind.OfSocket {
			t.Errorf("no payload here is a %s, which the contract has", kind.Name)
		}
	}
}

// compaction returns a stage of a compaction of an agent below the root.
func compaction(phase contract.CompactionPhase) frames.Payload {
	return frames.Told{SessionID: "s", RunID: "r", InvocationID: "i", Event: contract.Compaction{
		Phase: phase, ID: "c", Trigger: contract.ThresholdCrossed, Strategy: contract.StrategySummarize,
		Before: 9, After: 4, Messages: 3, Fallback: contract.StrategyDrop, Reason: "It is away.", DurationMS: 2,
		Audit: contract.Record{Agent: "p"},
	}}
}

var moved = &contract.DebugMove{Action: "step_over", Operator: "o", At: 4}

// debugged returns an event in a debug session of an agent below the root.
func debugged(e contract.DebugEvent) frames.Payload {
	e.ID, e.Invocation, e.Agent, e.At = "d", "i", "p", 5
	return frames.Told{RunID: "r", InvocationID: "i", Event: e}
}

// The JSON of a delta equals that of wirejson.
func TestDelta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		thinking := rapid.Bool().Draw(t, "thinking")
		kind := map[bool]string{true: "thinking", false: "text"}[thinking]
		want, err := wirejson.Marshal(&apiv1.MessageDelta{MessageId: "01M", Delta: text, Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := framejson.Renderer{}.Append(nil, frames.MessageDelta{MessageID: "01M", Delta: text, Thinking: thinking})
		if string(got) != string(want) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// The JSON of an output of an agent below the root equals that of wirejson.
func TestSubagentOutput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		call := rapid.SampledFrom([]string{"", "c"}).Draw(t, "call")
		want, err := wirejson.Marshal(&apiv1.SubagentOutput{
			InvocationId: "01I", Stream: "stdout", Kind: "text",
			Text: text, ToolCallId: call,
		})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := framejson.Renderer{}.Append(nil, frames.SubagentOutput{
			InvocationID: "01I", Stream: "stdout",
			Part: "text", Text: text, ToolCallID: call,
		})
		if string(got) != string(want) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// For any content, a payload stays within its limit, is marked if it was shortened, and is valid JSON.
func TestLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		long := func(name string) string {
			unit := rapid.SampledFrom([]string{"x", "\n", "\x01", "ä", "\xff", `"`, "€", `{"a":1e20},`, "1e20,"}).Draw(t, name)
			return strings.Repeat(unit, rapid.SampledFrom([]int{0, 1, 20_000, 90_000}).Draw(t, name+" times"))
		}
		input := rapid.SampledFrom([]string{"", "[", `{"k":"`}).Draw(t, "opening") + long("input")
		switch {
		case strings.HasPrefix(input, "["):
			input = strings.TrimSuffix(input, ",") + "]"
		case strings.HasPrefix(input, "{"):
			input += `"}`
		}
		result := frames.MessageToolResult{MessageID: "m", Result: llm.ToolResult{
			CallID: "c", Name: "n",
			Content: long("output"),
		}, Input: input}
		for _, p := range []frames.Payload{
			result,
			frames.MessageToolCall{MessageID: "m", Call: llm.ToolCall{ID: "c", Name: "n", Input: input}},
			frames.SubagentToolCall{InvocationID: "i", Call: llm.ToolCall{ID: "c", Name: "n", Input: input}},
			frames.SubagentToolResult{InvocationID: "i", Result: result.Result},
			frames.SubagentEnd{
				InvocationID: "i",
				FilesChanged: slices.Repeat([]string{result.Result.Content[:min(len(result.Result.Content), 4000)]}, 200),
			},
			frames.MessageEnd{MessageID: "m", ErrorMessage: result.Result.Content},
			frames.RunEnded{RunID: "r", Error: fault.New(fault.Internal, "%s", result.Result.Content).With("quote",
				result.Result.Content)},
		} {
			out, err := framejson.Renderer{}.Append(nil, p)
			if err != nil || len(out) > frames.Limit || !json.Valid(out) {
				t.Fatalf("%T takes %d bytes, %v", p, len(out), err)
			}
			var got struct {
				Output    string
				Truncated bool
			}
			if r, ok := p.(frames.MessageToolResult); ok {
				if err := json.Unmarshal(out, &got); err != nil {
					t.Fatal(err)
				}
				if whole := strings.ToValidUTF8(r.Result.Content, "\uFFFD"); !got.Truncated &&
					len(got.Output) < len(r.Result.Content) && got.Output != whole {
					t.Fatalf("shortened without a word: %d of %d bytes", len(got.Output), len(whole))
				}
			}
		}
	})
}

// A payload with very long names and ids stays within its limit.
func TestLongNames(t *testing.T) {
	long, text := strings.Repeat("\x01", 1<<20), strings.Repeat("x", 2*frames.Limit)
	for _, p := range []frames.Payload{
		frames.MessageStart{Provider: long, Model: long},
		frames.MessageDelta{Delta: text[:frames.MaxText]},
		frames.MessageToolCall{Call: llm.ToolCall{ID: long, Name: long, Input: text}},
		frames.MessageToolOutput{ToolCallID: long, Stream: long, Text: text[:frames.MaxText]},
		frames.MessageToolResult{Result: llm.ToolResult{CallID: long, Name: long, Content: text}, Input: text},
		frames.Told{Event: contract.Retry{Err: fault.New(fault.Internal, "%s", text), Provider: long, Model: long}},
		frames.RunEnded{Error: fault.New(fault.Internal, "%s", long).With("quote", long[:63<<10])},
		frames.RunCage{
			AgentPath: long, Status: long, Tier: long, BestEffort: []string{long, long}, Policy: long,
			Ended: long,
		},
		frames.Told{Event: contract.NetworkTried{
			Audit: contract.Record{Agent: long}, Attempt: contract.Attempt{Target: long, Rule: long},
		}},
		frames.ApprovalRequested{ToolCallID: long, Subject: contract.Subject{
			Tool: long, Agent: long, Reasons: []string{long}, Command: long, Cwd: long, Paths: []string{long}, Preview: long,
		}},
		frames.ApprovalResolved{ToolCallID: long, ResolvedBy: long, Comment: long},
	} {
		if out := render(t, p); len(out) > frames.Limit || !json.Valid([]byte(out)) {
			t.Errorf("%T takes %d bytes", p, len(out))
		}
	}
}

// Rendering an input or output of megabytes allocates at most 16 times the limit of a frame.
func TestLargeInput(t *testing.T) { // not parallel: it counts the allocations of the process
	input, output := "["+strings.Repeat("0,", 2<<20)+"0]", strings.Repeat("\x01", 4<<20)
	for _, p := range []frames.Payload{
		frames.MessageToolCall{Call: llm.ToolCall{Input: input}},
		frames.MessageToolResult{Input: input},
		frames.MessageToolResult{Input: "[]", Result: llm.ToolResult{Content: output}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := framejson.Renderer{}.Append(nil, p)
		runtime.ReadMemStats(&after)
		if err != nil || len(out) > frames.Limit || !strings.Contains(string(out), `,"truncated":true`) {
			t.Errorf("%T takes %d bytes, %v", p, len(out), err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 16*frames.Limit {
			t.Errorf("%T: a frame of %d bytes took %d", p, len(out), got)
		}
	}
}

// A detail of a failure that JSON cannot represent is rendered as a string.
func TestOddDetails(t *testing.T) {
	odd := fault.New(fault.Internal, "No.").With("n", math.NaN())
	if got := render(t, frames.RunEnded{
		RunID: "r", Outcome: "failed",
		Error: odd,
	}); got != `{"run_id":"r","outcome":"failed","error":{"code":"internal","message":"No.","details":{"n":"NaN"}},`+
		`"steps":0,"tokens_in":0,"tokens_out":0,"cost_usd":null}` {
		t.Error(got)
	}
	if got := render(t, frames.Told{RunID: "r", Event: contract.Retry{Err: odd}}); !strings.Contains(got,
		`"error":{"code":"internal","message":"No.","details":{"n":"NaN"}}`) {
		t.Error(got)
	}
}

func BenchmarkDelta(b *testing.B) {
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf, _ = framejson.Renderer{}.Append(buf[:0], frames.MessageDelta{
			MessageID: "01K0000000000000000000000A",
			Delta:     "some words of a model ",
		})
	}
}
