package llm

import "slices"

// Unanswered is the result of an interrupted call that has no other result in its conversation.
const Unanswered = "The call was cut off before it had a result. It may have had effects."

// Normalize converts a conversation to the form that every provider accepts, and shares the unchanged parts:
//
//   - empty blocks and messages are gone;
//   - the results of a turn's calls follow the turn in one message of RoleTool, in the order of the calls, and a call
//     without a result is answered by [Unanswered];
//   - a result that answers no call of the turn before it is gone, and so is a second result for the same call;
//   - neighbours of the same role are one message.
//
// A conversation in this form is returned unchanged, so that prompt caches stay valid.
func Normalize(messages []Message) []Message {
	out, _ := NormalizeFrom(messages)
	return out
}

// NormalizeFrom is [Normalize] and also returns the origin of each message: the indexes in messages, at least one. The
// origin of a message of RoleTool is its turn.
func NormalizeFrom(messages []Message) (out []Message, from [][]int) {
	out, from = make([]Message, 0, len(messages)), make([][]int, 0, len(messages))
	add := func(m Message, i int) {
		if n := len(out); n > 0 && out[n-1].Role == m.Role {
			out[n-1].Blocks = slices.Concat(out[n-1].Blocks, m.Blocks)
			from[n-1] = append(from[n-1], i)
			return
		}
		out, from = append(out, m), append(from, []int{i})
	}
	for i, m := range messages {
		switch m.Role {
		case RoleTool:
			// Handled together with the turn that they answer.
		case RoleAssistant:
			turn := spoken(m.Blocks)
			if len(turn) == 0 {
				continue
			}
			add(Message{Role: RoleAssistant, Blocks: turn}, i)
			if results := answers(turn, messages[i+1:]); len(results) > 0 {
				add(Message{Role: RoleTool, Blocks: results}, i)
			}
		default:
			if blocks := spoken(m.Blocks); len(blocks) > 0 {
				add(Message{Role: m.Role, Blocks: blocks}, i)
			}
		}
	}
	return out, from
}

// Normal reports whether a conversation has the form of [Normalize]. The first n messages are known to begin one that
// has it.
func Normal(messages []Message, n int) bool {
	for i := max(0, n-1); i < len(messages); i++ {
		m := messages[i]
		var before Message
		if i > 0 {
			before = messages[i-1]
		}
		if len(m.Blocks) == 0 || m.Role == before.Role {
			return false
		}
		if m.Role == RoleTool {
			if before.Role != RoleAssistant || !answered(before.Blocks, m.Blocks) {
				return false
			}
			continue
		}
		if len(spoken(m.Blocks)) != len(m.Blocks) {
			return false
		}
		if before.Role == RoleAssistant && slices.ContainsFunc(before.Blocks, isCall) {
			return false
		}
	}
	if n := len(messages); n > 0 && messages[n-1].Role == RoleAssistant {
		return !slices.ContainsFunc(messages[n-1].Blocks, isCall)
	}
	return true
}

func isCall(b Block) bool { return b.Call != nil }

// answered reports whether results are one result for each call of a turn, in their order. Calls with the same id have
// the same result.
func answered(turn, results []Block) bool {
	n := 0
	first := map[string]ToolResult{}
	for _, b := range turn {
		if b.Call == nil {
			continue
		}
		if n == len(results) || results[n].Result == nil || results[n].Result.CallID != b.Call.ID {
			return false
		}
		result := *results[n].Result
		result.DurationMS = 0
		if earlier, ok := first[result.CallID]; ok && earlier != result {
			return false
		}
		first[result.CallID] = result
		n++
	}
	return n > 0 && n == len(results)
}

// spoken returns the blocks that are neither empty nor results.
func spoken(blocks []Block) []Block {
	says := func(b Block) bool {
		switch {
		case b.Text != nil:
			return b.Text.Text != ""
		case b.Thinking != nil:
			return b.Thinking.Text != "" || len(b.Thinking.Opaque) > 0
		}
		return b.Call != nil
	}
	for _, b := range blocks {
		if !says(b) {
			return slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return !says(b) })
		}
	}
	return blocks
}

// answers returns a result for each call of a turn, from the messages that follow it up to the next turn.
func answers(turn []Block, after []Message) []Block {
	given := map[string]*ToolResult{}
	for _, m := range after {
		if m.Role == RoleAssistant && len(spoken(m.Blocks)) > 0 {
			break
		}
		for _, b := range m.Blocks {
			if b.Result != nil && given[b.Result.CallID] == nil {
				given[b.Result.CallID] = b.Result
			}
		}
	}
	var results []Block
	for _, b := range turn {
		if b.Call == nil {
			continue
		}
		r := given[b.Call.ID]
		if r == nil {
			r = &ToolResult{CallID: b.Call.ID, Name: b.Call.Name, Content: Unanswered, IsError: true}
		}
		results = append(results, Block{Result: r})
	}
	return results
}
