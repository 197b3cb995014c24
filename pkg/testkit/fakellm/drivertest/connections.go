package drivertest

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm"
)

// hold: a held request sends no byte, and then exactly the bytes reported to the hold. The end of the context, and an
// error of the hold, are returned by the call.
func (s Suite) hold(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{Idle: time.Second})
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("some")}))
	req := Ask("hello")
	held := 0
	var told llm.Body
	req.Hold = func(_ context.Context, body llm.Body) error {
		held++
		told = body
		if n := len(srv.Requests()); n != 0 {
			t.Errorf("%d requests were sent on hold", n)
		}
		return nil
	}
	if r := Call(t, t.Context(), d, req); r.Err != nil || held != 1 {
		t.Errorf("held %d times, the error is %v", held, r.Err)
	}
	sent := srv.Requests()[0].Body
	if told.Size != int64(len(sent)) || told.SHA256 != sha256.Sum256(sent) {
		t.Errorf("%d bytes with hash %x were told of, %d came", told.Size, told.SHA256, len(sent))
	}
	ctx, cancel := context.WithCancel(t.Context())
	req.Hold = func(ctx context.Context, _ llm.Body) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	if r := Call(t, ctx, d, req); !errors.Is(r.Err, context.Canceled) {
		t.Errorf("the error is %v", r.Err)
	}
	req.Hold = func(context.Context, llm.Body) error { return fault.New(fault.Interrupted, "never mind") }
	if r := Call(t, t.Context(), d, req); !errors.Is(r.Err, fault.Interrupted) {
		t.Errorf("the error is %v", r.Err)
	}
	if n := len(srv.Requests()); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

// cancel: the end of the context, before or within an answer, closes the connection before the iterator returns, and is
// the call's error.
func (s Suite) cancel(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]fakellm.Step{"before": {}, "within": {fakellm.Say("some")}} {
		t.Run(name, func(t *testing.T) {
			srv, d := s.start(t, wire.Options{})
			gate := fakellm.NewGate()
			srv.Script(fakellm.Steps(append(before, fakellm.Wait(gate), fakellm.Say("never"))))
			ctx, cancel := context.WithCancel(t.Context())
			wait, stop := context.WithTimeout(t.Context(), soon)
			defer stop()
			go func() {
				_ = gate.Reached(wait)
				cancel()
			}()
			if r := Call(t, ctx, d, Ask("hello")); !errors.Is(r.Err, context.Canceled) {
				t.Errorf("the error is %v", r.Err)
			}
			if _, err := srv.WaitFinished(wait, 1); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("deadline", func(t *testing.T) {
		srv, d := s.start(t, wire.Options{})
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("some"), fakellm.Hang()}))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if r := Call(t, ctx, d, Ask("hello")); !errors.Is(r.Err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", r.Err)
		}
	})
}

// breakOff: leaving the loop closes the connection.
func (s Suite) breakOff(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("some"), fakellm.Hang()}))
	for ev, err := range d.Stream(t.Context(), Ask("hello")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.TextDelta != "" {
			break
		}
	}
	wait, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	if _, err := srv.WaitFinished(wait, 1); err != nil {
		t.Error(err)
	}
}

// reuse: consecutive calls share a connection, also if the consumer stops at the last event.
func (s Suite) reuse(t *testing.T) {
	t.Parallel()
	srv, _ := s.start(t, wire.Options{})
	var mu sync.Mutex
	peers := map[string]bool{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr] = true
		mu.Unlock()
		srv.ServeHTTP(w, r)
	}))
	defer front.Close()
	target := srv.Target(s.Driver)
	target.BaseURL = strings.Replace(target.BaseURL, srv.URL, front.URL, 1)
	d := s.New(target, wire.Options{Client: Client(t), Drain: soon})
	const calls = 5
	for range calls {
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("some words")}))
		for ev, err := range d.Stream(t.Context(), Ask("hello")) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Done != nil {
				break
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	// net/http closes a connection if the end of the request's write is not reported within 50 ms after the response. On
	// a busy machine that can happen.
	if len(peers) >= calls {
		t.Errorf("%d calls used %d connections", calls, len(peers))
	}
}

// http2: over HTTP/2, which real providers use, the behaviour is the same: answers, broken streams, cancellation, a bad
// certificate.
func (s Suite) http2(t *testing.T) {
	t.Parallel()
	srv := fakellm.Start(t)
	protocols := make(chan string, 10)
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.Proto
		srv.ServeHTTP(w, r)
	}))
	front.EnableHTTP2 = true
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.StartTLS()
	defer front.Close()
	target := srv.Target(s.Driver)
	target.BaseURL = strings.Replace(target.BaseURL, srv.URL, front.URL, 1)
	d := s.New(target, wire.Options{Client: Client(t)})
	f := Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, unreachable)
	if !strings.Contains(f.Msg, "certificate") {
		t.Errorf("a certificate that is not trusted: %s", f.Msg)
	}
	roots := x509.NewCertPool()
	roots.AddCert(front.Certificate())
	client := Client(t)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
	d = s.New(target, wire.Options{Client: client})
	srv.Script(fakellm.Steps(
		fakellm.Step{fakellm.Say("some words")}, fakellm.Step{fakellm.Say("some words"), fakellm.Hang()},
		fakellm.Step{fakellm.Say("some words"), fakellm.Cut(500)},
	))
	if r := Call(t, t.Context(), d, Ask("hello")); r.Err != nil || r.Text != "some words" {
		t.Fatal(r.Text, r.Err)
	}
	if p := <-protocols; p != "HTTP/2.0" {
		t.Errorf("the protocol is %s", p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for ev, err := range d.Stream(ctx, Ask("hello")) {
		if ev.TextDelta != "" {
			cancel()
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	cancel()
	wait, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	if _, err := srv.WaitFinished(wait, 2); err != nil {
		t.Error(err)
	}
	f = Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, badResponse)
	if !strings.Contains(f.Msg, "broke off") {
		t.Errorf("a stream that was reset: %s", f.Msg)
	}
}

// target: the path of the base URL, headers and key reach the provider, with kaged's name as user agent (H-SCOPE-03);
// invalid settings are refused without a call.
func (s Suite) target(t *testing.T) {
	t.Parallel()
	srv := fakellm.Start(t)
	srv.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("ok")} })
	target := srv.Target(s.Driver)
	target.BaseURL = strings.Replace(target.BaseURL, srv.URL, srv.URL+"/proxy/path", 1)
	target.Headers = map[string]string{"x-extra": "more", "User-Agent": "kaged-test"}
	for _, base := range []string{target.BaseURL, target.BaseURL + "/"} {
		target.BaseURL = base
		if r := Call(t, t.Context(), s.New(target, wire.Options{Client: Client(t)}), Ask("hello")); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	h := srv.Requests()[0].Header
	key := h.Get("X-Api-Key") + h.Get("X-Goog-Api-Key") + strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
	if h.Get("X-Extra") != "more" || h.Get("User-Agent") != "kaged-test" || key != "test-key-123456" {
		t.Errorf("headers %v", h)
	}
	target.Headers = map[string]string{"Authorization": "Custom token"}
	bare := Ask("hello")
	bare.Tools, bare.System = nil, nil
	if r := Call(t, t.Context(), s.New(target, wire.Options{Client: Client(t)}), bare); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := srv.Requests()[2].Header.Values("User-Agent"); len(got) != 1 || got[0] != wire.UserAgent() ||
		!strings.HasPrefix(got[0], "kaged/") {
		t.Errorf("kaged names itself %q", got)
	}
	if got := srv.Requests()[2].Header.Values("Authorization"); len(got) != 1 || got[0] != "Custom token" {
		t.Errorf("the configured header is sent as %q", got)
	}
	for _, bad := range []llm.Target{
		{BaseURL: "localhost:11434"},
		{BaseURL: "ftp://x/"},
		{BaseURL: "http://"},
		{APIKey: "a\nb"},
		{Headers: map[string]string{"a b": "c"}},
		{Headers: map[string]string{"a": "b\r\nc: d"}},
	} {
		bad.Provider, bad.Driver = "fake", s.Driver
		Fault(t, Call(t, t.Context(), s.New(bad, wire.Options{Client: Client(t)}), Ask("hello")).Err, notConfigured)
	}
}

// environment: no environment variable affects a call. Not parallel, because the environment is shared.
func (s Suite) environment(t *testing.T) {
	leaks := []string{
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE", "ANTHROPIC_CUSTOM_HEADERS",
		"ANTHROPIC_WORKSPACE_ID",
		"ANTHROPIC_ORGANIZATION_ID", "ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_IDENTITY_TOKEN", "OPENAI_API_KEY",
		"OPENAI_ADMIN_KEY",
		"OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_WEBHOOK_SECRET", "OPENAI_CUSTOM_HEADERS",
		"GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT",
		"GOOGLE_GENAI_USE_VERTEXAI",
	}
	for _, name := range leaks {
		value := "leaked-" + strings.ToLower(name)
		if strings.HasSuffix(name, "HEADERS") {
			value = "X-Leak: leaked"
		}
		if strings.HasSuffix(name, "URL") {
			value = "http://leaked.invalid"
		}
		t.Setenv(name, value)
	}
	srv := fakellm.Start(t)
	srv.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("ok")} })
	for _, key := range []string{"test-key-123456", ""} {
		target := srv.Target(s.Driver)
		target.APIKey = key
		if r := Call(t, t.Context(), s.New(target, wire.Options{Client: Client(t)}), Ask("hello")); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, r := range srv.Requests() {
		if all := fmt.Sprint(r.Header, string(r.Body)); strings.Contains(strings.ToLower(all), "leak") {
			t.Errorf("the environment reached the provider: %s", all)
		}
	}
}

// memory serves a fake provider without a network, for tests in a bubble of synthetic time.
func memory(t *testing.T) (*fakellm.Server, *http.Client) {
	srv := fakellm.New(t.Errorf)
	srv.URL = "http://memory"
	client := inMemory(t, srv)
	t.Cleanup(srv.Close) // closed before its listener
	return srv, client
}

// inMemory returns a client whose requests are answered by h without a network.
func inMemory(t *testing.T, h http.Handler) *http.Client {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	hs := &http.Server{Handler: h}
	go func() { _ = hs.Serve(l) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		client, server := net.Pipe()
		select {
		case l.conns <- server:
			return client, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = hs.Close()
	})
	return &http.Client{Transport: tr}
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }
