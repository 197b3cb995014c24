package openai

import (
	"encoding/json"
	"errors"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// chatDecoder reads the chunks of one answer of the Chat Completions API.
type chatDecoder struct {
	origin string
	// last is the part that the last text or thinking went to, kind what it is.
	last *wire.Part
	kind wire.Kind
	// calls are the calls by index, current is the one that deltas without an index belong to.
	calls   map[int]*wire.Part
	current *wire.Part
	finish  string
	usage   llm.Usage
}

func newChatDecoder(origin string) *chatDecoder {
	return &chatDecoder{origin: origin, calls: map[int]*wire.Part{}}
}

// chunk is what is read of every chunk.
type chunk struct {
	Object  string `json:"object"`
	Choices []struct {
		Index        int       `json:"index"`
		Delta        chatDelta `json:"delta"`
		FinishReason string    `json:"finish_reason"`
	} `json:"choices"`
	Usage *chatUsage      `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatDelta struct {
	Content flexText `json:"content"`
	Refusal flexText `json:"refusal"`
	// The names under which compatible servers give thinking.
	ReasoningContent flexText       `json:"reasoning_content"`
	Reasoning        flexText       `json:"reasoning"`
	ReasoningText    flexText       `json:"reasoning_text"`
	ToolCalls        []chatToolCall `json:"tool_calls"`
}

type chatToolCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string   `json:"name"`
		Arguments flexText `json:"arguments"`
	} `json:"function"`
}

type chatUsage struct {
	Prompt        float64 `json:"prompt_tokens"`
	Completion    float64 `json:"completion_tokens"`
	Total         float64 `json:"total_tokens"`
	CacheHit      float64 `json:"prompt_cache_hit_tokens"`
	PromptDetails *struct {
		Cached     float64 `json:"cached_tokens"`
		CacheWrite float64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails *struct {
		Reasoning float64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// flexText is text that servers also write as null, as a list of parts with text, or, for arguments, as an object.
type flexText string

// UnmarshalJSON reads any of the forms.
func (t *flexText) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '"':
		return json.Unmarshal(data, (*string)(t))
	case '{':
		*t = flexText(data)
	case '[':
		var parts []struct {
			Text flexText `json:"text"`
		}
		if err := json.Unmarshal(data, &parts); err != nil {
			return err
		}
		for _, p := range parts {
			*t += p.Text
		}
	}
	return nil
}

// Decode reads one chunk.
func (d *chatDecoder) Decode(ev wire.Event, out *wire.Output) error {
	if string(ev.Data) == "[DONE]" {
		if d.finish == "" && out.Empty() {
			return errors.New("[DONE] before anything was said")
		}
		return d.end(out)
	}
	var c chunk
	if err := json.Unmarshal(ev.Data, &c); err != nil {
		return err
	}
	if c.Object == "error" || ev.Name == "error" || len(c.Error) > 0 && string(c.Error) != "null" {
		return streamError(ev.Data)
	}
	if c.Usage != nil {
		d.count(c.Usage)
	}
	for i := range c.Choices {
		if choice := &c.Choices[i]; choice.Index == 0 {
			out.Accept()
			d.delta(&choice.Delta, out)
			if choice.FinishReason != "" {
				d.finish = choice.FinishReason
			}
		}
	}
	if d.finish != "" && c.Usage != nil && len(c.Choices) == 0 {
		// The usage chunk is the last; what may follow says nothing.
		return d.end(out)
	}
	return nil
}

// End finishes an answer whose server leaves out [DONE].
func (d *chatDecoder) End(out *wire.Output) error {
	if d.finish == "" {
		return nil
	}
	return d.end(out)
}

func (d *chatDecoder) delta(delta *chatDelta, out *wire.Output) {
	for _, t := range []struct {
		field string
		text  flexText
	}{{"reasoning_content", delta.ReasoningContent}, {"reasoning", delta.Reasoning}, {"reasoning_text", delta.ReasoningText}} {
		if t.text != "" {
			d.write(wire.KindThinking, string(t.text), out)
			if d.last.Opaque == nil {
				out.SetOpaque(d.last, opaque{Origin: d.origin, Field: t.field}.encode())
			}
			// Servers exist that send the same under two names.
			break
		}
	}
	if s := delta.Content + delta.Refusal; s != "" {
		d.write(wire.KindText, string(s), out)
	}
	for i := range delta.ToolCalls {
		d.call(&delta.ToolCalls[i], out)
	}
}

// write adds to the last part, or opens one if that is of another kind.
func (d *chatDecoder) write(kind wire.Kind, s string, out *wire.Output) {
	if d.last == nil || d.kind != kind {
		d.last, d.kind = out.Open(kind), kind
	}
	out.Write(d.last, s)
}

// call adds a delta to its call. A call is told by its index; where a server gives none, or the same to all, a new id
// begins a new call.
func (d *chatDecoder) call(c *chatToolCall, out *wire.Output) {
	p := d.current
	if c.Index != nil {
		p = d.calls[*c.Index]
	}
	begins := c.Function.Name != "" && (c.Index == nil || c.ID != "" && p != nil && p.ID != "" && c.ID != p.ID)
	if p == nil || begins {
		p = out.Open(wire.KindCall)
		// Text after a call is another block.
		d.last = nil
	}
	if c.Index != nil {
		d.calls[*c.Index] = p
	}
	d.current = p
	if p.ID == "" {
		p.ID = c.ID
	}
	if p.Name == "" {
		p.Name = c.Function.Name
	}
	out.Take(len(c.ID) + len(c.Function.Name))
	out.Write(p, string(c.Function.Arguments))
}

// count takes over the usage of a chunk; servers that report it more than once count up. Some do not include reasoning
// in the completion: their total tells.
func (d *chatDecoder) count(u *chatUsage) {
	cached, written, reasoning, completion := u.CacheHit, 0.0, 0.0, u.Completion
	if p := u.PromptDetails; p != nil {
		cached, written = max(cached, p.Cached), p.CacheWrite
	}
	if c := u.CompletionDetails; c != nil {
		reasoning = c.Reasoning
	}
	if reasoning > 0 && u.Total == u.Prompt+u.Completion+reasoning {
		completion += reasoning
	}
	d.usage = usage(u.Prompt, completion, cached, written, reasoning)
}

// end finishes the answer by its finish reason.
func (d *chatDecoder) end(out *wire.Output) error {
	switch d.finish {
	case "length", "max_tokens", "model_length":
		out.Finish(llm.StopLength, d.usage)
	case "content_filter", "sensitive":
		return wire.Refusal("its content filter stopped it (" + d.finish + ")")
	case "error", "network_error", "insufficient_system_resource":
		return &wire.EventError{Kind: d.finish, Message: "the provider ended the answer with " + d.finish}
	default:
		out.Finish(llm.StopEnd, d.usage)
	}
	return nil
}
