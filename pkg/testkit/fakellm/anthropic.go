package fakellm

import (
	"fmt"
	"net/http"
	"strconv"
)

// anthropicEncoder writes the Messages API's stream.
type anthropicEncoder struct {
	*answer
	index int
	kind  blockKind
	text  []byte
}

func (e *anthropicEncoder) header(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Request-Id", "req_fake01")
}

// event writes an event; format and args make its data.
func (e *anthropicEncoder) event(b []byte, name, format string, args ...any) []byte {
	b = append(b, "event: "+name+"\ndata: {\"type\":\""+name+"\""...)
	b = fmt.Appendf(b, format, args...)
	return append(b, "}\n\n"...)
}

func (e *anthropicEncoder) begin(b []byte) []byte {
	u := e.usage
	b = e.event(
		b,
		"message_start",
		`,"message":{"id":"msg_fake01","type":"message","role":"assistant","model":%s,"content":[],`+
			`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,`+
			`"cache_read_input_tokens":%d,"output_tokens":1,"service_tier":"standard"}}`,
		quote(e.model),
		u.Input,
		u.CacheWrite,
		u.CacheRead,
	)
	return e.ping(b)
}

func (e *anthropicEncoder) ping(b []byte) []byte {
	return append(b, "event: ping\ndata: {\"type\": \"ping\"}\n\n"...)
}

func (e *anthropicEncoder) start(b []byte, block string) []byte {
	return e.event(b, "content_block_start", `,"index":%d,"content_block":%s`, e.index, block)
}

func (e *anthropicEncoder) stopBlock(b []byte) []byte {
	b = e.event(b, "content_block_stop", `,"index":%d`, e.index)
	e.index++
	return b
}

func (e *anthropicEncoder) open(b []byte, kind blockKind) []byte {
	e.kind, e.text = kind, nil
	if kind == thinkingBlock {
		return e.start(b, `{"type":"thinking","thinking":"","signature":""}`)
	}
	return e.start(b, `{"type":"text","text":""}`)
}

func (e *anthropicEncoder) delta(b []byte, text string) []byte {
	if e.kind == thinkingBlock {
		e.text = append(e.text, text...)
		return e.blockDelta(b, "thinking_delta", "thinking", text)
	}
	return e.blockDelta(b, "text_delta", "text", text)
}

func (e *anthropicEncoder) blockDelta(b []byte, kind, field, text string) []byte {
	return e.event(
		b,
		"content_block_delta",
		`,"index":%d,"delta":{"type":"%s","%s":%s}`,
		e.index,
		kind,
		field,
		quote(text),
	)
}

func (e *anthropicEncoder) close(b []byte) []byte {
	if e.kind == thinkingBlock {
		b = e.blockDelta(b, "signature_delta", "signature", Signature(string(e.text)))
	}
	return e.stopBlock(b)
}

func (e *anthropicEncoder) redacted(b []byte, data string) []byte {
	b = e.start(b, `{"type":"redacted_thinking","data":`+quote(data)+`}`)
	return e.stopBlock(b)
}

func (e *anthropicEncoder) call(b []byte, id, name, input string) []byte {
	b = e.start(b, `{"type":"tool_use","id":`+quote(id)+`,"name":`+quote(name)+`,"input":{}}`)
	b = e.blockDelta(b, "input_json_delta", "partial_json", "")
	for _, piece := range words(input) {
		b = e.blockDelta(b, "input_json_delta", "partial_json", piece)
	}
	return e.stopBlock(b)
}

func (e *anthropicEncoder) failure(b []byte, kind, message string) []byte {
	return e.event(b, "error", `,"error":{"type":%s,"message":%s}`, quote(kind), quote(message))
}

func (e *anthropicEncoder) finish(b []byte) []byte {
	stop := e.stop
	switch stop {
	case "", "stop":
		stop = "end_turn"
		if e.calls > 0 {
			stop = "tool_use"
		}
	case "length":
		stop = "max_tokens"
	case "content_filter":
		stop = "refusal"
	}
	u := e.used()
	details := ""
	if u.Reasoning > 0 {
		details = fmt.Sprintf(`,"output_tokens_details":{"thinking_tokens":%d}`, u.Reasoning)
	}
	b = e.event(b, "message_delta", `,"delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"input_tokens":%d,`+
		`"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d%s}`,
		quote(stop), u.Input, u.CacheWrite, u.CacheRead, u.Output, details)
	return e.event(b, "message_stop", "")
}

func (e *anthropicEncoder) shape() string { return "anthropic " + strconv.Itoa(e.index) + " " }

func (e *anthropicEncoder) skip(int, string) {}
