package server

import (
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/optional"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// answerBytes bounds the total size of conversation parts in one answer, so that the answer fits into one gRPC
// message. Longer texts of models and tools are shortened to one limit; the stored texts stay complete.
const answerBytes = rpc.MaxMessage / 4 * 3

// overhead is the approximate size of a part without its texts; nameBytes bounds a name or an id that a model
// chose, and errorBytes an error message.
const (
	overhead   = 32
	nameBytes  = 1 << 10
	errorBytes = 64 << 10
)

// ellipsis is the end of a shortened text.
const ellipsis = "… [shortened]"

// level returns the largest limit with which the sizes, each cut to the limit, sum up to at most budget.
func level(sizes []int, budget int) int {
	for i, size := range slices.Sorted(slices.Values(sizes)) {
		if share := max(budget, 0) / (len(sizes) - i); size > share {
			return share
		}
		budget -= size
	}
	return math.MaxInt
}

// weigh returns an upper estimate of the bytes of each block as a part.
func weigh(blocks []llm.Block) []int {
	weights, inputs := make([]int, len(blocks)), map[string]int{}
	for i, b := range blocks {
		switch {
		case b.Text != nil:
			weights[i] = overhead + len(b.Text.Text)
		case b.Thinking != nil:
			weights[i] = overhead + len(b.Thinking.Text)
		case b.Call != nil:
			inputs[b.Call.ID] = weighJSON(b.Call.Input)
			weights[i] = overhead + len(b.Call.ID) + len(b.Call.Name) + inputs[b.Call.ID]
		case b.Result != nil:
			weights[i] = overhead + len(b.Result.CallID) + len(b.Result.Name) + len(b.Result.Content) + inputs[b.Result.CallID]
		}
	}
	return weights
}

// weighJSON returns an upper estimate of the bytes of a text inside JSON, as a JSON value or as a string.
func weighJSON(s string) int {
	n := len(s) + 2
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += 5
		}
	}
	return n
}

func sum(sizes []int) int {
	n := 0
	for _, size := range sizes {
		n += size
	}
	return n
}

// parts returns blocks in the form of the API, with at most most bytes. Long texts are shortened to one limit. If
// that is not enough, the last part is an ellipsis in place of the rest.
func parts(blocks []llm.Block, most int) []*apiv1.MessagePart {
	limit := level(weigh(blocks), most-most/8)
	inputs := map[string]input{}
	out := make([]*apiv1.MessagePart, 0, len(blocks))
	used := overhead
	for _, b := range blocks {
		p := part(b, limit, inputs)
		if p == nil {
			continue
		}
		if used += proto.Size(p) + overhead/2; used > most {
			return append(out, &apiv1.MessagePart{Type: "text", Text: ellipsis})
		}
		out = append(out, p)
	}
	return out
}

// input is the input of a call: its JSON text, and its form in the API.
type input struct {
	text  string
	value []byte
}

// part returns one block with about limit bytes, or nil for an empty block. It adds a call's input to inputs for
// the call's result.
func part(b llm.Block, limit int, inputs map[string]input) *apiv1.MessagePart {
	switch {
	case b.Text != nil:
		return &apiv1.MessagePart{Type: "text", Text: shorten(b.Text.Text, limit)}
	case b.Thinking != nil:
		return &apiv1.MessagePart{Type: "thinking", Text: shorten(b.Thinking.Text, limit)}
	case b.Call != nil:
		in := input{b.Call.Input, value(b.Call.Input, limit)}
		inputs[b.Call.ID] = in
		return &apiv1.MessagePart{
			Type: "tool_call", Id: shorten(b.Call.ID, nameBytes), Name: shorten(b.Call.Name, nameBytes), Input: in.value,
		}
	case b.Result != nil:
		in, called := inputs[b.Result.CallID]
		if called && len(in.value)+len(b.Result.Content) > limit {
			in.value = value(in.text, limit/2)
		}
		return &apiv1.MessagePart{
			Type: "tool_result", ToolCallId: shorten(b.Result.CallID, nameBytes), Name: shorten(b.Result.Name, nameBytes),
			Input: in.value, Output: shorten(b.Result.Content, limit-len(in.value)), IsError: b.Result.IsError,
			DurationMs: optional.NonZero(b.Result.DurationMS),
		}
	}
	return nil
}

// value returns a call's input as JSON. An input above limit becomes a string that is shortened to limit.
func value(text string, limit int) []byte {
	if weighJSON(text) <= limit {
		return wirejson.Raw(text)
	}
	return wirejson.AppendString(nil, clip.JSON(text, max(limit-len(ellipsis)-2, 0))+ellipsis)
}

func shorten(s string, limit int) string { return clip.Within(s, limit, ellipsis) }

// few returns the first texts of a list, with at most limit bytes together.
func few(texts []string, limit int) []string {
	for i, s := range texts {
		if limit -= len(s) + overhead; limit < 0 {
			return append(slices.Clone(texts[:i]), ellipsis)
		}
	}
	return texts
}
