package gateway_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// sse is a client's end of a stream of server-sent events.
type sse struct {
	t    *testing.T
	body *bufio.Reader
}

func (c *client) stream(t *testing.T, query, last string) *sse {
	t.Helper()
	r, err := http.NewRequestWithContext(
		t.Context(), http.MethodGet, c.d.base+"/api/v1/sessions/"+session+"/stream"+query, nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = c.header.Clone()
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	s := &sse{t, bufio.NewReader(resp.Body)}
	s.next() // the first comment
	return s
}

// next returns the lines of the next event, joined by |. It skips keepalive comments.
func (s *sse) next() string {
	s.t.Helper()
	var lines []string
	for {
		line, err := s.body.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			if got := strings.Join(lines, "|"); got != ": alive" && got != ": keepalive" {
				return got
			}
			lines = nil
			continue
		}
		lines = append(lines, line)
	}
}

// Several readers follow a session that a socket holds, each from its own position, and get each frame once and in
// order. A reader that needs expired or unpublished frames gets resume_failed.
func TestStream(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	d.manager.replies(&apiv1.GetSessionResponse{Session: &apiv1.Session{Id: session}}, nil)
	c := d.operator()
	held := c.socket(session)
	held.hello(`{}`)
	q.publish(session, "output", 2)
	q.publish(session, "events", 1)
	live, resumed := c.stream(t, "", ""), c.stream(t, "?channels=output", "output:1,events:0")
	event := func(id, channel string, n int) string {
		return "id: " + id + "|event: message.delta|data: " + q.all(session, channel, n)[0]
	}
	if got, want := resumed.next(), event("output:2", "output", 2); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	q.publish(session, "output", 3)
	for i := 3; i <= 5; i++ {
		if got, want := live.next(), event(fmt.Sprintf("output:%d,events:1", i), "output", i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := resumed.next(), event(fmt.Sprintf("output:%d", i), "output", i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	q.publish(session, "events", 1)
	if got, want := live.next(), event("output:5,events:2", "events", 2); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := c.stream(t, "", "output:99").next(); !strings.Contains(
		got, `event: closing|data: {"code":"resume_failed"`,
	) {
		t.Error(got)
	}
	if got := c.stream(t, "", "output:9223372036854775807").next(); !strings.Contains(
		got, `event: closing|data: {"code":"resume_failed"`,
	) {
		t.Error(got)
	}
	d.service().Drain(t.Context())
	if got := live.next(); !strings.Contains(got, `event: closing|data: {"code":"server_shutdown"`) {
		t.Error(got)
	}
}

// A session without frames is followed from its first frame. The session of another operator is not found.
func TestStreamFromNothing(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	d.manager.replies(&apiv1.GetSessionResponse{Session: &apiv1.Session{Id: session}}, nil)
	c := d.operator()
	s := c.stream(t, "", "")
	q.publish(session, "output", 2)
	for i := 1; i <= 2; i++ {
		if got := s.next(); !strings.HasPrefix(got, fmt.Sprintf("id: output:%d,events:0|", i)) {
			t.Error(got)
		}
	}
	const path = "/api/v1/sessions/" + session + "/stream"
	// Each place in a list costs a request to the store and an entry in each event's id.
	for _, query := range []string{
		"channels=control", "channels=output,", "channels=output,output", "channels=output&channels=events",
		"channels=events" + strings.Repeat(",events", 1000),
	} {
		c.get(path+"?"+query).refused(t, query[:min(len(query), 40)], 400, "validation_failed")
	}
	c.header = http.Header{"Last-Event-ID": {"nonsense"}}
	c.get(path).refused(t, "an invalid Last-Event-ID", 400, "validation_failed")
	c.header = http.Header{}
	d.manager.replies(nil, fault.New(fault.NotFound, "There is no session."))
	c.get(path).refused(t, "another's session", 404, "not_found")
	d.client().get(path).refused(t, "a stranger", 401, "unauthenticated")
}

// Streams do not count as requests that are being served.
func TestStreamsKeepNoRequestWaiting(t *testing.T) {
	t.Parallel()
	d, _ := onSession(t, setup{config: quick(map[string]any{"requests": 4})})
	d.manager.replies(&apiv1.GetSessionResponse{Session: &apiv1.Session{Id: session}}, nil)
	c := d.operator()
	for range 8 {
		c.stream(t, "", "")
	}
	if got := c.get("/api/v1/sessions/" + session); got.status != http.StatusOK {
		t.Errorf("got %d %s beside streams, want 200", got.status, got.body)
	}
}

// A stream behind a sign-in proxy ends with a closing event at its maximum age, so that its client signs in again.
func TestStreamReachesItsAge(t *testing.T) {
	t.Parallel()
	d, _ := onSession(t, setup{
		system: config.System{Enabled: true},
		config: quick(map[string]any{"sidecar_nonce": "n", "socket_max_age": "100ms"}),
	})
	d.manager.replies(&apiv1.GetSessionResponse{Session: &apiv1.Session{Id: session}}, nil)
	c := d.client()
	c.header = http.Header{"X-Kaged-User-Id": {"ann"}, "X-Kaged-Auth-Nonce": {"n"}}
	got := c.stream(t, "", "").next()
	if !strings.Contains(got, `event: closing|data: {"code":"server_shutdown"`) || !strings.Contains(got, "maximum age") {
		t.Error(got)
	}
}
