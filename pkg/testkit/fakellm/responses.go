package fakellm

import (
	"fmt"
	"net/http"
	"strings"
)

// responsesEncoder writes the Responses API's stream.
type responsesEncoder struct {
	*answer
	seq   int
	kind  blockKind
	text  []byte
	items []string
}

func (e *responsesEncoder) header(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Request-Id", "req_fake01")
}

// event writes an event with the next sequence number; fields are the rest of its data.
func (e *responsesEncoder) event(b []byte, name, fields string) []byte {
	b = append(b, "event: "+name+"\ndata: {\"type\":\""+name+"\",\"sequence_number\":"...)
	b = fmt.Appendf(b, "%d", e.seq)
	e.seq++
	b = append(b, fields...)
	return append(b, "}\n\n"...)
}

// response is the response object in its present state.
func (e *responsesEncoder) response(status, incomplete, usage string) string {
	return fmt.Sprintf(`,"response":{"id":"resp_fake01","object":"response","created_at":1700000000,"status":%s,`+
		`"background":false,"error":null,"incomplete_details":%s,"instructions":null,"max_output_tokens":null,"model":%s,`+
		`"output":[%s],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":"medium",`+
		`"summary":null},`+
		`"store":false,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,`+
		`"truncation":"disabled","usage":%s,"user":null,"metadata":{}}`,
		quote(status), incomplete, quote(e.model), strings.Join(e.items, ","), usage)
}

func (e *responsesEncoder) begin(b []byte) []byte {
	b = e.event(b, "response.created", e.response("in_progress", "null", "null"))
	return e.event(b, "response.in_progress", e.response("in_progress", "null", "null"))
}

func (e *responsesEncoder) ping(b []byte) []byte {
	return e.event(b, "keepalive", "")
}

func (e *responsesEncoder) index() int { return len(e.items) }

func (e *responsesEncoder) id(prefix string) string {
	return fmt.Sprintf("%s_fake%02d", prefix, e.index())
}

func (e *responsesEncoder) added(b []byte, item string) []byte {
	return e.event(b, "response.output_item.added", fmt.Sprintf(`,"output_index":%d,"item":%s`, e.index(), item))
}

func (e *responsesEncoder) done(b []byte, item string) []byte {
	b = e.event(b, "response.output_item.done", fmt.Sprintf(`,"output_index":%d,"item":%s`, e.index(), item))
	e.items = append(e.items, item)
	return b
}

// where is the address of the open part of the open item.
func (e *responsesEncoder) where() string {
	if e.kind == thinkingBlock {
		return fmt.Sprintf(`,"item_id":%s,"output_index":%d,"summary_index":0`, quote(e.id("rs")), e.index())
	}
	return fmt.Sprintf(`,"item_id":%s,"output_index":%d,"content_index":0`, quote(e.id("msg")), e.index())
}

func (e *responsesEncoder) open(b []byte, kind blockKind) []byte {
	e.kind, e.text = kind, nil
	if kind == thinkingBlock {
		b = e.added(b, `{"id":`+quote(e.id("rs"))+`,"type":"reasoning","summary":[],"encrypted_content":""}`)
		return e.event(b, "response.reasoning_summary_part.added", e.where()+`,"part":{"type":"summary_text","text":""}`)
	}
	b = e.added(b, `{"id":`+quote(e.id("msg"))+`,"type":"message","status":"in_progress","content":[],"role":"assistant"}`)
	return e.event(
		b,
		"response.content_part.added",
		e.where()+`,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`,
	)
}

func (e *responsesEncoder) delta(b []byte, text string) []byte {
	e.text = append(e.text, text...)
	if e.kind == thinkingBlock {
		return e.event(b, "response.reasoning_summary_text.delta", e.where()+`,"delta":`+quote(text))
	}
	return e.event(
		b,
		"response.output_text.delta",
		e.where()+`,"delta":`+quote(text)+`,"logprobs":[],"obfuscation":"x0Y1z2"`,
	)
}

func (e *responsesEncoder) close(b []byte) []byte {
	text := quote(string(e.text))
	if e.kind == thinkingBlock {
		part := `{"type":"summary_text","text":` + text + `}`
		b = e.event(b, "response.reasoning_summary_text.done", e.where()+`,"text":`+text)
		b = e.event(b, "response.reasoning_summary_part.done", e.where()+`,"part":`+part)
		return e.done(b, `{"id":`+quote(e.id("rs"))+`,"type":"reasoning","encrypted_content":`+
			quote(Signature(string(e.text)))+`,"summary":[`+part+`]}`)
	}
	part := `{"type":"output_text","annotations":[],"logprobs":[],"text":` + text + `}`
	b = e.event(b, "response.output_text.done", e.where()+`,"text":`+text+`,"logprobs":[]`)
	b = e.event(b, "response.content_part.done", e.where()+`,"part":`+part)
	return e.done(
		b,
		`{"id":`+quote(e.id("msg"))+`,"type":"message","status":"completed","content":[`+part+`],"role":"assistant"}`,
	)
}

func (e *responsesEncoder) redacted(b []byte, data string) []byte {
	item := `{"id":` + quote(e.id("rs")) + `,"type":"reasoning","encrypted_content":` + quote(data) + `,"summary":[]}`
	return e.done(e.added(b, item), item)
}

func (e *responsesEncoder) call(b []byte, id, name, input string) []byte {
	item := func(status, arguments string) string {
		return fmt.Sprintf(`{"id":%s,"type":"function_call","status":"%s","arguments":%s,"call_id":%s,"name":%s}`,
			quote(e.id("fc")), status, quote(arguments), quote(id), quote(name))
	}
	where := fmt.Sprintf(`,"item_id":%s,"output_index":%d`, quote(e.id("fc")), e.index())
	b = e.added(b, item("in_progress", ""))
	for _, piece := range words(input) {
		b = e.event(b, "response.function_call_arguments.delta", where+`,"delta":`+quote(piece)+`,"obfuscation":"aB3"`)
	}
	b = e.event(b, "response.function_call_arguments.done", where+`,"arguments":`+quote(input))
	return e.done(b, item("completed", input))
}

func (e *responsesEncoder) failure(b []byte, kind, message string) []byte {
	return e.event(b, "error", `,"code":`+quote(kind)+`,"message":`+quote(message)+`,"param":null`)
}

func (e *responsesEncoder) finish(b []byte) []byte {
	u := e.used()
	input := u.Input + u.CacheRead + u.CacheWrite
	usage := fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},`+
		`"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
		input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning, input+u.Output)
	switch e.stop {
	case "length":
		return e.event(b, "response.incomplete", e.response("incomplete", `{"reason":"max_output_tokens"}`, usage))
	case "content_filter", "refusal":
		return e.event(b, "response.incomplete", e.response("incomplete", `{"reason":"content_filter"}`, usage))
	}
	return e.event(b, "response.completed", e.response("completed", "null", usage))
}

func (e *responsesEncoder) shape() string {
	return fmt.Sprint("responses ", e.index(), " ", e.seq, " ")
}

func (e *responsesEncoder) skip(count int, text string) {
	e.seq += count
	e.text = append(e.text, text...)
}
