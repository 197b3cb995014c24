package drivertest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm"
)

// benchDeltas is the number of deltas in the answer of a benchmark.
const benchDeltas = 1000

// BenchmarkDecode measures the cost of a delta, in ns/delta and B/delta: "driver" from the bytes of the stream to the
// event, "scan" only for splitting the stream into events, and "sdk" with the given function, which decodes an event's
// data as the provider's SDK does.
func (s Suite) BenchmarkDecode(b *testing.B, sdk func(data []byte) error) {
	stream := s.recorded(b, fakellm.Step{fakellm.Deltas(benchDeltas, 8, 0)})
	client := &http.Client{Transport: answer(stream)}
	d := s.New(llm.Target{Provider: "fake", Driver: s.Driver, BaseURL: "http://fake"}, wire.Options{Client: client})
	scan := func(each func([]byte) error) error {
		r := wire.NewReader(bytes.NewReader(stream), 1<<20)
		for {
			ev, err := r.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil && string(ev.Data) != "[DONE]" {
				err = each(ev.Data)
			}
			if err != nil {
				return err
			}
		}
	}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchDeltas, "ns/delta")
		})
	}
	run("scan", func() error { return scan(func([]byte) error { return nil }) })
	run("driver", func() error {
		for _, err := range d.Stream(b.Context(), Ask("hello")) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	run("sdk", func() error { return scan(sdk) })
}

// BenchmarkRequest measures a whole call with a long conversation and a short answer, as in a step with tools.
func (s Suite) BenchmarkRequest(b *testing.B) {
	stream := s.recorded(b, fakellm.Step{fakellm.Say("ok")})
	client := &http.Client{Transport: answer(stream)}
	d := s.New(llm.Target{Provider: "fake", Driver: s.Driver, BaseURL: "http://fake"}, wire.Options{Client: client})
	req := Ask("a long conversation")
	for i := range 30 {
		req.Tools = append(req.Tools, Tool("tool.number"+string(rune('a'+i))))
	}
	for range 50 {
		call := llm.Block{Call: &llm.ToolCall{ID: wire.NewCallID(), Name: "file.read", Input: `{"path":"some/file.go"}`}}
		turn := []llm.Block{{Text: &llm.Text{Text: "Let me read another file."}}, call}
		req.Messages = append(
			req.Messages,
			llm.Message{Role: llm.RoleAssistant, Blocks: turn},
			Results(turn, strings.Repeat("a line of code\n", 200)),
		)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range d.Stream(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// recorded returns the bytes of a step's stream.
func (s Suite) recorded(b *testing.B, step fakellm.Step) []byte {
	srv := fakellm.New(b.Fatalf)
	srv.Handle(func(*fakellm.Request) fakellm.Step { return step })
	var stream []byte
	client := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		srv.ServeHTTP(w, r)
		if rec, ok := w.(*httptest.ResponseRecorder); ok {
			stream = bytes.Clone(rec.Body.Bytes())
		}
	}))
	d := s.New(llm.Target{Provider: "fake", Driver: s.Driver, BaseURL: "http://fake/v1"}, wire.Options{Client: client})
	for _, err := range d.Stream(b.Context(), Ask("hello")) {
		if err != nil {
			b.Fatal(err)
		}
	}
	return stream
}

// Handler returns a client whose requests, to any host, are answered by a handler without a network.
func Handler(h http.Handler) *http.Client { return &http.Client{Transport: handler{h}} }

type handler struct{ http.Handler }

// RoundTrip answers.
func (h handler) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}
