package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a decoder that writes each event's data as text and finishes at "end".
type echo struct{ part *wire.Part }

// Decode writes the data.
func (e *echo) Decode(ev wire.Event, out *wire.Output) error {
	switch s := string(ev.Data); {
	case s == "end":
		out.Finish(llm.StopEnd, llm.Usage{Output: 1})
	case s == "bad":
		return errors.New("bad")
	default:
		if e.part == nil {
			e.part = out.Open(wire.KindText)
		}
		out.Write(e.part, s)
	}
	return nil
}

// End has no effect.
func (e *echo) End(*wire.Output) error { return nil }

func call(body io.ReadCloser, opts wire.Options) wire.Call {
	return wire.Call{
		Target:  llm.Target{Provider: "fake"},
		Options: opts,
		Names:   wire.NewNames(llm.Request{}),
		Decoder: &echo{},
		Open: func(ctx context.Context, client *http.Client) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body}, nil
		},
	}
}

// body records whether it was closed.
type body struct {
	io.Reader
	closed bool
}

// Close records the call.
func (b *body) Close() error {
	b.closed = true
	return nil
}

// When the iterator returns, the body is closed, however the loop ended, and no event is yielded after that.
func TestStreamCloses(t *testing.T) {
	const stream = "data: a\n\ndata: b\n\ndata: end\n\ndata: c\n\n"
	for stop := range 6 {
		b := &body{Reader: strings.NewReader(stream)}
		seen := 0
		for ev, err := range wire.Stream(t.Context(), call(b, wire.Options{})) {
			if err != nil {
				t.Fatal(err)
			}
			if b.closed {
				t.Fatalf("closed before %+v", ev)
			}
			if seen++; seen == stop {
				break
			}
		}
		if !b.closed || seen > 4 {
			t.Errorf("stopped after %d events: %d seen, closed %v", stop, seen, b.closed)
		}
	}
}

// An answer of any length stays within its limit: memory does not grow with the provider's stream.
func TestStreamMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := &body{Reader: repeat("data: " + strings.Repeat("x", 1000) + "\n\n")}
	var last error
	for _, err := range wire.Stream(t.Context(), call(b, wire.Options{MaxAnswer: 1 << 20})) {
		last = err
	}
	runtime.ReadMemStats(&after)
	if !errors.Is(last, fault.ProviderBadResponse) {
		t.Errorf("the error is %v", last)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 {
		t.Errorf("%d MiB were allocated for an answer of at most 1 MiB", allocated>>20)
	}
}

// caller is a decoder that turns each event's data into a call, and finishes at the last.
type caller struct{ atEnd bool }

// Decode opens a call.
func (c *caller) Decode(ev wire.Event, out *wire.Output) error {
	p := out.Open(wire.KindCall)
	p.ID, p.Name = "id", string(ev.Data)
	if !c.atEnd {
		out.Finish(llm.StopToolUse, llm.Usage{})
	}
	return nil
}

// End finishes the answer.
func (c *caller) End(out *wire.Output) error {
	out.Finish(llm.StopToolUse, llm.Usage{})
	return nil
}

// The name of a call counts towards the size of an answer, however the answer ends.
func TestNamesCount(t *testing.T) {
	for _, atEnd := range []bool{false, true} {
		for name, want := range map[string]error{"short": nil, strings.Repeat("n", 1000): fault.ProviderBadResponse} {
			c := call(&body{Reader: strings.NewReader("data: " + name + "\n\n")}, wire.Options{MaxAnswer: 1000})
			c.Decoder = &caller{atEnd}
			var last error
			for _, err := range wire.Stream(t.Context(), c) {
				last = err
			}
			if !errors.Is(last, want) {
				t.Errorf("a name of %d bytes: %v", len(name), last)
			}
		}
	}
}

// The clients for model calls do not delay deltas, keep enough connections, and follow no redirects.
func TestClients(t *testing.T) {
	tr, ok := wire.NewClient(time.Second).Transport.(*http.Transport)
	if !ok || !tr.DisableCompression || tr.MaxIdleConnsPerHost < 100 || !tr.ForceAttemptHTTP2 ||
		tr.ResponseHeaderTimeout != 0 {
		t.Errorf("%+v", tr)
	}
	c := wire.Client(nil)
	if c.Timeout != 0 || !errors.Is(c.CheckRedirect(nil, nil), http.ErrUseLastResponse) {
		t.Errorf("%+v", c)
	}
}

// A provider that accepts a connection and stays silent is unreachable after the connect limit.
func TestConnectTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := wire.NewClient(10 * time.Millisecond)
	defer client.CloseIdleConnections()
	c := call(nil, wire.Options{Client: client})
	c.Open = func(ctx context.Context, client *http.Client) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+silent.Addr().String(), nil)
		if err != nil {
			return nil, err
		}
		return client.Do(req)
	}
	for _, err := range wire.Stream(t.Context(), c) {
		if !errors.Is(err, fault.ProviderUnreachable) || !strings.Contains(err.Error(), "it took too long") {
			t.Errorf("the error is %v", err)
		}
	}
}

// The error that ends a call has the size of the answer so far, tool calls included, because a provider charges for it.
func TestReceived(t *testing.T) {
	c := call(&body{Reader: strings.NewReader("data: write\n\ndata: read\n\n")}, wire.Options{})
	c.Decoder = &halfway{}
	var received int
	var last error
	for ev, err := range wire.Stream(t.Context(), c) {
		received, last = ev.Received, err
	}
	if want := len(`write{"path`) + len(`read{"path`); !errors.Is(last, fault.ProviderBadResponse) || received != want {
		t.Errorf("got %d bytes and %v, want %d and provider_bad_response", received, last, want)
	}
}

// halfway is a decoder that opens a call for each event and never finishes the answer.
type halfway struct{}

// Decode opens a call and writes the beginning of its input.
func (h *halfway) Decode(ev wire.Event, out *wire.Output) error {
	p := out.Open(wire.KindCall)
	p.Name = string(ev.Data)
	out.Write(p, `{"path`)
	return nil
}

// End says that the answer is not whole.
func (h *halfway) End(*wire.Output) error { return errors.New("no end") }
