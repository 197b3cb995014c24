package fakellm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kaged.dev/pkg/llm"
)

// Func answers requests in code. It returns nil for an unexpected request. It is called from many goroutines.
type Func func(*Request) Step

// Server is a fake provider. It is an http.Handler; [Start] also listens.
type Server struct {
	// URL is the URL of a started server, without a path.
	URL string

	fail    func(format string, args ...any)
	closing chan struct{}
	close   sync.Once

	// mu guards the fields below.
	mu       sync.Mutex
	common   script
	each     []Step
	markers  []keyed
	models   map[string]*script
	handle   Func
	gates    map[string]*Gate
	requests []*Request
	keep     int
	count    int
	arrived  chan struct{}
	cache    *cache
	calls    int
	started  time.Time
}

// script is a list of steps and the number of played ones. Steps past the end are those of rest, if set.
type script struct {
	steps []Step
	rest  Step
	next  int
}

type keyed struct {
	marker string
	*script
}

// New returns a server that does not listen: use it as an http.Handler. fail is called for an unexpected request.
func New(fail func(format string, args ...any)) *Server {
	return &Server{
		fail: fail, closing: make(chan struct{}), models: map[string]*script{}, gates: map[string]*Gate{},
		arrived: make(chan struct{}), keep: 1 << 20, started: time.Now(),
	}
}

// Start runs a server for a test, which fails if the server gets an unexpected request. The server stops with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := New(func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
	})
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() {
		s.Close()
		h.Close()
	})
	return s
}

// Close releases the answers that hang or wait. The test closes a started server.
func (s *Server) Close() { s.close.Do(func() { close(s.closing) }) }

// BaseURL returns the base URL to configure for a driver: without version path for anthropic and google, with
// /v1 for the others.
func (s *Server) BaseURL(driver string) string {
	if driver == string(Anthropic) || driver == string(Google) {
		return s.URL
	}
	return s.URL + "/v1"
}

// Target returns a target for a driver: provider "fake", model "fake-model", key "test-key-123456".
func (s *Server) Target(driver string) llm.Target {
	return llm.Target{
		Provider: "fake",
		Model:    "fake-model",
		Driver:   driver,
		APIKey:   "test-key-123456",
		BaseURL:  s.BaseURL(driver),
	}
}

// Script sets the steps, in order, for requests without a more specific script.
func (s *Server) Script(steps []Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.common = script{steps: steps}
}

// ScriptEach sets the steps for each conversation separately: a request with n turns of the model gets step n, and the
// last step beyond the end. Any number of conversations may run at once, and a repeated request gets the same answer.
func (s *Server) ScriptEach(steps []Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each = steps
}

// ScriptFor sets the steps for the conversation with marker in its first user text.
func (s *Server) ScriptFor(marker string, steps []Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markers = append(s.markers, keyed{marker, &script{steps: steps}})
}

// ScriptModel sets the steps for requests to a model.
func (s *Server) ScriptModel(model string, steps []Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[model] = &script{steps: steps}
}

// Handle answers requests in code.
func (s *Server) Handle(f Func) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle = f
}

// Gate returns the gate with a name, as used in the text form of scripts.
func (s *Server) Gate(name string) *Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate(name)
}

func (s *Server) gate(name string) *Gate {
	g := s.gates[name]
	if g == nil {
		g = NewGate()
		s.gates[name] = g
	}
	return g
}

// Keep limits the recorded requests to the last n.
func (s *Server) Keep(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = n
}

// Requests returns the requests so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// WaitRequest waits until the n-th request, from 1, has arrived and returns it.
func (s *Server) WaitRequest(ctx context.Context, n int) (Request, error) {
	return s.wait(ctx, func(r *Request) bool { return r.N == n }, n)
}

// WaitFinished waits until the n-th request has been answered, or its client has left, and returns it.
func (s *Server) WaitFinished(ctx context.Context, n int) (Request, error) {
	return s.wait(ctx, func(r *Request) bool { return r.N == n && !r.Finished.IsZero() }, n)
}

func (s *Server) wait(ctx context.Context, ok func(*Request) bool, n int) (Request, error) {
	for {
		s.mu.Lock()
		changed := s.arrived
		for _, r := range s.requests {
			if ok(r) {
				defer s.mu.Unlock()
				return *r, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, fmt.Errorf("waiting for request %d of the fake model: %w", n, ctx.Err())
		}
	}
}

// Unplayed returns the number of steps of the sequential scripts that were not played.
func (s *Server) Unplayed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.common.steps) - s.common.next
	for _, k := range s.markers {
		n += len(k.steps) - k.next
	}
	for _, m := range s.models {
		n += len(m.steps) - m.next
	}
	return n
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	if strings.HasPrefix(hr.URL.Path, "/_fakellm/") {
		s.serveControl(w, hr)
		return
	}
	format, ok := formatOf(hr)
	if !ok {
		s.refuse(w, OpenAIChat, fmt.Sprintf("fakellm: nothing is served at %s %s", hr.Method, hr.URL.Path))
		return
	}
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return
	}
	arrived := time.Now()
	r, err := parseRequest(format, body)
	if err != nil {
		s.refuse(w, format, "fakellm: "+err.Error())
		return
	}
	r.Arrived, r.Header = arrived, hr.Header
	if format == Google {
		r.Model = googleModel(hr.URL.Path)
	}
	step, problem := s.accept(r)
	defer s.finish(r)
	if problem == "" {
		problem = mismatch(r, step)
	}
	if breaks := illegal(r); breaks != "" {
		problem = "a real provider would refuse this: " + breaks + "\n" + summary(r)
	}
	if problem != "" {
		s.refuse(w, format, fmt.Sprintf("fakellm: request %d (%s, model %s): %s", r.N, format, r.Model, problem))
		return
	}
	s.play(w, hr, r, step)
}

func formatOf(hr *http.Request) (Format, bool) {
	if hr.Method != http.MethodPost {
		return "", false
	}
	switch path := hr.URL.Path; {
	case strings.HasSuffix(path, "/v1/messages"):
		return Anthropic, true
	case strings.HasSuffix(path, "/chat/completions"):
		return OpenAIChat, true
	case strings.HasSuffix(path, "/responses"):
		return OpenAI, true
	case strings.HasSuffix(path, ":streamGenerateContent") && strings.Contains(path, "/v1beta/") &&
		hr.URL.Query().Get("alt") == "sse":
		return Google, true
	}
	return "", false
}

// accept records a request and finds its step.
func (s *Server) accept(r *Request) (Step, string) {
	s.mu.Lock()
	s.count++
	r.N = s.count
	s.requests = append(s.requests, r)
	if extra := len(s.requests) - s.keep; extra > 0 {
		s.requests = slices.Delete(s.requests, 0, extra)
	}
	s.notify()
	handle := s.handle
	sc := s.find(r)
	if sc == nil && handle != nil {
		s.mu.Unlock()
		if step := handle(r); step != nil {
			return step, ""
		}
		return nil, "the function expects no such request: " + summary(r)
	}
	defer s.mu.Unlock()
	if sc == nil && len(s.each) > 0 {
		return s.each[min(r.Turns(), len(s.each)-1)], ""
	}
	if sc == nil {
		sc = &s.common
	}
	if sc.next >= len(sc.steps) {
		if sc.rest != nil {
			return sc.rest, ""
		}
		return nil, fmt.Sprintf("the script has no step %d: %s", len(sc.steps)+1, summary(r))
	}
	sc.next++
	return sc.steps[sc.next-1], ""
}

// find returns the most specific script for this request.
func (s *Server) find(r *Request) *script {
	if len(s.markers) > 0 {
		conversation := r.Conversation()
		for _, k := range s.markers {
			if strings.Contains(conversation, k.marker) {
				return k.script
			}
		}
	}
	return s.models[r.Model]
}

// notify wakes the waiters for requests. The lock is held.
func (s *Server) notify() {
	close(s.arrived)
	s.arrived = make(chan struct{})
}

func (s *Server) finish(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Finished = time.Now()
	s.notify()
}

// callNumber counts tool calls, so that their ids differ.
func (s *Server) callNumber() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.calls
}

// refuse answers an unexpected request and fails the test.
func (s *Server) refuse(w http.ResponseWriter, format Format, problem string) {
	s.fail("%s", problem)
	writeStatus(w, format, Action{status: http.StatusBadRequest, text: problem})
}

// Stderr is a fail function for [New] that prints to stderr.
func Stderr(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
