package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/tidwall/gjson"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// decoder reads the events of one answer.
type decoder struct {
	origin string
	blocks map[int64]*block
	stop   string
	usage  llm.Usage
}

// block is an open block of the answer.
type block struct {
	part      *wire.Part
	signature []byte
}

func newDecoder(origin string) *decoder { return &decoder{origin: origin, blocks: map[int64]*block{}} }

// Decode reads one event.
func (d *decoder) Decode(ev wire.Event, out *wire.Output) error {
	// Some servers omit the event's name, so the type in the data decides.
	e, err := wire.Object(ev.Data)
	if err != nil {
		return err
	}
	kind := e.Get("type")
	switch kind.Str {
	case "content_block_delta":
		return d.delta(e, out)
	case "message_start":
		return d.start(ev.Data, out)
	case "content_block_start":
		return d.open(ev.Data, out)
	case "content_block_stop":
		return d.close(ev.Data, out)
	case "message_delta":
		return d.messageDelta(ev.Data)
	case "message_stop":
		return d.finish(out)
	case "error":
		return wire.ErrorObject(json.RawMessage(e.Get("error").Raw))
	}
	if kind.Type != gjson.String {
		return errors.New("the event has no type")
	}
	// Pings and unknown kinds of events.
	return nil
}

// End does nothing: an answer without message_stop is incomplete.
func (d *decoder) End(*wire.Output) error { return nil }

func (d *decoder) start(data []byte, out *wire.Output) error {
	var ev sdk.MessageStartEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return err
	}
	u := ev.Message.Usage
	d.count(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens,
		u.OutputTokensDetails.ThinkingTokens)
	out.AcceptCounted(d.usage)
	return nil
}

func (d *decoder) open(data []byte, out *wire.Output) error {
	var ev sdk.ContentBlockStartEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return err
	}
	b, c := &block{}, ev.ContentBlock
	switch c.Type {
	case "text":
		b.part = out.Open(wire.KindText)
		out.Write(b.part, c.Text)
	case "thinking":
		b.part, b.signature = out.Open(wire.KindThinking), []byte(c.Signature)
		out.Write(b.part, c.Thinking)
	case "redacted_thinking":
		b.part = out.Open(wire.KindThinking)
		out.SetOpaque(b.part, d.opaque(opaque{Redacted: c.Data}))
	case "tool_use":
		b.part = out.Open(wire.KindCall)
		b.part.ID, b.part.Name = c.ID, c.Name
		// Usually {}, and the input follows in deltas. Some servers send the whole input here.
		if raw := c.JSON.Input.Raw(); raw != "{}" && raw != "null" {
			out.Write(b.part, raw)
		}
	default:
		// Blocks of tools that run at the provider, which kaged does not offer.
	}
	d.blocks[ev.Index] = b
	out.Take(len(c.ID) + len(c.Name))
	return nil
}

func (d *decoder) delta(e gjson.Result, out *wire.Output) error {
	index, delta := e.Get("index").Int(), e.Get("delta")
	b := d.blocks[index]
	if b == nil {
		return fmt.Errorf("delta for block %d, which is not open", index)
	}
	if b.part == nil {
		return nil
	}
	switch delta.Get("type").Str {
	case "text_delta":
		out.Write(b.part, wire.Text(delta.Get("text")))
	case "thinking_delta":
		out.Write(b.part, wire.Text(delta.Get("thinking")))
	case "input_json_delta":
		out.Write(b.part, wire.Text(delta.Get("partial_json")))
	case "signature_delta":
		signature := wire.Text(delta.Get("signature"))
		out.Take(len(signature))
		b.signature = append(b.signature, signature...)
	}
	return nil
}

func (d *decoder) close(data []byte, out *wire.Output) error {
	var ev sdk.ContentBlockStopEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return err
	}
	if b := d.blocks[ev.Index]; b != nil {
		d.sign(b, out)
	}
	delete(d.blocks, ev.Index)
	return nil
}

// sign keeps the signature of a thinking block.
func (d *decoder) sign(b *block, out *wire.Output) {
	if len(b.signature) > 0 {
		out.SetOpaque(b.part, d.opaque(opaque{Signature: string(b.signature)}))
	}
}

func (d *decoder) messageDelta(data []byte) error {
	var ev sdk.MessageDeltaEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return err
	}
	if ev.Delta.StopReason != "" {
		d.stop = string(ev.Delta.StopReason)
	}
	u := ev.Usage
	d.count(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens,
		u.OutputTokensDetails.ThinkingTokens)
	return nil
}

// count updates the usage by an event. Counts are cumulative, and a missing count reads as 0. Input excludes cached
// tokens, as llm.Usage requires.
func (d *decoder) count(input, output, cacheRead, cacheWrite, reasoning int64) {
	set := func(dst *int64, v int64) {
		if v > 0 {
			*dst = v
		}
	}
	set(&d.usage.Input, input)
	set(&d.usage.Output, output)
	set(&d.usage.CacheRead, cacheRead)
	set(&d.usage.CacheWrite, cacheWrite)
	set(&d.usage.Reasoning, min(reasoning, d.usage.Output))
}

func (d *decoder) finish(out *wire.Output) error {
	for _, b := range d.blocks {
		d.sign(b, out)
	}
	switch d.stop {
	case "":
		return errors.New("message_stop without a stop reason")
	case "refusal":
		return wire.Refusal("the model's safety rules stopped it (refusal)")
	case "max_tokens", "model_context_window_exceeded":
		out.Finish(llm.StopLength, d.usage)
	default:
		out.Finish(llm.StopEnd, d.usage)
	}
	return nil
}

func (d *decoder) opaque(o opaque) []byte {
	o.Origin = d.origin
	b, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	return b
}
