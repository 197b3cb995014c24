package transcript

import (
	"encoding/json"
	"fmt"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/llm"
)

// The stored types of blocks.
const (
	typeText       = "text"
	typeThinking   = "thinking"
	typeToolCall   = "tool_call"
	typeToolResult = "tool_result"
)

// block is a block in its stored form.
type block struct {
	Type       string `json:"type"`
	Text       string `json:"text,omitempty"`
	Opaque     []byte `json:"opaque,omitempty"`
	Driver     string `json:"driver,omitempty"`
	ID         string `json:"id,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
	Name       string `json:"name,omitempty"`
	Input      string `json:"input,omitempty"`
	Output     string `json:"output,omitempty"`
	IsError    bool   `json:"is_error,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
}

// EncodeBlocks returns blocks as JSON for the store; texts are made [check.Storable].
func EncodeBlocks(blocks []llm.Block) ([]byte, error) {
	kept := make([]block, 0, len(blocks))
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			kept = append(kept, block{Type: typeText, Text: check.Storable(b.Text.Text)})
		case b.Thinking != nil:
			kept = append(kept, block{
				Type: typeThinking, Text: check.Storable(b.Thinking.Text), Opaque: b.Thinking.Opaque, Driver: b.Thinking.Driver,
			})
		case b.Call != nil:
			kept = append(kept, block{
				Type: typeToolCall, ID: check.Storable(b.Call.ID), Name: check.Storable(b.Call.Name),
				Input: check.Storable(b.Call.Input),
			})
		case b.Result != nil:
			kept = append(kept, block{
				Type: typeToolResult, ToolCallID: check.Storable(b.Result.CallID), Name: check.Storable(b.Result.Name),
				Output: check.Storable(b.Result.Content), IsError: b.Result.IsError, DurationMS: b.Result.DurationMS,
			})
		}
	}
	return json.Marshal(kept)
}

// DecodeBlocks is the reverse of [EncodeBlocks]. It fails for data that EncodeBlocks cannot have written.
func DecodeBlocks(data []byte) ([]llm.Block, error) {
	var kept []block
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, err
	}
	blocks := make([]llm.Block, len(kept))
	for i, k := range kept {
		switch k.Type {
		case typeText:
			blocks[i].Text = &llm.Text{Text: k.Text}
		case typeThinking:
			blocks[i].Thinking = &llm.Thinking{Text: k.Text, Opaque: k.Opaque, Driver: k.Driver}
		case typeToolCall:
			blocks[i].Call = &llm.ToolCall{ID: k.ID, Name: k.Name, Input: k.Input}
		case typeToolResult:
			blocks[i].Result = &llm.ToolResult{
				CallID: k.ToolCallID, Name: k.Name, Content: k.Output, IsError: k.IsError, DurationMS: k.DurationMS,
			}
		default:
			return nil, fmt.Errorf("a stored message holds a block of type %q", k.Type)
		}
	}
	return blocks, nil
}
