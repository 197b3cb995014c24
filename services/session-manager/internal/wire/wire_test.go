package wire_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"kaged.dev/pkg/llm"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/core/transcript"
	"kaged.dev/services/session-manager/internal/wire"
)

func block() *rapid.Generator[llm.Block] {
	words := rapid.String()
	return rapid.Custom(func(t *rapid.T) llm.Block {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return llm.Block{Text: &llm.Text{Text: words.Draw(t, "text")}}
		case 1:
			opaque := rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "opaque")
			return llm.Block{Thinking: &llm.Thinking{Text: words.Draw(t, "thinking"), Opaque: opaque, Driver: words.Draw(t, "driver")}}
		case 2:
			return llm.Block{Call: &llm.ToolCall{ID: words.Draw(t, "id"), Name: words.Draw(t, "name"), Input: words.Draw(t, "input")}}
		}
		return llm.Block{Result: result().Draw(t, "result")}
	})
}

func result() *rapid.Generator[*llm.ToolResult] {
	words := rapid.String()
	return rapid.Custom(func(t *rapid.T) *llm.ToolResult {
		return &llm.ToolResult{CallID: words.Draw(t, "call"), Name: words.Draw(t, "name"), Content: words.Draw(t, "content"), IsError: rapid.Bool().Draw(t, "failed")}
	})
}

func stats(t *rapid.T) *transcript.Stats {
	number := rapid.Float64Range(0, 1e9)
	if rapid.Bool().Draw(t, "no stats") {
		return nil
	}
	s := &transcript.Stats{Duration: number.Draw(t, "duration"), TPS: number.Draw(t, "tps")}
	if rapid.Bool().Draw(t, "ttft") {
		ttft := number.Draw(t, "ttft value")
		s.TTFT = &ttft
	}
	if rapid.Bool().Draw(t, "cost") {
		s.Cost = &transcript.Cost{Input: number.Draw(t, "in"), Output: number.Draw(t, "out"), Reasoning: 1, CacheRead: 2, CacheWrite: 3, Total: number.Draw(t, "total")}
	}
	return s
}

// A turn and its results are the same after the wire.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Int64Range(0, 1<<40)
		turn := transcript.Turn{
			Step: rapid.IntRange(1, 100).Draw(t, "step"), Blocks: rapid.SliceOfN(block(), 1, 6).Draw(t, "blocks"),
			Stop:  rapid.SampledFrom([]llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopToolUse, llm.StopError, llm.StopAborted}).Draw(t, "stop"),
			Usage: llm.Usage{Input: count.Draw(t, "input"), Output: count.Draw(t, "output"), Reasoning: 3, CacheRead: 4, CacheWrite: 5},
			Stats: stats(t), Provider: "p", Model: "m",
		}
		data, err := proto.Marshal(wire.Turn(turn))
		if err != nil {
			t.Fatal(err)
		}
		var back harnessv1.Turn
		if err := proto.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(turn, wire.FromTurn(&back)); d != "" {
			t.Fatal(d)
		}
		results := rapid.SliceOfN(rapid.Map(result(), func(r *llm.ToolResult) llm.ToolResult { return *r }), 1, 5).Draw(t, "results")
		if d := cmp.Diff(results, wire.FromResults(wire.Results(results))); d != "" {
			t.Fatal(d)
		}
	})
}

// What this build does not know is left out or means nothing.
func TestUnknown(t *testing.T) {
	if got := wire.FromBlocks([]*harnessv1.Block{{}, {Block: &harnessv1.Block_Text{Text: &harnessv1.Text{Text: "a"}}}}); len(got) != 1 {
		t.Errorf("blocks = %v", got)
	}
	if got := wire.FromStop(harnessv1.StopReason(99)); got != "" {
		t.Errorf("stop = %q", got)
	}
	if got := wire.FromTurn(nil); got.Step != 0 || got.Stats != nil {
		t.Errorf("turn = %v", got)
	}
}

// A record of another service keeps what it says.
func TestRecord(t *testing.T) {
	payload, err := structpb.NewStruct(map[string]any{"tool": "file.read", "n": 1.0})
	if err != nil {
		t.Fatal(err)
	}
	got := wire.FromAudit([]*commonv1.AuditRecord{{EventType: "tool.called", Ts: 5, AgentPath: "primary", Payload: payload}})[0]
	if got.EventType != "tool.called" || got.TS != 5 || got.AgentPath != "primary" || got.Payload["tool"] != "file.read" || got.Payload["n"] != 1.0 {
		t.Errorf("record = %+v", got)
	}
}

// A cut never splits a character.
func TestWhole(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 2: 1, 3: 3, 9: 3} {
		if got := wire.Whole("aä", n); got != want {
			t.Errorf("Whole(%d) = %d", n, got)
		}
	}
}

// Counts of stored steps that no provider can have meant are clipped, so that they never overflow a sum.
func TestStoredCountsAreClipped(t *testing.T) {
	u := wire.FromUsage(&harnessv1.Usage{Input: math.MaxInt64, Output: math.MinInt64, Reasoning: 5, CacheRead: math.MaxInt64, CacheWrite: 7})
	if want := (llm.Usage{Input: llm.MaxCount, Reasoning: 5, CacheRead: llm.MaxCount, CacheWrite: 7}); u != want {
		t.Errorf("got %+v, want %+v", u, want)
	}
	if in := u.Add(u).TotalInput(); in != llm.MaxCount {
		t.Errorf("got a sum of %d, want %d", in, int64(llm.MaxCount))
	}
}
