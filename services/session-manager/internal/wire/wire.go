// Package wire translates conversations between their Go form (kaged.dev/pkg/llm, package transcript) and
// kaged.harness.v1, the form in which they travel to the harness and in which steps are stored.
package wire

import (
	"math"

	"kaged.dev/pkg/llm"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/transcript"
)

// Blocks returns blocks as protobuf.
func Blocks(blocks []llm.Block) []*harnessv1.Block {
	out := make([]*harnessv1.Block, 0, len(blocks))
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			out = append(out, &harnessv1.Block{Block: &harnessv1.Block_Text{Text: &harnessv1.Text{Text: b.Text.Text}}})
		case b.Thinking != nil:
			t := &harnessv1.Thinking{Text: b.Thinking.Text, Opaque: b.Thinking.Opaque, Driver: b.Thinking.Driver}
			out = append(out, &harnessv1.Block{Block: &harnessv1.Block_Thinking{Thinking: t}})
		case b.Call != nil:
			c := &harnessv1.ToolCall{Id: b.Call.ID, Name: b.Call.Name, Input: b.Call.Input}
			out = append(out, &harnessv1.Block{Block: &harnessv1.Block_ToolCall{ToolCall: c}})
		case b.Result != nil:
			out = append(out, &harnessv1.Block{Block: &harnessv1.Block_ToolResult{ToolResult: Result(*b.Result)}})
		}
	}
	return out
}

// FromBlocks is the reverse of [Blocks]; a block of a kind this build does not know is left out.
func FromBlocks(blocks []*harnessv1.Block) []llm.Block {
	out := make([]llm.Block, 0, len(blocks))
	for _, b := range blocks {
		switch k := b.GetBlock().(type) {
		case *harnessv1.Block_Text:
			out = append(out, llm.Block{Text: &llm.Text{Text: k.Text.GetText()}})
		case *harnessv1.Block_Thinking:
			t := &llm.Thinking{Text: k.Thinking.GetText(), Opaque: k.Thinking.GetOpaque(), Driver: k.Thinking.GetDriver()}
			out = append(out, llm.Block{Thinking: t})
		case *harnessv1.Block_ToolCall:
			c := FromCall(k.ToolCall)
			out = append(out, llm.Block{Call: &c})
		case *harnessv1.Block_ToolResult:
			r := FromResult(k.ToolResult)
			out = append(out, llm.Block{Result: &r})
		}
	}
	return out
}

// FromCall returns a tool call.
func FromCall(c *harnessv1.ToolCall) llm.ToolCall {
	return llm.ToolCall{ID: c.GetId(), Name: c.GetName(), Input: c.GetInput()}
}

// Result returns a tool's result as protobuf.
func Result(r llm.ToolResult) *harnessv1.ToolResult {
	return &harnessv1.ToolResult{ToolCallId: r.CallID, Name: r.Name, Content: r.Content, IsError: r.IsError}
}

// FromResult is the reverse of [Result].
func FromResult(r *harnessv1.ToolResult) llm.ToolResult {
	return llm.ToolResult{CallID: r.GetToolCallId(), Name: r.GetName(), Content: r.GetContent(), IsError: r.GetIsError()}
}

// Results returns the results of a step as one message.
func Results(results []llm.ToolResult) *harnessv1.Message {
	m := &harnessv1.Message{Role: harnessv1.Role_ROLE_TOOL}
	for _, r := range results {
		m.Blocks = append(m.Blocks, &harnessv1.Block{Block: &harnessv1.Block_ToolResult{ToolResult: Result(r)}})
	}
	return m
}

// FromResults is the reverse of [Results].
func FromResults(m *harnessv1.Message) []llm.ToolResult {
	out := make([]llm.ToolResult, 0, len(m.GetBlocks()))
	for _, b := range m.GetBlocks() {
		if r := b.GetToolResult(); r != nil {
			out = append(out, FromResult(r))
		}
	}
	return out
}

var roles = map[llm.Role]harnessv1.Role{
	llm.RoleUser: harnessv1.Role_ROLE_USER, llm.RoleAssistant: harnessv1.Role_ROLE_ASSISTANT,
	llm.RoleTool: harnessv1.Role_ROLE_TOOL, llm.RoleSystem: harnessv1.Role_ROLE_SYSTEM,
}

// Message returns a message of a conversation as protobuf.
func Message(m transcript.Message) *harnessv1.Message {
	return &harnessv1.Message{Role: roles[m.Role], Blocks: Blocks(m.Blocks), MessageId: m.ID}
}

var stops = map[llm.StopReason]harnessv1.StopReason{
	llm.StopEnd: harnessv1.StopReason_STOP_REASON_STOP, llm.StopLength: harnessv1.StopReason_STOP_REASON_LENGTH,
	llm.StopToolUse: harnessv1.StopReason_STOP_REASON_TOOL_USE, llm.StopError: harnessv1.StopReason_STOP_REASON_ERROR,
	llm.StopAborted: harnessv1.StopReason_STOP_REASON_ABORTED,
}

var fromStops = func() map[harnessv1.StopReason]llm.StopReason {
	out := make(map[harnessv1.StopReason]llm.StopReason, len(stops))
	for k, v := range stops {
		out[v] = k
	}
	return out
}()

// FromStop returns a stop reason, "" for none.
func FromStop(s harnessv1.StopReason) llm.StopReason { return fromStops[s] }

// Usage returns token counts as protobuf.
func Usage(u llm.Usage) *harnessv1.Usage {
	return &harnessv1.Usage{Input: u.Input, Output: u.Output, Reasoning: u.Reasoning, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
}

// FromUsage is the reverse of [Usage]. Counts that cannot be are brought within [llm.MaxCount]: steps stored by older versions may
// hold any.
func FromUsage(u *harnessv1.Usage) llm.Usage {
	return llm.Usage{
		Input: u.GetInput(), Output: u.GetOutput(), Reasoning: u.GetReasoning(), CacheRead: u.GetCacheRead(), CacheWrite: u.GetCacheWrite(),
	}.Bounded(llm.MaxCount)
}

// Stats returns measurements as protobuf, nil for nil.
func Stats(s *transcript.Stats) *harnessv1.Stats {
	if s == nil {
		return nil
	}
	return &harnessv1.Stats{TtftMs: s.TTFT, DurationMs: s.Duration, Tps: s.TPS, Cost: Cost(s.Cost)}
}

// FromStats is the reverse of [Stats].
func FromStats(s *harnessv1.Stats) *transcript.Stats {
	if s == nil {
		return nil
	}
	out := &transcript.Stats{Duration: finite(s.GetDurationMs()), TPS: finite(s.GetTps()), Cost: fromCost(s.GetCost())}
	if s.TtftMs != nil {
		ttft := finite(s.GetTtftMs())
		out.TTFT = &ttft
	}
	return out
}

// finite returns 0 for what JSON has no number for.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// Cost returns a cost as protobuf, nil for nil.
func Cost(c *transcript.Cost) *harnessv1.Cost {
	if c == nil {
		return nil
	}
	return &harnessv1.Cost{
		Input: c.Input, Output: c.Output, Reasoning: c.Reasoning, CacheRead: c.CacheRead, CacheWrite: c.CacheWrite, Total: c.Total,
	}
}

func fromCost(c *harnessv1.Cost) *transcript.Cost {
	if c == nil {
		return nil
	}
	return &transcript.Cost{
		Input: finite(c.GetInput()), Output: finite(c.GetOutput()), Reasoning: finite(c.GetReasoning()),
		CacheRead: finite(c.GetCacheRead()), CacheWrite: finite(c.GetCacheWrite()), Total: finite(c.GetTotal()),
	}
}

// Turn returns a turn as protobuf. When it was stored is not part of it.
func Turn(t transcript.Turn) *harnessv1.Turn {
	return &harnessv1.Turn{
		Step: int32(t.Step), Blocks: Blocks(t.Blocks), StopReason: stops[t.Stop], Usage: Usage(t.Usage), Stats: Stats(t.Stats),
		Provider: t.Provider, Model: t.Model,
	}
}

// FromTurn is the reverse of [Turn].
func FromTurn(t *harnessv1.Turn) transcript.Turn {
	return transcript.Turn{
		Step: int(t.GetStep()), Blocks: FromBlocks(t.GetBlocks()), Stop: FromStop(t.GetStopReason()), Usage: FromUsage(t.GetUsage()),
		Stats: FromStats(t.GetStats()), Provider: t.GetProvider(), Model: t.GetModel(),
	}
}

// FromRecord returns a record of another service; whose it is, and of which session, is for the caller to say.
func FromRecord(r *commonv1.AuditRecord) audit.Record {
	return audit.Record{TS: r.GetTs(), EventType: r.GetEventType(), AgentPath: r.GetAgentPath(), Payload: r.GetPayload().AsMap()}
}

// FromAudit is [FromRecord] for many.
func FromAudit(list []*commonv1.AuditRecord) []audit.Record {
	out := make([]audit.Record, len(list))
	for i, r := range list {
		out[i] = FromRecord(r)
	}
	return out
}
