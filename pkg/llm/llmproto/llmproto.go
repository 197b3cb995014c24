// Package llmproto is the wire form of conversations and of a model's usage: package llm in kaged.harness.v1. It is
// used between session-manager and the harness, and for stored steps.
package llmproto

import (
	"math"

	"kaged.dev/pkg/llm"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Roles are the wire forms of the roles.
var Roles = map[llm.Role]harnessv1.Role{
	llm.RoleUser: harnessv1.Role_ROLE_USER, llm.RoleAssistant: harnessv1.Role_ROLE_ASSISTANT,
	llm.RoleTool: harnessv1.Role_ROLE_TOOL, llm.RoleSystem: harnessv1.Role_ROLE_SYSTEM,
}

var fromRoles = inverse(Roles)

//convert:use Roles stops fromStops
//convert:one Message llm.Message *harnessv1.Message >MessageId=- >Step=- >AlwaysKeep=-

// FromMessage is the reverse of [Message]. An unknown role counts as the user's.
func FromMessage(p *harnessv1.Message) llm.Message {
	role, ok := fromRoles[p.GetRole()]
	if !ok {
		role = llm.RoleUser
	}
	return llm.Message{Role: role, Blocks: FromBlocks(p.GetBlocks())}
}

// Results encodes the results of a step as one message.
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

//convert:both block fromBlock llm.Block *harnessv1.Block Call=ToolCall Result=ToolResult
//convert:both text fromText llm.Text *harnessv1.Text
//convert:both thinking fromThinking llm.Thinking *harnessv1.Thinking
//convert:both Call FromCall llm.ToolCall *harnessv1.ToolCall
//convert:both Result FromResult llm.ToolResult *harnessv1.ToolResult CallID=ToolCallId

// Blocks encodes blocks. An empty block is left out.
func Blocks(blocks []llm.Block) []*harnessv1.Block {
	out := make([]*harnessv1.Block, 0, len(blocks))
	for _, b := range blocks {
		if p := block(b); p.GetBlock() != nil {
			out = append(out, p)
		}
	}
	return out
}

// FromBlocks is the reverse of [Blocks]. A block of an unknown kind is left out.
func FromBlocks(blocks []*harnessv1.Block) []llm.Block {
	out := make([]llm.Block, 0, len(blocks))
	for _, p := range blocks {
		if b := fromBlock(p); b != (llm.Block{}) {
			out = append(out, b)
		}
	}
	return out
}

var stops = map[llm.StopReason]harnessv1.StopReason{
	llm.StopEnd: harnessv1.StopReason_STOP_REASON_STOP, llm.StopLength: harnessv1.StopReason_STOP_REASON_LENGTH,
	llm.StopToolUse: harnessv1.StopReason_STOP_REASON_TOOL_USE, llm.StopError: harnessv1.StopReason_STOP_REASON_ERROR,
	llm.StopAborted: harnessv1.StopReason_STOP_REASON_ABORTED,
}

var fromStops = inverse(stops)

// Stop encodes a stop reason.
func Stop(s llm.StopReason) harnessv1.StopReason { return stops[s] }

// FromStop is the reverse of [Stop]; unspecified gives "".
func FromStop(s harnessv1.StopReason) llm.StopReason { return fromStops[s] }

//convert:both Usage fromUsage llm.Usage *harnessv1.Usage
//convert:both Stats FromStats *llm.Stats *harnessv1.Stats TTFT=TtftMs Duration=DurationMs <float64=finite
//convert:both Cost FromCost *llm.Cost *harnessv1.Cost <float64=finite

// FromUsage is the reverse of [Usage]. Counts are limited to [llm.MaxCount], because steps stored by older versions may
// exceed it.
func FromUsage(p *harnessv1.Usage) llm.Usage { return fromUsage(p).Bounded(llm.MaxCount) }

// finite returns 0 for NaN and infinity, which JSON cannot hold.
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
