package drivertest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm"
)

// endless: an endless answer is cancelled, also if it sends comments, or a byte from time to time.
func (s Suite) endless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, client := memory(t)
		d := s.New(srv.Target(s.Driver), wire.Options{Client: client})
		slowly := func(first fakellm.Step, again ...fakellm.Action) fakellm.Step {
			for range 100 {
				first = append(first, fakellm.Delay(wire.DefaultIdle-time.Second))
				first = append(first, again...)
			}
			return first
		}
		for name, c := range map[string]struct {
			step fakellm.Step
			code fault.Code
			text string
		}{
			"pings":    {slowly(fakellm.Step{}, fakellm.Ping()), badResponse, ""},
			"comments": {slowly(fakellm.Step{fakellm.Say("well")}, fakellm.Raw(": yes\n\n")), badResponse, "well"},
			"bytes":    {slowly(fakellm.Step{fakellm.Say("well")}, fakellm.Raw("d")), badResponse, "well"},
			"nothing":  {slowly(fakellm.Step{}, fakellm.Raw(":")), unreachable, ""},
		} {
			srv.Script(fakellm.Steps(c.step))
			start := time.Now()
			r := Call(t, t.Context(), d, Ask("hello"))
			if c.code == badResponse && !r.Accepted {
				c.code = unreachable // the answer begins with its first word
			}
			if f := Fault(t, r.Err, c.code); !strings.Contains(f.Msg, "no end within 1h") || r.Text != c.text {
				t.Errorf("%s: %q, text %q", name, f.Msg, r.Text)
			}
			if waited := time.Since(start); waited != wire.DefaultLongest {
				t.Errorf("%s: given up after %v", name, waited)
			}
		}
	})
	t.Run("refusals", s.endlessRefusals)
}

// endlessRefusals: a refusal with an endless body is soon reported by its status.
func (s Suite) endlessRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   string
		code   fault.Code
	}{
		{401, "application/json", authFailed},
		{429, "text/plain", rateLimited},
		{500, "text/html", unreachable},
		{200, "application/json", badResponse},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				for r.Context().Err() == nil {
					_, _ = w.Write([]byte(" "))
					_ = http.NewResponseController(w).Flush()
					select {
					case <-time.After(time.Second):
					case <-r.Context().Done():
					}
				}
			}))
			d := s.New(llm.Target{Provider: "fake", Driver: s.Driver, BaseURL: "http://memory"}, wire.Options{Client: client})
			start := time.Now()
			f := Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, c.code)
			if waited := time.Since(start); waited > 10*time.Second || c.status != 200 && f.Details["status"] != c.status {
				t.Errorf("%d: after %v %v", c.status, waited, f.Details)
			}
		})
	}
}

// compressed: compressed data that was not requested counts neither as an answer nor as a sentence, and is not
// unpacked.
func (s Suite) compressed(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 3 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	for status, code := range map[int]fault.Code{200: badResponse, 401: authFailed, 500: unreachable} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("the request accepts %q", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(status)
			_, _ = w.Write(bomb.Bytes())
		}))
		d := s.New(
			llm.Target{Provider: "fake", Driver: s.Driver, BaseURL: srv.URL},
			wire.Options{Client: Client(t), MaxAnswer: 1 << 16},
		)
		f := Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, code)
		if want := strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(status))); status != 200 &&
			!strings.HasSuffix(f.Msg, want+".") {
			t.Errorf("%d: %q", status, f.Msg)
		}
		srv.Close()
	}
}

// tooMuch: an endless answer, endless events and endless refusals end, and memory stays limited.
func (s Suite) tooMuch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		piece  string
		status int
		code   fault.Code
	}{
		"comments":    {": still here\n", 200, badResponse},
		"one line":    {"x", 200, badResponse},
		"one event":   {"data: xxxxxxxxxxxxxxxx\n", 200, badResponse},
		"empty lines": {"data:\n", 200, badResponse},
		"odd events":  {"event: ping\ndata: {\"type\":\"ping\"}\n\n", 200, badResponse},
		"a refusal":   {"no, ", 400, rejected},
	} {
		srv := httptest.NewServer(forever(c.status, c.piece))
		target := llm.Target{Provider: "fake", Driver: s.Driver, BaseURL: srv.URL, APIKey: "test-key-123456"}
		d := s.New(target, wire.Options{Client: Client(t), MaxAnswer: 1 << 16})
		t.Log(name)
		Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, c.code)
		srv.Close()
	}
	s.bounded(t)
}

// forever answers with the same piece repeatedly.
func forever(status int, piece string) http.Handler {
	pieces := bytes.Repeat([]byte(piece), 1+4096/len(piece))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(status)
		for {
			if _, err := w.Write(pieces); err != nil {
				return
			}
		}
	})
}

// bounded: the size of an answer and its number of blocks are limited.
func (s Suite) bounded(t *testing.T) {
	srv, d := s.start(t, wire.Options{MaxAnswer: 1 << 16})
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Deltas(1<<14, 8, 0)}))
	r := Call(t, t.Context(), d, Ask("hello"))
	Fault(t, r.Err, badResponse)
	if len(r.Text) > 1<<16 {
		t.Errorf("the answer has %d bytes", len(r.Text))
	}
	step := fakellm.Step{}
	for range 400 {
		step = append(step, fakellm.Tool("file.read", ""))
	}
	srv.Script(fakellm.Steps(step))
	Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, badResponse)
}
