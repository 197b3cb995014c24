package server

import (
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// answerBytes bounds the shown parts of conversations in one answer together: one gRPC message, with room for the
// rest. Longer texts of models and tools are shortened alike until the answer fits. The stored ones stay whole.
const answerBytes = rpc.MaxMessage / 4 * 3

// overhead is about the size of a part besides its texts, nameBytes the shown part of a name or an id of others,
// and errorBytes that of a failure.
const (
	overhead   = 32
	nameBytes  = 1 << 10
	errorBytes = 64 << 10
)

// ellipsis ends a shortened text.
const ellipsis = "… [shortened]"

// level returns the most that each of some sizes may keep so that they have at most budget together.
func level(sizes []int, budget int) int {
	for i, size := range slices.Sorted(slices.Values(sizes)) {
		if share := max(budget, 0) / (len(sizes) - i); size > share {
			return share
		}
		budget -= size
	}
	return math.MaxInt
}

// weigh returns about how many bytes each block takes as a part, and no less.
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

// weighJSON returns about how many bytes a text takes inside JSON, as the value it is or as a string, and no less.
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

// parts returns blocks as the API shows them, in at most most bytes: where they have more, long ones are shortened
// alike, and where there are still too many, the last part says that the rest is missing.
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

// input is the input of a call, as its JSON and as it is shown.
type input struct {
	text  string
	value []byte
}

// part returns one block within about limit bytes, nil for a block of no kind. A call's input goes into inputs,
// where its result finds it.
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
		}
	}
	return nil
}

// value returns a call's input as the JSON it stands for, and where that would be larger than limit as a string,
// shortened to limit.
func value(text string, limit int) []byte {
	if weighJSON(text) <= limit {
		return wirejson.Raw(text)
	}
	return wirejson.AppendString(nil, clip.JSON(text, max(limit-len(ellipsis)-2, 0))+ellipsis)
}

func shorten(s string, limit int) string { return clip.Within(s, limit, ellipsis) }

// few returns the first of a list of texts, within limit together.
func few(texts []string, limit int) []string {
	for i, s := range texts {
		if limit -= len(s) + overhead; limit < 0 {
			return append(slices.Clone(texts[:i]), ellipsis)
		}
	}
	return texts
}
