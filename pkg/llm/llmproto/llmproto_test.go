package llmproto_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/llmproto"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

func block() *rapid.Generator[llm.Block] {
	words := rapid.String()
	return rapid.Custom(func(t *rapid.T) llm.Block {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return llm.Block{Text: &llm.Text{Text: words.Draw(t, "text")}}
		case 1:
			opaque := rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "opaque")
			return llm.Block{Thinking: &llm.Thinking{
				Text: words.Draw(t, "thinking"), Opaque: opaque, Driver: words.Draw(t, "driver"),
			}}
		case 2:
			return llm.Block{Call: &llm.ToolCall{
				ID: words.Draw(t, "id"), Name: words.Draw(t, "name"), Input: words.Draw(t, "input"),
			}}
		}
		r := result().Draw(t, "result")
		return llm.Block{Result: &r}
	})
}

func result() *rapid.Generator[llm.ToolResult] {
	words := rapid.String()
	return rapid.Custom(func(t *rapid.T) llm.ToolResult {
		return llm.ToolResult{
			CallID: words.Draw(t, "call"), Name: words.Draw(t, "name"), Content: words.Draw(t, "content"),
			IsError: rapid.Bool().Draw(t, "failed"),
		}
	})
}

// travel encodes and decodes m.
func travel[M any, P interface {
	*M
	proto.Message
}](t *rapid.T, m P,
) P {
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	back := P(new(M))
	if err := proto.Unmarshal(data, back); err != nil {
		t.Fatal(err)
	}
	return back
}

// Messages, including opaque data of thinking, and results are equal after encoding and decoding.
func TestConversationsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := llm.Message{
			Role:   rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleTool, llm.RoleSystem}).Draw(t, "role"),
			Blocks: rapid.SliceOfN(block(), 1, 6).Draw(t, "blocks"),
		}
		if d := cmp.Diff(want, llmproto.FromMessage(travel(t, llmproto.Message(want)))); d != "" {
			t.Fatal(d)
		}
		results := rapid.SliceOfN(result(), 1, 5).Draw(t, "results")
		if d := cmp.Diff(results, llmproto.FromResults(travel(t, llmproto.Results(results)))); d != "" {
			t.Fatal(d)
		}
	})
}

// Statistics are equal after encoding and decoding, and missing ones stay missing.
func TestMeasuresRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count, number := rapid.Int64Range(0, 1<<40), rapid.Float64Range(0, 1e9)
		usage := llm.Usage{
			Input: count.Draw(t, "input"), Output: count.Draw(t, "output"), Reasoning: count.Draw(t, "reasoning"),
			CacheRead: count.Draw(t, "read"), CacheWrite: count.Draw(t, "write"),
		}
		if d := cmp.Diff(usage, llmproto.FromUsage(travel(t, llmproto.Usage(usage)))); d != "" {
			t.Fatal(d)
		}
		stats := &llm.Stats{Duration: number.Draw(t, "duration"), TPS: number.Draw(t, "tps")}
		if rapid.Bool().Draw(t, "ttft") {
			ttft := number.Draw(t, "ttft value")
			stats.TTFT = &ttft
		}
		if rapid.Bool().Draw(t, "cost") {
			stats.Cost = &llm.Cost{
				Input: number.Draw(t, "in"), Output: number.Draw(t, "out"), Reasoning: 1, CacheRead: 2, CacheWrite: 3, Total: 4,
			}
		}
		if d := cmp.Diff(stats, llmproto.FromStats(travel(t, llmproto.Stats(stats)))); d != "" {
			t.Fatal(d)
		}
	})
	if got := llmproto.FromStats(llmproto.Stats(nil)); got != nil {
		t.Errorf("got %v for no stats, want nil", got)
	}
}

// Every stop reason has a number.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, stop := range []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopToolUse, llm.StopError, llm.StopAborted} {
		if p := llmproto.Stop(stop); p == 0 || llmproto.FromStop(p) != stop {
			t.Errorf("got %v for %s", p, stop)
		}
	}
}

// An unknown value, and one that JSON cannot hold, is left out.
func TestUnknown(t *testing.T) {
	t.Parallel()
	text := &harnessv1.Block{Block: &harnessv1.Block_Text{Text: &harnessv1.Text{Text: "a"}}}
	if got := llmproto.FromBlocks([]*harnessv1.Block{{}, text}); len(got) != 1 {
		t.Errorf("got blocks %v, want one", got)
	}
	if got := llmproto.FromMessage(&harnessv1.Message{Role: 99}); got.Role != llm.RoleUser {
		t.Errorf("got role %q, want the user's", got.Role)
	}
	if got := llmproto.FromStop(99); got != "" {
		t.Errorf("got stop %q, want none", got)
	}
	usage := llmproto.FromUsage(&harnessv1.Usage{Input: -1, Output: math.MaxInt64})
	if d := cmp.Diff(llm.Usage{Output: llm.MaxCount}, usage); d != "" {
		t.Error(d)
	}
	nan := math.NaN()
	stats := llmproto.FromStats(&harnessv1.Stats{TtftMs: &nan, DurationMs: math.Inf(1), Cost: &harnessv1.Cost{Total: nan}})
	zero := 0.0
	if d := cmp.Diff(&llm.Stats{TTFT: &zero, Cost: &llm.Cost{}}, stats); d != "" {
		t.Error(d)
	}
}
