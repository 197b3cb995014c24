package framejson_test

import (
	"encoding/json"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/wirejson"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	"kaged.dev/services/session-manager/internal/adapter/framejson"
	"kaged.dev/services/session-manager/internal/core/frames"
	"kaged.dev/services/session-manager/internal/core/transcript"
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

// Each payload reads exactly as the API says, on the channel and under the type it belongs to. A-WS-OUT-01 to A-WS-OUT-05, A-WS-EV-01,
// A-WS-EV-05, A-WS-EV-06, A-CONTRA-09, H-STREAM-EV-08.
func TestPayloads(t *testing.T) {
	ttft := 1.5
	stats := &transcript.Stats{TTFT: &ttft, Duration: 20, TPS: 50}
	failed := fault.New(fault.Interrupted, "It was cut off.").With("step", 2)
	for _, c := range []struct {
		payload frames.Payload
		channel frames.Channel
		kind    string
		want    string
	}{
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
			frames.ApprovalRequested{ApprovalID: "a", RunID: "r", MessageID: "m", ToolCallID: "c", Subject: frames.Subject{
				Tool: "shell.bash", AgentPath: "primary", Reasons: []string{"why"}, Command: "x", Cwd: "./", Paths: []string{"./p"}, Preview: "+d",
			}, RequestedAt: 1, ExpiresAt: 2},
			frames.Events, "approval.requested",
			`{"approval_id":"a","run_id":"r","message_id":"m","tool_call_id":"c","subject":{"tool":"shell.bash","agent_path":"primary",` +
				`"reasons":["why"],"command":"x","cwd":"./","paths":["./p"],"preview":"+d"},"requested_at":1,"expires_at":2}`,
		},
		{
			frames.ApprovalResolved{ApprovalID: "a", RunID: "r", ToolCallID: "c", State: "denied", ResolvedBy: "ada", Comment: "no", ResolvedAt: 3},
			frames.Events, "approval.resolved",
			`{"approval_id":"a","run_id":"r","tool_call_id":"c","state":"denied","resolved_by":"ada","comment":"no","resolved_at":3}`,
		},
		{
			frames.ApprovalResolved{ApprovalID: "a", State: "expired"},
			frames.Events, "approval.resolved", `{"approval_id":"a","run_id":"","tool_call_id":"","state":"expired","resolved_by":null,"resolved_at":0}`,
		},
		{frames.MessageDelta{MessageID: "m", Delta: "a\n<b>"}, frames.Output, "message.delta", `{"message_id":"m","delta":"a\n<b>","kind":"text"}`},
		{frames.MessageDelta{MessageID: "m", Delta: "a", Thinking: true}, frames.Output, "message.delta", `{"message_id":"m","delta":"a","kind":"thinking"}`},
		{
			frames.MessageToolCall{MessageID: "m", Call: llm.ToolCall{ID: "c", Name: "file.read", Input: `{"b":1, "a":[true,null]}`}},
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
			frames.MessageToolResult{MessageID: "m", Result: llm.ToolResult{CallID: "c", Name: "n", Content: "out", IsError: true}, Input: "{}", DurationMS: 3},
			frames.Output, "message.tool_result",
			`{"message_id":"m","tool_call_id":"c","name":"n","input":{},"output":"out","is_error":true,"duration_ms":3}`,
		},
		{
			frames.MessageEnd{MessageID: "m", EndedAt: 9, StopReason: llm.StopToolUse, Usage: &transcript.Usage{Input: 1}, Stats: stats},
			frames.Output, "message.end",
			`{"message_id":"m","ended_at":9,"stop_reason":"toolUse","usage":{"input":1,"output":0,"reasoning":0,"cache_read":0,"cache_write":0},"stats":{"ttft":1.5,"duration":20,"tps":50,"cost":null}}`,
		},
		{
			frames.MessageEnd{MessageID: "m", EndedAt: 9, StopReason: llm.StopError, ErrorMessage: "No."},
			frames.Output, "message.end",
			`{"message_id":"m","ended_at":9,"stop_reason":"error","error_message":"No."}`,
		},
		{frames.RunStarted{RunID: "r", MessageID: "m"}, frames.Events, "run.started", `{"run_id":"r","message_id":"m"}`},
		{
			frames.RunRetry{RunID: "r", Error: failed, Attempt: 1, DelayMS: 500, Provider: "p", Model: "o"},
			frames.Events, "run.retry",
			`{"run_id":"r","error":{"code":"interrupted","message":"It was cut off.","details":{"step":2}},"attempt":1,"delay_ms":500,"provider":"p","model":"o"}`,
		},
		{
			frames.RunCage{RunID: "r", AgentPath: "primary", Status: "caged", Tier: "userns", BestEffort: []string{"b"}, Policy: "fs none"},
			frames.Events, "run.cage",
			`{"run_id":"r","agent_path":"primary","cage_status":"caged","tier":"userns","best_effort":["b"],"policy":"fs none"}`,
		},
		{
			frames.RunCage{RunID: "r", AgentPath: "primary", Status: "caged", Ended: "walltime"},
			frames.Events, "run.cage", `{"run_id":"r","agent_path":"primary","cage_status":"caged","ended":"walltime"}`,
		},
		{
			frames.NetworkAttempted{RunID: "r", AgentPath: "primary", At: 5, Target: "a:1", Rule: "No rule allows it.", Count: 2},
			frames.Events, "net.attempt",
			`{"run_id":"r","agent_path":"primary","at":5,"target":"a:1","allowed":false,"rule":"No rule allows it.","count":2}`,
		},
		{
			frames.RunEnded{RunID: "r", Outcome: "completed", Steps: 2, TokensIn: 3, TokensOut: 4, CostUSD: new(0.5)},
			frames.Events, "run.ended",
			`{"run_id":"r","outcome":"completed","steps":2,"tokens_in":3,"tokens_out":4,"cost_usd":0.5}`,
		},
		{
			frames.RunEnded{RunID: "r", Outcome: "failed", Error: failed},
			frames.Events, "run.ended",
			`{"run_id":"r","outcome":"failed","error":{"code":"interrupted","message":"It was cut off.","details":{"step":2}},` +
				`"steps":0,"tokens_in":0,"tokens_out":0,"cost_usd":null}`,
		},
		{frames.SessionState{State: "idle"}, frames.Events, "session.state", `{"state":"idle"}`},
		{frames.SessionState{State: "idle", BlockedReason: "provider_unreachable"}, frames.Events, "session.state", `{"state":"idle","blocked_reason":"provider_unreachable"}`},
	} {
		if d := cmp.Diff(c.want, render(t, c.payload)); d != "" {
			t.Errorf("%s: %s", c.kind, d)
		}
		if channel, kind := c.payload.Kind(); channel != c.channel || kind != c.kind {
			t.Errorf("%T goes to %s as %s", c.payload, channel, kind)
		}
	}
}

// A delta is written as every other payload would be.
func TestDelta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		thinking := rapid.Bool().Draw(t, "thinking")
		kind := map[bool]string{true: "thinking", false: "text"}[thinking]
		want, err := wirejson.Marshal(&gatewayv1.MessageDelta{MessageId: "01M", Delta: text, Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := framejson.Renderer{}.Append(nil, frames.MessageDelta{MessageID: "01M", Delta: text, Thinking: thinking})
		if string(got) != string(want) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// However long and whatever it is, a payload fits into its limit, says that it was shortened, and is JSON.
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
		result := frames.MessageToolResult{MessageID: "m", Result: llm.ToolResult{CallID: "c", Name: "n", Content: long("output")}, Input: input}
		for _, p := range []frames.Payload{
			result,
			frames.MessageToolCall{MessageID: "m", Call: llm.ToolCall{ID: "c", Name: "n", Input: input}},
			frames.MessageEnd{MessageID: "m", ErrorMessage: result.Result.Content},
			frames.RunEnded{RunID: "r", Error: fault.New(fault.Internal, "%s", result.Result.Content).With("quote", result.Result.Content)},
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
				if whole := strings.ToValidUTF8(r.Result.Content, "\uFFFD"); !got.Truncated && len(got.Output) < len(r.Result.Content) && got.Output != whole {
					t.Fatalf("shortened without a word: %d of %d bytes", len(got.Output), len(whole))
				}
			}
		}
	})
}

// What a payload repeats of others' names and ids, however long, leaves it within its limit.
func TestLongNames(t *testing.T) {
	long, text := strings.Repeat("\x01", 1<<20), strings.Repeat("x", 2*frames.Limit)
	for _, p := range []frames.Payload{
		frames.MessageStart{Provider: long, Model: long},
		frames.MessageDelta{Delta: text[:frames.MaxText]},
		frames.MessageToolCall{Call: llm.ToolCall{ID: long, Name: long, Input: text}},
		frames.MessageToolOutput{ToolCallID: long, Stream: long, Text: text[:frames.MaxText]},
		frames.MessageToolResult{Result: llm.ToolResult{CallID: long, Name: long, Content: text}, Input: text},
		frames.RunRetry{Error: fault.New(fault.Internal, "%s", text), Provider: long, Model: long},
		frames.RunEnded{Error: fault.New(fault.Internal, "%s", long).With("quote", long[:63<<10])},
		frames.RunCage{AgentPath: long, Status: long, Tier: long, BestEffort: []string{long, long}, Policy: long, Ended: long},
		frames.NetworkAttempted{AgentPath: long, Target: long, Rule: long},
		frames.ApprovalRequested{ToolCallID: long, Subject: frames.Subject{
			Tool: long, AgentPath: long, Reasons: []string{long}, Command: long, Cwd: long, Paths: []string{long}, Preview: long,
		}},
		frames.ApprovalResolved{ToolCallID: long, ResolvedBy: long, Comment: long},
	} {
		if out := render(t, p); len(out) > frames.Limit || !json.Valid([]byte(out)) {
			t.Errorf("%T takes %d bytes", p, len(out))
		}
	}
}

// Input and output of megabytes cost no more than the frame that shows a part of them.
func TestLargeInput(t *testing.T) { // not parallel: it counts what the process allocates
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

// A detail of a failure that JSON has no form for is shown as a text.
func TestOddDetails(t *testing.T) {
	odd := fault.New(fault.Internal, "No.").With("n", math.NaN())
	if got := render(t, frames.RunEnded{RunID: "r", Outcome: "failed", Error: odd}); got != `{"run_id":"r","outcome":"failed","error":{"code":"internal","message":"No.","details":{"n":"NaN"}},`+
		`"steps":0,"tokens_in":0,"tokens_out":0,"cost_usd":null}` {
		t.Error(got)
	}
	if got := render(t, frames.RunRetry{RunID: "r", Error: odd}); !strings.Contains(got, `"error":{"code":"internal","message":"No.","details":{"n":"NaN"}}`) {
		t.Error(got)
	}
}

func BenchmarkDelta(b *testing.B) {
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf, _ = framejson.Renderer{}.Append(buf[:0], frames.MessageDelta{MessageID: "01K0000000000000000000000A", Delta: "some words of a model "})
	}
}
