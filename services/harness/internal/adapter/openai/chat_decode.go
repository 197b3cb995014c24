package openai

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidwall/gjson"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// chatDecoder reads the chunks of one answer of the Chat Completions API.
type chatDecoder struct {
	origin string
	// last is the part of the last text or thinking; kind is its kind.
	last *wire.Part
	kind wire.Kind
	// calls are the calls by index. current is the call for deltas without an index.
	calls   map[int64]*wire.Part
	current *wire.Part
	finish  string
	usage   llm.Usage
}

func newChatDecoder(origin string) *chatDecoder {
	return &chatDecoder{origin: origin, calls: map[int64]*wire.Part{}}
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

// Decode reads one chunk.
func (d *chatDecoder) Decode(ev wire.Event, out *wire.Output) error {
	if string(ev.Data) == "[DONE]" {
		if d.finish == "" && out.Empty() {
			return errors.New("[DONE] before any answer")
		}
		return d.end(out)
	}
	chunk, err := wire.Object(ev.Data)
	if err != nil {
		return err
	}
	if ev.Name == "error" || chunk.Get("object").Str == "error" {
		return streamError(ev.Data)
	}
	usage, chosen := false, false
	chunk.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "choices":
			chosen, err = d.choices(value, out)
		case "usage":
			if value.IsObject() {
				usage = true
				err = d.count(value.Raw)
			}
		case "error":
			if value.Type != gjson.Null {
				err = streamError(ev.Data)
			}
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if d.finish != "" && usage && !chosen {
		// The usage chunk is the last; later chunks are ignored.
		return d.end(out)
	}
	return nil
}

// choices reads a chunk's choices: at most one, because the request asks for one. It reports whether the chunk has a
// choice.
func (d *chatDecoder) choices(list gjson.Result, out *wire.Output) (bool, error) {
	if list.Type == gjson.Null {
		return false, nil
	}
	if !list.IsArray() {
		return false, errors.New("choices is no list")
	}
	chosen := false
	var err error
	list.ForEach(func(_, choice gjson.Result) bool {
		if !choice.IsObject() {
			err = errors.New("a choice is no object")
			return false
		}
		chosen = true
		if choice.Get("index").Int() == 0 {
			out.Accept()
			choice.ForEach(func(key, value gjson.Result) bool {
				switch key.Str {
				case "delta":
					d.delta(value, out)
				case "finish_reason":
					if reason := wire.Text(value); reason != "" {
						d.finish = reason
					}
				}
				return true
			})
		}
		return true
	})
	return chosen, err
}

// End finishes an answer of a server that sends no [DONE].
func (d *chatDecoder) End(out *wire.Output) error {
	if d.finish == "" {
		return nil
	}
	return d.end(out)
}

// delta reads one chunk. Servers use different names for thinking, and some send it under two names: the first
// counts.
func (d *chatDecoder) delta(delta gjson.Result, out *wire.Output) {
	thought := false
	var content, calls gjson.Result
	delta.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "content":
			content = value
		case "refusal":
			if s := wire.Text(value); s != "" {
				d.write(wire.KindText, s, out)
			}
		case "reasoning_content", "reasoning", "reasoning_text":
			if s := wire.Text(value); s != "" && !thought {
				thought = true
				d.think(key.Str, s, out)
			}
		case "tool_calls":
			calls = value
		}
		return true
	})
	if s := flexText(content); s != "" {
		d.write(wire.KindText, s, out)
	}
	if calls.IsArray() {
		calls.ForEach(func(_, call gjson.Result) bool {
			d.call(call, out)
			return true
		})
	}
}

// flexText reads a text that servers encode as a string, as a list of parts with text, or, for arguments, as an
// object.
func flexText(v gjson.Result) string {
	switch {
	case v.IsObject():
		return strings.Clone(v.Raw)
	case v.IsArray():
		var b strings.Builder
		v.ForEach(func(_, part gjson.Result) bool {
			b.WriteString(wire.Text(part.Get("text")))
			return true
		})
		return b.String()
	}
	return wire.Text(v)
}

func (d *chatDecoder) think(field, s string, out *wire.Output) {
	d.write(wire.KindThinking, s, out)
	if d.last.Opaque == nil {
		out.SetOpaque(d.last, opaque{Origin: d.origin, Field: field}.encode())
	}
}

// write adds to the last part, or opens a new part if the last one is of another kind.
func (d *chatDecoder) write(kind wire.Kind, s string, out *wire.Output) {
	if d.last == nil || d.kind != kind {
		d.last, d.kind = out.Open(kind), kind
	}
	out.Write(d.last, s)
}

// call adds a delta to its call. The index identifies the call. If a server sends no index, or the same index for all
// calls, a new id begins a new call.
func (d *chatDecoder) call(c gjson.Result, out *wire.Output) {
	id, name, index := wire.Text(c.Get("id")), wire.Text(c.Get("function.name")), c.Get("index")
	indexed := index.Type == gjson.Number
	p := d.current
	if indexed {
		p = d.calls[index.Int()]
	}
	begins := name != "" && (!indexed || id != "" && p != nil && p.ID != "" && id != p.ID)
	if p == nil || begins {
		p = out.Open(wire.KindCall)
		// Text after a call is a new block.
		d.last = nil
	}
	if indexed {
		d.calls[index.Int()] = p
	}
	d.current = p
	if p.ID == "" {
		p.ID = id
	}
	if p.Name == "" {
		p.Name = name
	}
	out.Take(len(id) + len(name))
	out.Write(p, flexText(c.Get("function.arguments")))
}

// count replaces the usage by a chunk's usage; servers that report it repeatedly report running totals. Some servers
// exclude reasoning from the completion, which their total reveals.
func (d *chatDecoder) count(raw string) error {
	var u chatUsage
	if err := json.Unmarshal([]byte(raw), &u); err != nil {
		return err
	}
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
	return nil
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
