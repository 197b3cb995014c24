// Package llmproto is the wire form of conversations and of what a model's work took: package llm in
// kaged.harness.v1, in which they travel between session-manager and the harness and in which steps are stored.
package llmproto

import (
	"math"

	"kaged.dev/pkg/llm"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

var roles = map[llm.Role]harnessv1.Role{
	llm.RoleUser: harnessv1.Role_ROLE_USER, llm.RoleAssistant: harnessv1.Role_ROLE_ASSISTANT,
	llm.RoleTool: harnessv1.Role_ROLE_TOOL, llm.RoleSystem: harnessv1.Role_ROLE_SYSTEM,
}

var fromRoles = inverse(roles)

// Message returns a message as protobuf.
func Message(m llm.Message) *harnessv1.Message {
	return &harnessv1.Message{Role: roles[m.Role], Blocks: Blocks(m.Blocks)}
}

// FromMessage is the reverse of [Message]. A role that this build does not know is a user's.
func FromMessage(p *harnessv1.Message) llm.Message {
	role, ok := fromRoles[p.GetRole()]
	if !ok {
		role = llm.RoleUser
	}
	return llm.Message{Role: role, Blocks: FromBlocks(p.GetBlocks())}
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

// Blocks returns blocks as protobuf. An empty one is left out.
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
			out = append(out, &harnessv1.Block{Block: &harnessv1.Block_ToolCall{ToolCall: Call(*b.Call)}})
		case b.Result != nil:
			out = append(out, &harnessv1.Block{Block: &harnessv1.Block_ToolResult{ToolResult: Result(*b.Result)}})
		}
	}
	return out
}

// FromBlocks is the reverse of [Blocks]. A block of a kind that this build does not know is left out.
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

// Call returns a tool call as protobuf.
func Call(c llm.ToolCall) *harnessv1.ToolCall {
	return &harnessv1.ToolCall{Id: c.ID, Name: c.Name, Input: c.Input}
}

// FromCall is the reverse of [Call].
func FromCall(p *harnessv1.ToolCall) llm.ToolCall {
	return llm.ToolCall{ID: p.GetId(), Name: p.GetName(), Input: p.GetInput()}
}

// Result returns a tool's result as protobuf.
func Result(r llm.ToolResult) *harnessv1.ToolResult {
	return &harnessv1.ToolResult{ToolCallId: r.CallID, Name: r.Name, Content: r.Content, IsError: r.IsError}
}

// FromResult is the reverse of [Result].
func FromResult(p *harnessv1.ToolResult) llm.ToolResult {
	return llm.ToolResult{CallID: p.GetToolCallId(), Name: p.GetName(), Content: p.GetContent(), IsError: p.GetIsError()}
}

var stops = map[llm.StopReason]harnessv1.StopReason{
	llm.StopEnd: harnessv1.StopReason_STOP_REASON_STOP, llm.StopLength: harnessv1.StopReason_STOP_REASON_LENGTH,
	llm.StopToolUse: harnessv1.StopReason_STOP_REASON_TOOL_USE, llm.StopError: harnessv1.StopReason_STOP_REASON_ERROR,
	llm.StopAborted: harnessv1.StopReason_STOP_REASON_ABORTED,
}

var fromStops = inverse(stops)

// Stop returns a stop reason as protobuf.
func Stop(s llm.StopReason) harnessv1.StopReason { return stops[s] }

// FromStop is the reverse of [Stop], "" for none.
func FromStop(s harnessv1.StopReason) llm.StopReason { return fromStops[s] }

// Usage returns token counts as protobuf.
func Usage(u llm.Usage) *harnessv1.Usage {
	return &harnessv1.Usage{
		Input: u.Input, Output: u.Output, Reasoning: u.Reasoning, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
	}
}

// FromUsage is the reverse of [Usage]. Counts are brought within [llm.MaxCount]: steps stored by older versions may
// hold any.
func FromUsage(p *harnessv1.Usage) llm.Usage {
	return llm.Usage{
		Input: p.GetInput(), Output: p.GetOutput(), Reasoning: p.GetReasoning(),
		CacheRead: p.GetCacheRead(), CacheWrite: p.GetCacheWrite(),
	}.Bounded(llm.MaxCount)
}

// Stats returns measurements as protobuf, nil for nil.
func Stats(s *llm.Stats) *harnessv1.Stats {
	if s == nil {
		return nil
	}
	return &harnessv1.Stats{TtftMs: s.TTFT, DurationMs: s.Duration, Tps: s.TPS, Cost: Cost(s.Cost)}
}

// FromStats is the reverse of [Stats]. Numbers without a JSON form are 0.
func FromStats(p *harnessv1.Stats) *llm.Stats {
	if p == nil {
		return nil
	}
	s := &llm.Stats{Duration: finite(p.GetDurationMs()), TPS: finite(p.GetTps()), Cost: FromCost(p.GetCost())}
	if p.TtftMs != nil {
		ttft := finite(p.GetTtftMs())
		s.TTFT = &ttft
	}
	return s
}

// Cost returns a cost as protobuf, nil for nil.
func Cost(c *llm.Cost) *harnessv1.Cost {
	if c == nil {
		return nil
	}
	return &harnessv1.Cost{
		Input: c.Input, Output: c.Output, Reasoning: c.Reasoning,
		CacheRead: c.CacheRead, CacheWrite: c.CacheWrite, Total: c.Total,
	}
}

// FromCost is the reverse of [Cost]. Numbers without a JSON form are 0.
func FromCost(p *harnessv1.Cost) *llm.Cost {
	if p == nil {
		return nil
	}
	return &llm.Cost{
		Input: finite(p.GetInput()), Output: finite(p.GetOutput()), Reasoning: finite(p.GetReasoning()),
		CacheRead: finite(p.GetCacheRead()), CacheWrite: finite(p.GetCacheWrite()), Total: finite(p.GetTotal()),
	}
}

// finite returns 0 for a number without a JSON form.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

func inverse[K, V comparable](m map[K]V) map[V]K {
	out := make(map[V]K, len(m))
	for k, v := range m {
		out[v] = k
	}
	return out
}
