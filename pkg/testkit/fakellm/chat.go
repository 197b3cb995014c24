package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// chatEncoder writes the Chat Completions stream.
type chatEncoder struct {
	*answer
	kind blockKind
	// wantsUsage is set if the request asked for the usage chunk.
	wantsUsage bool
}

func newChatEncoder(a *answer) *chatEncoder {
	var body struct {
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	// The body was parsed before; without the field there is no usage.
	_ = json.Unmarshal(a.request.Body, &body)
	return &chatEncoder{answer: a, wantsUsage: body.StreamOptions.IncludeUsage}
}

func (e *chatEncoder) header(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Request-Id", "req_fake01")
}

// chunk writes a chunk with one choice.
func (e *chatEncoder) chunk(b []byte, delta, finish string) []byte {
	b = append(b, `data: {"id":"chatcmpl-fake01","object":"chat.completion.chunk","created":1700000000,"model":`...)
	b = append(b, quote(e.model)...)
	b = append(b, `,"service_tier":"default","system_fingerprint":"fp_fake01","choices":[{"index":0,"delta":`...)
	b = append(b, delta...)
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	b = append(b, finish...)
	b = append(b, `}]`...)
	if e.wantsUsage {
		b = append(b, `,"usage":null`...)
	}
	return append(b, "}\n\n"...)
}

func (e *chatEncoder) begin(b []byte) []byte {
	return e.chunk(b, `{"role":"assistant","content":"","refusal":null}`, "null")
}

func (e *chatEncoder) ping(b []byte) []byte { return append(b, ": keep-alive\n\n"...) }

func (e *chatEncoder) open(b []byte, kind blockKind) []byte {
	e.kind = kind
	return b
}

func (e *chatEncoder) delta(b []byte, text string) []byte {
	field := "content"
	if e.kind == thinkingBlock {
		field = "reasoning_content"
	}
	return e.chunk(b, `{"`+field+`":`+quote(text)+`}`, "null")
}

func (e *chatEncoder) close(b []byte) []byte { return b }

func (e *chatEncoder) redacted(b []byte, _ string) []byte { return b }

func (e *chatEncoder) call(b []byte, id, name, input string) []byte {
	index := e.calls - 1
	idField := ""
	if id != "" {
		idField = `"id":` + quote(id) + `,`
	}
	b = e.chunk(b, fmt.Sprintf(`{"tool_calls":[{"index":%d,%s"type":"function","function":{"name":%s,"arguments":""}}]}`,
		index, idField, quote(name)), "null")
	for _, piece := range words(input) {
		b = e.chunk(b, fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, index, quote(piece)), "null")
	}
	return b
}

func (e *chatEncoder) failure(b []byte, kind, message string) []byte {
	return append(
		b,
		`data: {"error":{"message":`+quote(message)+`,"type":`+quote(kind)+`,"param":null,"code":null}}`+"\n\n"...)
}

func (e *chatEncoder) finish(b []byte) []byte {
	stop := e.stop
	switch stop {
	case "", "stop":
		stop = "stop"
		if e.calls > 0 {
			stop = "tool_calls"
		}
	case "refusal":
		stop = "content_filter"
	}
	b = e.chunk(b, "{}", quote(stop))
	if e.wantsUsage {
		u := e.used()
		prompt := u.Input + u.CacheRead + u.CacheWrite
		b = fmt.Appendf(b, `data: {"id":"chatcmpl-fake01","object":"chat.completion.chunk","created":1700000000,"model":%s,`+
			`"service_tier":"default","system_fingerprint":"fp_fake01","choices":[],"usage":{"prompt_tokens":%d,`+
			`"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d,`+
			`"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":%d,"audio_tokens":0,`+
			`"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}`+"\n\n",
			quote(e.model), prompt, u.Output, prompt+u.Output, u.CacheRead, u.CacheWrite, u.Reasoning)
	}
	return append(b, "data: [DONE]\n\n"...)
}

func (e *chatEncoder) shape() string { return fmt.Sprint("chat ", e.model, e.wantsUsage, " ") }

func (e *chatEncoder) skip(int, string) {}
