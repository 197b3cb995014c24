package drivertest

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm"
)

// The codes of llm.Driver's contract.
const (
	unreachable   = fault.ProviderUnreachable
	authFailed    = fault.ProviderAuthFailed
	rateLimited   = fault.ProviderRateLimited
	badResponse   = fault.ProviderBadResponse
	rejected      = fault.ProviderRejected
	overflow      = fault.ContextOverflow
	notConfigured = fault.ProviderNotConfigured
)

// refused: every status becomes a code with the right remedy, with the provider's sentence, and is not retried
// (H-PROV-ERR-01).
func (s Suite) refused(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	for _, c := range []struct {
		status  int
		message string
		code    fault.Code
	}{
		{400, "tools.0: bad schema", rejected},
		{401, "invalid x-api-key", authFailed},
		{402, "no credit", rejected},
		{403, "not allowed", authFailed},
		{404, "no such model", rejected},
		{408, "timeout", unreachable},
		{409, "conflict", rejected},
		{413, "too large", overflow},
		{422, "unprocessable", rejected},
		{429, "slow down", rateLimited},
		{500, "oops", unreachable},
		{502, "<html>bad gateway</html>", unreachable},
		{503, "later", unreachable},
		{504, "late", unreachable},
		{529, "Overloaded", rateLimited},
		{418, `{"detail":[{"msg":"teapot"}]}`, rejected},
	} {
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Status(c.status, c.message)}))
		r := Call(t, t.Context(), d, Ask("hello"))
		f := Fault(t, r.Err, c.code)
		if r.Accepted || f.Details["status"] != c.status {
			t.Errorf("%d: accepted %v, details %v", c.status, r.Accepted, f.Details)
		}
		if !strings.HasPrefix(c.message, "<") && !strings.HasPrefix(c.message, "{") && !strings.Contains(f.Msg, c.message) {
			t.Errorf("%d: the provider's sentence is missing in %q", c.status, f.Msg)
		}
	}
	if n := srv.Unplayed(); n != 0 {
		t.Errorf("%d steps were not played", n)
	}
}

// retryAfter: the provider's wait is read in any unit and any case of the header's name.
func (s Suite) retryAfter(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	const year = 365 * 24 * time.Hour
	for _, c := range []struct {
		name, value string
		least, most int64
		date        string // date of the provider's clock, "" if it is correct
		status      int
	}{
		{"retry-after", "2", 2000, 2000, "", 429},
		{"RETRY-AFTER", "0.5", 500, 500, "", 429},
		{"retry-after", "0", 0, 0, "", 429},
		{"Retry-After-Ms", "1234", 1234, 1234, "", 429},
		{"retry-after", "2", 2000, 2000, "", 503},
		{"retry-after", "2", 2000, 2000, "", 529},
		{"Retry-After", at(90 * time.Second), 30_000, 91_000, "", 429},
		{"Retry-After", at(90*time.Second - year), 90_000, 90_000, at(-year), 429},
		{"Retry-After", at(90*time.Second + year), 90_000, 90_000, at(year), 429},
		{"Retry-After", at(90 * time.Second), 30_000, 90_000, "yesterday", 429},
		{"Retry-After", at(-90 * time.Second), 0, 0, "", 429},
		{"Retry-After", "Sunday, 06-Nov-94 08:49:37 GMT", 0, 0, "", 429},
		{"retry-after", "-3", -1, -1, "", 429},
		{"retry-after", "soon", -1, -1, "", 429},
		{"retry-after", "", -1, -1, "", 429},
		{"retry-after", "NaN", -1, -1, "", 429},
		{"retry-after", "1e300", 86_400_000, 86_400_000, "", 429},
		{"Retry-After", at(year), 86_400_000, 86_400_000, "", 429},
	} {
		headers := []string{c.name, c.value}
		if c.date != "" {
			headers = append(headers, "Date", c.date)
		}
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Status(c.status, "slow down", headers...)}))
		code := rateLimited
		if c.status == 503 {
			code = unreachable
		}
		f := Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, code)
		got, ok := f.Details["retry_after_ms"].(int64)
		if !ok {
			got = -1
		}
		if got < c.least || got > c.most {
			t.Errorf("%s: %s is read as %d ms", c.name, c.value, got)
		}
	}
}

// overflow: the providers' sentences for a too large conversation are recognised; similar sentences are not
// (H-PROV-FB-03, H-COMPACT-REACT-01).
func (s Suite) overflow(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	for _, c := range []struct {
		status  int
		message string
		code    fault.Code
	}{
		{400, "prompt is too long: 213462 tokens > 200000 maximum", overflow},
		{
			400,
			"input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length or " +
				"`max_tokens` and try again", overflow,
		},
		{
			400,
			`{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try ` +
				`again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`, overflow,
		},
		{
			400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
			overflow,
		},
		{
			400,
			`[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed ` +
				`(1048575).","status":"INVALID_ARGUMENT"}}]`, overflow,
		},
		{
			400,
			`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"This endpoint's ` +
				`maximum context length is 32768 tokens\"}","provider_name":"X"}}}`, overflow,
		},
		{
			400,
			`{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 ` +
				`tokens","type":"BadRequestError","code":400}`, overflow,
		},
		{500, `{"error":"prompt too long; exceeded max context length by 12 tokens"}`, overflow},
		{400, "the request exceeds the available context size, try increasing it", overflow},
		{413, "", overflow},
		{429, "Request too large for gpt-x on tokens per min (TPM): Limit 30000, maximum context length", rateLimited},
		{400, "temperature: must be at most 1", rejected},
	} {
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Status(c.status, c.message)}))
		Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, c.code)
	}
}

// unreachable: an address without a listener, and a connection that is closed before an answer.
func (s Suite) unreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	target := llm.Target{Provider: "fake", Driver: s.Driver, BaseURL: "http://" + addr, APIKey: "test-key-123456"}
	d := s.New(target, wire.Options{Client: Client(t)})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, 16)
		_, _ = conn.Read(buf)
		_ = conn.Close()
		_ = l.Close()
	}()
	for range 2 {
		r := Call(t, t.Context(), d, Ask("hello"))
		f := Fault(t, r.Err, unreachable)
		if r.Accepted || strings.Contains(f.Msg, addr) {
			t.Errorf("accepted %v, message %q", r.Accepted, f.Msg)
		}
		<-closed
	}
}

// redirect: the key is not sent to another host.
func (s Suite) redirect(t *testing.T) {
	t.Parallel()
	var visited atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited.Store(true) }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	target := llm.Target{Provider: "fake", Driver: s.Driver, BaseURL: first.URL, APIKey: "test-key-123456"}
	d := s.New(target, wire.Options{Client: Client(t)})
	Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, rejected)
	if visited.Load() {
		t.Error("the redirect was followed")
	}
}

// secrets: keys and headers repeated by a provider are masked, and its sentence is limited.
func (s Suite) secrets(t *testing.T) {
	t.Parallel()
	srv := fakellm.Start(t)
	target := srv.Target(s.Driver)
	target.Headers = map[string]string{"X-Team": "team-secret-1", "Proxy-Authorization": "Basic dXNlcjpwYXNz"}
	d := s.New(target, wire.Options{Client: Client(t)})
	message := "Bad key test-key-123456 or sk-proj-abcdefghijklmn, Bearer abc.def.ghi, team-secret-1, " +
		"dXNlcjpwYXNz\x00\n\n" + strings.Repeat(
		"long ",
		1000,
	)
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Status(401, message)}))
	f := Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, authFailed)
	for _, secret := range []string{"test-key", "sk-proj", "abc.def", "team-secret", "dXNlcjpwYXNz", "\x00", "\n"} {
		if strings.Contains(f.Msg, secret) {
			t.Errorf("the message holds %q: %s", secret, f.Msg)
		}
	}
	if len(f.Msg) > 700 {
		t.Errorf("the message has %d bytes", len(f.Msg))
	}
}

// cut: wherever a stream breaks off, cleanly or not, the call ends with an error for that, or with the complete answer.
func (s Suite) cut(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	step := fakellm.Step{fakellm.Think("hm"), fakellm.Say("word by word"), fakellm.Tool("file.read", `{"path":"a"}`)}
	srv.Script(fakellm.Steps(step))
	whole := Call(t, t.Context(), d, Ask("whole"))
	if whole.Err != nil {
		t.Fatal(whole.Err)
	}
	for n := 0; n < 4000; n += 41 {
		for _, end := range []fakellm.Action{fakellm.Cut(n), fakellm.End(n)} {
			srv.Script(fakellm.Steps(append(fakellm.Step{end}, step...)))
			r := Call(t, t.Context(), d, Ask("cut"))
			if r.Err == nil {
				if len(r.Done.Blocks) != len(whole.Done.Blocks) || r.Text != whole.Text {
					t.Fatalf("cut at %d: a part was taken for the whole: %+v", n, r.Done)
				}
				continue
			}
			Fault(t, r.Err, badResponse)
			if !strings.HasPrefix(whole.Text, r.Text) {
				t.Fatalf("cut at %d: the text is %q", n, r.Text)
			}
		}
	}
}

// garbage: data outside of the protocol ends the call with an error, before and within an answer.
func (s Suite) garbage(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	for name, step := range map[string]fakellm.Step{
		"first":       {fakellm.Garbage()},
		"within":      {fakellm.Say("good"), fakellm.Garbage()},
		"nothing":     {fakellm.Raw("")},
		"text":        {fakellm.Raw("hello there\nthis is no stream\n\n")},
		"wrong types": {fakellm.Raw("data: {\"type\":7,\"choices\":\"many\",\"usage\":[]}\n\n")},
		"binary":      {fakellm.Raw("data: \x00\x01\x02\xff\xfe\n\n")},
		"a list":      {fakellm.Raw("data: [1,2,3]\n\n")},
		"done first":  {fakellm.Raw("data: [DONE]\n\n")},
	} {
		srv.Script(fakellm.Steps(step))
		r := Call(t, t.Context(), d, Ask("garbage"))
		if r.Err == nil {
			t.Fatalf("%s is taken for an answer: %+v", name, r.Done)
		}
		Fault(t, r.Err, badResponse)
	}
}

// notAStream: a successful answer that is not an event stream is an error; if it contains an error, it is that one.
func (s Suite) notAStream(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	for body, code := range map[string]fault.Code{
		`{"id":"x","choices":[]}`: badResponse,
		`<html>login</html>`:      badResponse,
		`{"error":{"message":"slow down","type":"rate_limit_error"}}`: rateLimited,
		`{"error":{"message":"no","code":401}}`:                       authFailed,
		`{"error":{"message":"prompt is too long","type":"invalid"}}`: overflow,
	} {
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Status(200, body)}))
		if f := Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, code); strings.Contains(f.Msg, "html") {
			t.Errorf("the page is passed on: %s", f.Msg)
		}
	}
}

// errorEvent: a failure inside a stream is a bad response after the answer was accepted, overload included.
func (s Suite) errorEvent(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	for _, kind := range []string{"overloaded_error", "server_error", "rate_limit_exceeded", "invalid_request_error"} {
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("some"), fakellm.Error(kind, "It did not work")}))
		r := Call(t, t.Context(), d, Ask("hello"))
		f := Fault(t, r.Err, badResponse)
		if !r.Accepted || r.Text != "some" || !strings.Contains(f.Msg, "It did not work") {
			t.Errorf("%s: accepted %v, text %q, message %q", kind, r.Accepted, r.Text, f.Msg)
		}
	}
	srv.Script(
		fakellm.Steps(fakellm.Step{fakellm.Say("some"), fakellm.Error("invalid_request_error", "prompt is too long: 9 > 8")}),
	)
	Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, overflow)
}

// silence: the call to a silent provider is cancelled, as unreachable before its answer and as a bad response after it
// began. Pings do not count as silence, nor does a slow consumer.
func (s Suite) silence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, client := memory(t)
		target := srv.Target(s.Driver)
		d := s.New(target, wire.Options{Client: client})
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Hang()}, fakellm.Step{fakellm.Say("well"), fakellm.Hang()}))
		start := time.Now()
		Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, unreachable)
		if waited := time.Since(start); waited != wire.DefaultIdle {
			t.Errorf("given up after %v", waited)
		}
		r := Call(t, t.Context(), d, Ask("hello"))
		Fault(t, r.Err, badResponse)
		if r.Text != "well" {
			t.Errorf("the text before the silence is %q", r.Text)
		}
		step := fakellm.Step{}
		for range 10 {
			step = append(step, fakellm.Ping(), fakellm.Delay(wire.DefaultIdle-time.Second))
		}
		srv.Script(fakellm.Steps(append(step, fakellm.Say("there"))))
		if r := Call(t, t.Context(), d, Ask("hello")); r.Err != nil {
			t.Errorf("pings: %v", r.Err)
		}
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("take your time")}))
		for _, err := range d.Stream(t.Context(), Ask("hello")) {
			if err != nil {
				t.Errorf("slow consumer: %v", err)
			}
			<-time.After(wire.DefaultIdle + time.Second)
		}
	})
}
