package google

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidwall/gjson"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// decoder reads the chunks of one answer.
type decoder struct {
	origin string
	// last is the part that the next text or thinking is added to; nil if a new part begins. kind is its kind.
	last *wire.Part
	kind wire.Kind
	// finish is the model's reason for stopping, message the API's sentence about it.
	finish, message string
	usage           usage
}

// usage holds the token counts of an answer in Google's units.
type usage struct{ prompt, toolPrompt, cached, candidates, thoughts float64 }

// Decode reads one chunk.
func (d *decoder) Decode(ev wire.Event, out *wire.Output) error {
	if string(ev.Data) == "[DONE]" {
		// The API sends no such event, but some servers end every stream with it.
		return nil
	}
	chunk, err := wire.Object(ev.Data)
	if err != nil {
		return err
	}
	var blocked string
	chunk.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "error":
			if value.Type != gjson.Null {
				err = wire.ErrorObject(json.RawMessage(value.Raw))
			}
		case "candidates":
			err = d.candidates(value, out)
		case "usageMetadata":
			err = d.count(value)
		case "promptFeedback":
			blocked = wire.Text(value.Get("blockReason"))
		}
		return err == nil
	})
	if err == nil && blocked != "" {
		return wire.Refusal("its safety rules refuse the conversation (" + blocked + ")")
	}
	return err
}

// candidates reads a chunk's candidates: at most one, because the request asks for one.
func (d *decoder) candidates(list gjson.Result, out *wire.Output) error {
	if list.Type == gjson.Null {
		return nil
	}
	if !list.IsArray() {
		return errors.New("candidates is no list")
	}
	var err error
	list.ForEach(func(_, candidate gjson.Result) bool {
		if !candidate.IsObject() {
			err = errors.New("a candidate is no object")
			return false
		}
		if candidate.Get("index").Int() != 0 {
			return true
		}
		out.Accept()
		candidate.ForEach(func(key, value gjson.Result) bool {
			switch key.Str {
			case "content":
				err = d.parts(value.Get("parts"), out)
			case "finishReason":
				if reason := wire.Text(value); reason != "" && reason != "FINISH_REASON_UNSPECIFIED" {
					d.finish = reason
				}
			case "finishMessage":
				d.message = wire.Text(value)
			}
			return err == nil
		})
		return err == nil
	})
	return err
}

func (d *decoder) parts(list gjson.Result, out *wire.Output) error {
	if !list.Exists() || list.Type == gjson.Null {
		// The last chunk often has no parts.
		return nil
	}
	if !list.IsArray() {
		return errors.New("parts is no list")
	}
	var err error
	list.ForEach(func(_, p gjson.Result) bool {
		if !p.IsObject() {
			err = errors.New("a part is no object")
			return false
		}
		d.part(p, out)
		return true
	})
	return err
}

// part reads a part. It skips media and the parts of tools that run at the provider, which kaged does not offer.
func (d *decoder) part(p gjson.Result, out *wire.Output) {
	var text, signature string
	var call gjson.Result
	said, thought := false, false
	p.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "text":
			text, said = wire.Text(value), true
		case "thought":
			thought = value.Bool()
		case "thoughtSignature":
			signature = wire.Text(value)
		case "functionCall":
			call = value
		}
		return true
	})
	switch {
	case call.IsObject():
		d.sign(onCall, signature, out)
		d.call(call, out)
	case thought:
		d.write(wire.KindThinking, text, out)
		d.sign(onThought, signature, out)
	case said && text != "":
		// A signed text is not joined with the texts around it.
		d.sign(onText, signature, out)
		d.write(wire.KindText, text, out)
		if signature != "" {
			d.last = nil
		}
	default:
		d.sign(onEmpty, signature, out)
	}
}

// write adds to the last part, or opens a new part if the last one is of another kind.
func (d *decoder) write(kind wire.Kind, s string, out *wire.Output) {
	if s == "" {
		return
	}
	if d.last == nil || d.kind != kind {
		d.last, d.kind = out.Open(kind), kind
		if kind == wire.KindThinking {
			out.SetOpaque(d.last, opaque{Origin: d.origin}.encode())
		}
	}
	out.Write(d.last, s)
}

// sign stores a signature in the thinking block just before it, or else in a new thinking block without text.
func (d *decoder) sign(on, signature string, out *wire.Output) {
	if signature == "" {
		return
	}
	p := d.last
	if p == nil || d.kind != wire.KindThinking {
		p = out.Open(wire.KindThinking)
	}
	out.SetOpaque(p, opaque{Origin: d.origin, Signature: signature, On: on}.encode())
	d.last = nil
}

// call reads a call, which arrives complete. Most models give it no id.
func (d *decoder) call(c gjson.Result, out *wire.Output) {
	p := out.Open(wire.KindCall)
	p.ID, p.Name = wire.Text(c.Get("id")), wire.Text(c.Get("name"))
	out.Take(len(p.ID) + len(p.Name))
	args := "{}"
	if a := c.Get("args"); a.IsObject() {
		args = strings.Clone(strings.ToValidUTF8(a.Raw, "\uFFFD"))
	}
	out.Write(p, args)
	d.last = nil
}

// count updates the usage by a chunk. Counts are cumulative. A count that is missing in a chunk keeps its value.
func (d *decoder) count(v gjson.Result) error {
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsObject() {
		return errors.New("usageMetadata is no object")
	}
	v.ForEach(func(key, n gjson.Result) bool {
		switch key.Str {
		case "promptTokenCount":
			d.usage.prompt = n.Num
		case "toolUsePromptTokenCount":
			d.usage.toolPrompt = n.Num
		case "cachedContentTokenCount":
			d.usage.cached = n.Num
		case "candidatesTokenCount":
			d.usage.candidates = n.Num
		case "thoughtsTokenCount":
			d.usage.thoughts = n.Num
		}
		return true
	})
	return nil
}

// total converts Google's counts: its input includes cached tokens, and its output excludes thoughts.
func (u usage) total() llm.Usage {
	count := func(f float64) int64 { return int64(min(max(0, f), llm.MaxReported)) }
	t := llm.Usage{CacheRead: count(u.cached), Reasoning: count(u.thoughts)}
	t.Input = max(0, count(u.prompt)+count(u.toolPrompt)-t.CacheRead)
	t.Output = min(count(u.candidates)+t.Reasoning, llm.MaxReported)
	t.Input = min(t.Input, llm.MaxReported)
	return t
}

// End finishes an answer that has a finish reason. The stream has no closing event.
func (d *decoder) End(out *wire.Output) error {
	switch d.finish {
	case "":
		return nil
	case "MAX_TOKENS":
		out.Finish(llm.StopLength, d.usage.total())
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return wire.Refusal("its safety rules stopped it (" + d.finish + ")")
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER":
		said := d.message
		if said == "" {
			said = "the provider ended the answer with " + d.finish
		}
		return &wire.EventError{Kind: d.finish, Message: said}
	default:
		out.Finish(llm.StopEnd, d.usage.total())
	}
	return nil
}
