package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/llmproto"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/services/harness/internal/adapter/anthropic"
	"kaged.dev/services/harness/internal/adapter/openai"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// provider answers every request with a call of file.read, in the format of Anthropic or of OpenAI's chat, or with a
// text in that of Anthropic.
type provider struct {
	chat  bool
	says  bool
	ended time.Time // end of the last answer; zero before
	first time.Duration
	begun time.Time
	spent time.Duration
	calls int
}

func (p *provider) Open(t llm.Target) (llm.Driver, error) {
	opts := wire.Options{Client: &http.Client{Transport: p}}
	t.BaseURL = "http://127.0.0.1"
	if p.chat {
		return openai.NewChat(t, opts), nil
	}
	return anthropic.New(t, opts), nil
}

// RoundTrip measures the time from the last answer, or from the run's begin, to the last byte of the request.
func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	if p.ended.IsZero() {
		p.first += time.Since(p.begun)
	} else {
		p.spent += time.Since(p.ended)
		p.calls++
	}
	stream := anthropicCall
	switch {
	case p.says:
		stream = anthropicText
	case p.chat:
		stream = chatCall
	}
	p.ended = time.Now()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(stream)),
	}, nil
}

const anthropicCall = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"file__read"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`

const anthropicText = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Done."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`

const chatCall = `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"file__read"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"a\"}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`

// longHistory returns a conversation of n messages that ends with a question.
func longHistory(n int) []*harnessv1.Message {
	var history []*harnessv1.Message
	for i := range n / 2 {
		id := fmt.Sprintf("call_%d", i)
		call := llm.Block{Call: &llm.ToolCall{ID: id, Name: "file.read", Input: `{"path":"a"}`}}
		result := llm.Block{Result: &llm.ToolResult{CallID: id, Name: "file.read", Content: benchFile}}
		text := llm.Block{Text: &llm.Text{Text: "I read the next file."}}
		history = append(
			history,
			&harnessv1.Message{Role: harnessv1.Role_ROLE_ASSISTANT, Blocks: llmproto.Blocks([]llm.Block{text, call})},
			&harnessv1.Message{Role: harnessv1.Role_ROLE_TOOL, Blocks: llmproto.Blocks([]llm.Block{result})},
		)
	}
	return append(history, question...)
}

// BenchmarkLongRun measures a step with a provider's encoder, by the size of the conversation before the run.
// µs/round is the time from the model's answer to the last byte of the next request. µs/first is the time from the
// run's begin to the last byte of the first request. A tool result has 3 KB.
func BenchmarkLongRun(b *testing.B) {
	for _, chat := range []bool{false, true} {
		for _, n := range []int{20, 200, 2000} {
			b.Run(fmt.Sprintf("chat=%t/messages=%d", chat, n), func(b *testing.B) {
				p := &provider{chat: chat}
				client := clientOf(b, world{}, p)
				history := longHistory(n)
				b.ReportAllocs()
				runs := 0
				for b.Loop() {
					p.ended, p.begun = time.Time{}, time.Now()
					play(b, client, history)
					runs++
				}
				b.ReportMetric(float64(p.spent.Microseconds())/float64(p.calls), "µs/round")
				b.ReportMetric(float64(p.first.Microseconds())/float64(runs), "µs/first")
			})
		}
	}
}

// BenchmarkNextRun measures the time from the start of a session's next run to the last byte of its first request, by
// the size of the conversation, with the conversation kept by the harness and without.
func BenchmarkNextRun(b *testing.B) {
	for _, kept := range []bool{true, false} {
		for _, n := range []int{20, 2000, 20000} {
			b.Run(fmt.Sprintf("kept=%t/messages=%d", kept, n), func(b *testing.B) {
				p := &provider{says: true}
				client := clientOf(b, world{}, p)
				conversation := longHistory(n)
				chain := contract.Chain{}
				hashed := 0
				answer := &harnessv1.Message{
					Role: harnessv1.Role_ROLE_ASSISTANT, Blocks: llmproto.Blocks([]llm.Block{{Text: &llm.Text{Text: "Done."}}}),
				}
				var head *harnessv1.AuditHead
				run := func() {
					start := benchStart()
					start.AuditHead = head
					before := hashed
					if kept {
						start.Beginnings = []string{chain.String()}
						for ; hashed < len(conversation); hashed++ {
							chain = chain.With(llmproto.FromMessage(conversation[hashed]), contract.Source{}, false)
						}
					}
					p.ended, p.begun = time.Time{}, time.Now()
					if moved := nextRun(b, client, start, conversation, before); moved != nil {
						head = moved
					}
					conversation = append(conversation, answer, question[0])
				}
				run()
				p.first = 0
				runs := 0
				for b.Loop() {
					run()
					runs++
				}
				b.ReportMetric(float64(p.first.Microseconds())/float64(runs), "µs/first")
			})
		}
	}
}

// nextRun plays a run with a conversation, of which the harness may have kept the messages before the given place, and
// returns the end of the chain of its records.
func nextRun(
	b *testing.B, client harnessv1.HarnessServiceClient, start *harnessv1.RunStart,
	conversation []*harnessv1.Message, at int,
) (head *harnessv1.AuditHead) {
	b.Helper()
	stream, err := client.Run(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	send := func(req *harnessv1.RunRequest) {
		if err := stream.Send(req); err != nil {
			b.Fatal(err)
		}
	}
	send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Start{Start: start}})
	history := &harnessv1.History{Messages: conversation}
	if len(start.GetBeginnings()) > 0 {
		ev, err := stream.Recv()
		if err != nil {
			b.Fatal(err)
		}
		if history.After = ev.GetHistoryWanted().GetAfter(); history.After != "" {
			history.Messages = conversation[at:]
		} else if at > 0 {
			b.Fatal("the harness has not kept the conversation")
		}
	}
	send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_History{History: history}})
	send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Begin{Begin: &harnessv1.RunBegin{}}})
	for {
		ev, err := stream.Recv()
		if err != nil {
			b.Fatal(err)
		}
		grant(b, stream, ev)
		if ev.GetAuditHead() != nil {
			head = ev.GetAuditHead()
		}
		if ev.GetFinished() != nil {
			return head
		}
	}
}
