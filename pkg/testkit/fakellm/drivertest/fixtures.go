package drivertest

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

var update = flag.Bool("update", false, "write the .want files of provider streams anew")

// Fixtures reads each NAME.sse of a folder, a stream of a provider byte for byte, and compares the driver's result with
// NAME.want, line by line: one for each event, then the blocks, or the error's code and message. Ids made by the driver
// are shown as "made". With -update the .want files are written.
func (s Suite) Fixtures(t *testing.T, dir string) {
	streams, err := filepath.Glob(filepath.Join(dir, "*.sse"))
	if err != nil || len(streams) == 0 {
		t.Fatalf("no streams in %s: %v", dir, err)
	}
	for _, stream := range streams {
		t.Run(strings.TrimSuffix(filepath.Base(stream), ".sse"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(stream)
			if err != nil {
				t.Fatal(err)
			}
			got := Render(s.Replay(t, data))
			golden := strings.TrimSuffix(stream, ".sse") + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Replay makes a call that is answered with a stream's bytes.
func (s Suite) Replay(t testing.TB, stream []byte) Result {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(stream)
	}))
	defer srv.Close()
	target := llm.Target{
		Provider: "fake",
		Model:    "fake-model",
		Driver:   s.Driver,
		BaseURL:  srv.URL,
		APIKey:   "test-key-123456",
	}
	return Call(t, t.Context(), s.New(target, wire.Options{Client: Client(t)}), Ask("hello"))
}

// Render formats a result as text.
func Render(r Result) string {
	var b strings.Builder
	for _, ev := range r.Events {
		switch {
		case ev.Accepted != nil:
			b.WriteString("accepted\n")
		case ev.TextDelta != "":
			fmt.Fprintf(&b, "text %q\n", ev.TextDelta)
		case ev.ThinkingDelta != "":
			fmt.Fprintf(&b, "thinking %q\n", ev.ThinkingDelta)
		}
	}
	if r.Err != nil {
		f := fault.From(r.Err)
		fmt.Fprintf(&b, "error %s %q\n", f.Code, f.Msg)
		return b.String()
	}
	fmt.Fprintf(&b, "done %s %+v\n", r.Done.Stop, r.Done.Usage)
	for _, block := range r.Done.Blocks {
		switch {
		case block.Text != nil:
			fmt.Fprintf(&b, "  text %q\n", block.Text.Text)
		case block.Thinking != nil:
			fmt.Fprintf(&b, "  thinking %q opaque %s\n", block.Thinking.Text, block.Thinking.Opaque)
		case block.Call != nil:
			id := block.Call.ID
			if len(id) == len("call_")+26 && strings.HasPrefix(id, "call_") {
				id = "made"
			}
			fmt.Fprintf(&b, "  call %s %s %s\n", id, block.Call.Name, block.Call.Input)
		}
	}
	return b.String()
}

// Fuzz gives a driver any bytes as a stream: it must neither panic nor hang, and must end with an error or an answer
// within the limits.
func (s Suite) Fuzz(f *testing.F, dir string) {
	streams, err := filepath.Glob(filepath.Join(dir, "*.sse"))
	if err != nil {
		f.Fatal(err)
	}
	for _, stream := range streams {
		data, err := os.ReadFile(stream)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	const most = 1 << 16
	f.Fuzz(func(t *testing.T, stream []byte) {
		// The bytes are answered without a network, so that the fuzzer is fast and deterministic.
		client := &http.Client{Transport: answer(stream)}
		target := llm.Target{Provider: "fake", Driver: s.Driver, BaseURL: "http://fake", APIKey: "test-key-123456"}
		r := Call(t, t.Context(), s.New(target, wire.Options{Client: client, MaxAnswer: most}), Ask("hello"))
		if len(r.Text)+len(r.Thinking) > most {
			t.Errorf("the answer has %d bytes", len(r.Text)+len(r.Thinking))
		}
		if r.Err != nil {
			f := fault.From(r.Err)
			if f.Code == fault.Internal || f.Details["provider"] != "fake" {
				t.Errorf("the error is %v", r.Err)
			}
		}
	})
}

// answer is a transport that answers every request with the same stream.
type answer []byte

// RoundTrip answers.
func (a answer) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write(a)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}
