package openai

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidwall/gjson"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// responseDecoder reads the events of one answer of the Responses API.
type responseDecoder struct {
	origin string
	items  map[int64]*item
}

// item is an incomplete output item.
type item struct {
	part *wire.Part
	// heading is the index of the last summary part. raw is true for raw reasoning, false for a summary.
	heading int64
	raw     bool
}

func newResponseDecoder(origin string) *responseDecoder {
	return &responseDecoder{origin: origin, items: map[int64]*item{}}
}

// outputItem is an output item of one of the three used types.
type outputItem struct {
	Type      string          `json:"-"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Encrypted string          `json:"encrypted_content"`
	Summary   json.RawMessage `json:"summary"`
	Content   []contentPart   `json:"content"`
}

// readItem reads an item. It returns nil for an unused type, because its fields have other types.
func readItem(raw string) (*outputItem, error) {
	kind := gjson.Get(raw, "type").String()
	if kind != "message" && kind != "reasoning" && kind != "function_call" {
		return nil, nil
	}
	it := &outputItem{Type: kind}
	return it, json.Unmarshal([]byte(raw), it)
}

type contentPart struct {
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// response holds the used fields of the response object in the last event.
type response struct {
	Usage *struct {
		Input        float64 `json:"input_tokens"`
		InputDetails *struct {
			Cached     float64 `json:"cached_tokens"`
			CacheWrite float64 `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		Output        float64 `json:"output_tokens"`
		OutputDetails *struct {
			Reasoning float64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

// Decode reads one event. The answer is accepted with its first item. The events before it do not count, because a
// request can still fail after them: it is too long, or the server is busy.
func (d *responseDecoder) Decode(ev wire.Event, out *wire.Output) error {
	if string(ev.Data) == "[DONE]" {
		// The API sends no such event, but some servers end every stream with it.
		return nil
	}
	e, err := wire.Object(ev.Data)
	if err != nil {
		return err
	}
	kind := e.Get("type")
	switch kind.Str {
	case "response.output_text.delta", "response.refusal.delta":
		d.delta(e, wire.KindText, out)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		d.thinking(e, kind.Str == "response.reasoning_text.delta", out)
	case "response.function_call_arguments.delta":
		d.delta(e, wire.KindCall, out)
	case "response.output_item.added":
		return d.added(e, out)
	case "response.output_item.done":
		return d.done(index(e), e.Get("item").Raw, out)
	case "response.completed":
		return d.finish(e, llm.StopEnd, out)
	case "response.incomplete":
		return d.incomplete(e, out)
	case "response.failed":
		return wire.ErrorObject(json.RawMessage(e.Get("response.error").Raw))
	case "error":
		return streamError(ev.Data)
	default:
		if kind.Type != gjson.String {
			return errors.New("the event has no type")
		}
	}
	// Events of parts, annotations and hosted tools, and unknown kinds.
	return nil
}

// End does nothing: an answer without its closing event is incomplete.
func (d *responseDecoder) End(*wire.Output) error { return nil }

// item returns the item at an index; it opens a part of the given kind for a new index.
func (d *responseDecoder) item(index int64, kind wire.Kind, out *wire.Output) *item {
	it := d.items[index]
	if it == nil {
		it = &item{part: out.Open(kind)}
		d.items[index] = it
	}
	return it
}

// index returns the position of an event's item in the output.
func index(e gjson.Result) int64 { return e.Get("output_index").Int() }

func (d *responseDecoder) delta(e gjson.Result, kind wire.Kind, out *wire.Output) {
	out.Write(d.item(index(e), kind, out).part, wire.Text(e.Get("delta")))
}

// thinking writes a delta of a summary, or of the raw reasoning that open models send. If a model sends both, the
// first kind counts.
func (d *responseDecoder) thinking(e gjson.Result, raw bool, out *wire.Output) {
	it := d.item(index(e), wire.KindThinking, out)
	if it.part.Len() == 0 {
		it.raw = raw
	} else if it.raw != raw {
		return
	}
	heading := e.Get("summary_index").Int()
	if heading != it.heading && it.part.Len() > 0 {
		out.Write(it.part, "\n\n")
	}
	it.heading = heading
	d.delta(e, wire.KindThinking, out)
}

func (d *responseDecoder) added(e gjson.Result, out *wire.Output) error {
	it, err := readItem(e.Get("item").Raw)
	if it == nil || err != nil {
		return err
	}
	switch it.Type {
	case "message":
		d.item(index(e), wire.KindText, out)
	case "reasoning":
		d.item(index(e), wire.KindThinking, out)
	case "function_call":
		d.name(d.item(index(e), wire.KindCall, out).part, it, out)
	}
	return nil
}

func (d *responseDecoder) name(p *wire.Part, from *outputItem, out *wire.Output) {
	if from.CallID != "" {
		p.ID = from.CallID
	}
	if from.Name != "" {
		p.Name = from.Name
	}
	out.Take(len(from.CallID) + len(from.Name))
}

// done takes the fields of the finished item, and its whole text if no deltas arrived.
func (d *responseDecoder) done(index int64, raw string, out *wire.Output) error {
	it, err := readItem(raw)
	if it == nil || err != nil {
		return err
	}
	switch it.Type {
	case "message":
		if p := d.item(index, wire.KindText, out).part; p.Len() == 0 {
			for _, c := range it.Content {
				out.Write(p, c.Text+c.Refusal)
			}
		}
	case "function_call":
		p := d.item(index, wire.KindCall, out).part
		d.name(p, it, out)
		if p.Len() == 0 {
			out.Write(p, it.Arguments)
		}
	case "reasoning":
		p := d.item(index, wire.KindThinking, out).part
		if p.Len() == 0 {
			out.Write(p, reasoningText(it))
		}
		if it.Encrypted != "" {
			out.SetOpaque(p, opaque{Origin: d.origin, ID: it.ID, Encrypted: it.Encrypted, Summary: it.Summary}.encode())
		}
	}
	return nil
}

func reasoningText(it *outputItem) string {
	var parts []contentPart
	if json.Unmarshal(it.Summary, &parts) != nil || len(parts) == 0 {
		parts = it.Content
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n\n")
}

func (d *responseDecoder) incomplete(e gjson.Result, out *wire.Output) error {
	if e.Get("response.incomplete_details.reason").Str == "content_filter" {
		return wire.Refusal("its content filter stopped it (content_filter)")
	}
	return d.finish(e, llm.StopLength, out)
}

func (d *responseDecoder) finish(e gjson.Result, stop llm.StopReason, out *wire.Output) error {
	last := e.Get("response")
	if !last.IsObject() {
		return errors.New("the last event holds no response")
	}
	if out.Empty() {
		// A server that sends no events of items has them here.
		for i, it := range last.Get("output").Array() {
			if err := d.done(int64(i), it.Raw, out); err != nil {
				return err
			}
		}
	}
	var r response
	if err := json.Unmarshal([]byte(last.Raw), &r); err != nil {
		return err
	}
	var u llm.Usage
	if r.Usage != nil {
		var cached, written, reasoning float64
		if in := r.Usage.InputDetails; in != nil {
			cached, written = in.Cached, in.CacheWrite
		}
		if od := r.Usage.OutputDetails; od != nil {
			reasoning = od.Reasoning
		}
		u = usage(r.Usage.Input, r.Usage.Output, cached, written, reasoning)
	}
	out.Finish(stop, u)
	return nil
}

// usage converts OpenAI's counts: its input includes cached tokens, and its output includes reasoning.
func usage(input, output, cached, written, reasoning float64) llm.Usage {
	count := func(f float64) int64 { return int64(min(max(0, f), llm.MaxReported)) }
	u := llm.Usage{Output: count(output), CacheRead: count(cached), CacheWrite: count(written)}
	u.Input = max(0, count(input)-u.CacheRead-u.CacheWrite)
	u.Reasoning = min(count(reasoning), u.Output)
	return u
}

// streamError reads an error event. Its fields are at the top level or under error.
func streamError(data []byte) error {
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	if len(e.Error) > 0 {
		return wire.ErrorObject(e.Error)
	}
	var flat map[string]json.RawMessage
	if err := json.Unmarshal(data, &flat); err != nil {
		return err
	}
	// The event's own type is not the kind of the error.
	delete(flat, "type")
	top, err := json.Marshal(flat)
	if err != nil {
		return err
	}
	return wire.ErrorObject(top)
}
