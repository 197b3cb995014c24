package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/bustest"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway"
)

const session = "01HZX0000000000000000000AA"

// quick returns a configuration with short waits. The timeouts that only a missing peer reaches stay at their default;
// a test that waits for one of them shortens it.
func quick(more map[string]any) map[string]any {
	c := map[string]any{"flush_window": "20ms"}
	for k, v := range more {
		c[k] = v
	}
	return c
}

// onSession starts a daemon with one session.
func onSession(t testing.TB, s setup) (*daemon, *sequencer) {
	t.Helper()
	if s.config == nil {
		s.config = quick(nil)
	}
	if s.nats == nil {
		s.nats = bustest.Server(t)
	}
	d := start(t, s).ready()
	q := newSequencer(t, d)
	q.begin(session)
	return d, q
}

// A refused upgrade is an HTTP answer like that of any request (A-WS-UP-01..05, A-CSRF-05, A-CONTRA-08,
// A-ERR-CODE-06, -07).
func TestUpgradeRefusals(t *testing.T) {
	t.Parallel()
	d, _ := onSession(t, setup{})
	d.manager.with(func() {
		d.manager.seqs["ended"] = map[string]int64{}
		d.manager.ended["ended"] = true
	})
	c, nobody := d.operator(), d.client()
	token := c.cookie("kaged_csrf")
	for name, x := range map[string]struct {
		client  *client
		session string
		wish    wish
		status  int
		code    string
		reason  string
	}{
		"nobody":         {nobody, session, wish{}, 401, "unauthenticated", ""},
		"no token":       {c, session, wish{noCSRF: true}, 403, "forbidden", "csrf_mismatch"},
		"a wrong token":  {c, session, wish{noCSRF: true, query: "?csrf=x"}, 403, "forbidden", "csrf_mismatch"},
		"no subprotocol": {c, session, wish{protocols: []string{"other"}}, 400, "bad_request", ""},
		"the token alone": {
			c, session, wish{noCSRF: true, protocols: []string{"kaged.csrf." + token}}, 400, "bad_request", "",
		},
		"another origin": {
			c, session, wish{header: http.Header{"Origin": {"http://evil.example"}}}, 403, "forbidden", "origin_not_allowed",
		},
		"an unknown session":      {c, "01HZX0000000000000000000ZZ", wish{}, 404, "not_found", ""},
		"an ended session":        {c, "ended", wish{}, 410, "gone", ""},
		"a takeover of some kind": {c, session, wish{query: "?takeover=maybe"}, 400, "validation_failed", ""},
	} {
		s, got := x.client.dial(x.session, x.wish)
		if s != nil {
			t.Errorf("%s: the upgrade was let through", name)
			continue
		}
		if r := got.refused(t, name, x.status, x.code); x.reason != "" && r.Details["reason"] != x.reason {
			t.Errorf("%s: details %v", name, r.Details)
		}
	}
	c.get("/api/v1/sessions/"+session+"/socket?csrf="+token).refused(t, "no upgrade", 400, "bad_request")
	for name, w := range map[string]wish{
		"header": {}, "query": {noCSRF: true, query: "?csrf=" + token},
		"subprotocol": {noCSRF: true, protocols: []string{"kaged.csrf." + token, "kaged.v1"}},
	} {
		s, got := c.dial(session, w)
		if s == nil {
			t.Fatalf("the token as %s: %d %s", name, got.status, got.body)
		}
		if p := s.conn.Subprotocol(); p != "kaged.v1" {
			t.Errorf("the token as %s: subprotocol %q", name, p)
		}
		if got.header.Get("X-Kaged-Request-Id") == "" || got.header.Get("X-Kaged-Daemon-Version") == "" {
			t.Errorf("the token as %s: headers %v", name, got.header)
		}
		s.hello(`{}`)
		s.conn.Close()
		<-d.manager.released
	}
}

// A second socket of a session is refused, also at another gateway. A takeover closes the first one (A-WS-UP-03,
// -04, A-CONTRA-07, A-WS-CLOSE-01, -04).
func TestSingleAttach(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	other := start(t, setup{manager: d.manager, nats: d.nats, config: quick(nil)}).ready()
	first := d.operator().socket(session)
	first.hello(`{}`)
	for name, c := range map[string]*client{"the same gateway": d.operator(), "another": other.operator()} {
		_, got := c.dial(session, wish{})
		if r := got.refused(t, name, 409, "conflict"); r.Details["reason"] != "session_attached" {
			t.Errorf("%s: details %v", name, r.Details)
		}
	}
	c := other.operator()
	second, got := c.dial(session, wish{query: "?takeover=1"})
	if second == nil {
		t.Fatalf("takeover: %d %s", got.status, got.body)
	}
	first.closed("replaced", websocket.ClosePolicyViolation)
	second.hello(`{}`)
	second.send("subscribe", `{"channels":["output"]}`)
	second.sync()
	q.publish(session, "output", 1)
	second.frames("output", q.all(session, "output", 1))
}

// The number of sockets is limited. A closed socket makes room for a new one.
func TestSocketsAreBounded(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{config: quick(map[string]any{"sockets": 1})})
	q.begin("01HZX0000000000000000000B2")
	c := d.operator()
	first := c.socket(session)
	_, got := c.dial("01HZX0000000000000000000B2", wish{})
	got.refused(t, "one too many", 503, "unavailable")
	first.conn.Close()
	<-d.manager.released
	for {
		s, got := c.dial("01HZX0000000000000000000B2", wish{})
		if s != nil {
			s.hello(`{}`)
			return
		}
		got.refused(t, "until the first has gone", 503, "unavailable")
	}
}

// A frame that breaks the protocol closes the socket with a reason (A-WS-FRAME-03, -04, A-WS-CTRL-01, A-WS-OUT-09,
// A-WS-EV-12).
func TestPolicyViolations(t *testing.T) {
	t.Parallel()
	d, _ := onSession(t, setup{config: quick(map[string]any{"frame_limit": int64(1000)})})
	c := d.operator()
	for name, x := range map[string]struct {
		hello bool
		kind  int
		data  string
	}{
		"no JSON":               {true, websocket.TextMessage, `not json`},
		"nothing":               {true, websocket.TextMessage, ``},
		"not UTF-8":             {true, websocket.TextMessage, "{\"channel\":\"\xff\"}"},
		"an array":              {true, websocket.TextMessage, `[]`},
		"a number for the type": {true, websocket.TextMessage, `{"channel":"control","type":1}`},
		"an unknown type":       {true, websocket.TextMessage, `{"channel":"control","type":"shout","payload":{}}`},
		"no channel":            {true, websocket.TextMessage, `{"type":"ping"}`},
		"output":                {true, websocket.TextMessage, `{"channel":"output","type":"message.delta","payload":{}}`},
		"events":                {true, websocket.TextMessage, `{"channel":"events","type":"session.state","payload":{}}`},
		"a second hello":        {true, websocket.TextMessage, `{"channel":"control","type":"hello","payload":{}}`},
		"channels that are a text": {
			true, websocket.TextMessage, `{"channel":"control","type":"subscribe","payload":{"channels":"output"}}`,
		},
		"too large": {
			true, websocket.TextMessage, `{"channel":"control","type":"ping","payload":"` + strings.Repeat("x", 2000) + `"}`,
		},
		"binary":              {true, websocket.BinaryMessage, "\x01ls\n"},
		"a ping before hello": {false, websocket.TextMessage, `{"channel":"control","type":"ping","payload":{}}`},
		"a negative number": {
			false, websocket.TextMessage, `{"channel":"control","type":"hello","payload":{"resume_from_seq":{"output":-1}}}`,
		},
		"a text for a number": {
			false, websocket.TextMessage, `{"channel":"control","type":"hello","payload":{"resume_from_seq":{"output":"1"}}}`,
		},
		"deep": {
			false, websocket.TextMessage, `{"channel":"control","type":"hello","payload":` + strings.Repeat("[", 200) +
				strings.Repeat("]", 200) + `}`,
		},
	} {
		s := c.socket(session)
		if x.hello {
			s.hello(`{}`)
		}
		s.raw(x.kind, x.data)
		s.closed("policy_violation", websocket.ClosePolicyViolation)
		<-d.manager.released
		if t.Failed() {
			t.Fatalf("after %s", name)
		}
	}
}

// Subscribing to an unknown channel is answered with an error, and the socket stays open (A-WS-PTY-01).
func TestUnknownChannels(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	s := d.operator().socket(session)
	s.hello(`{"whatever":5}`)
	s.send("subscribe", `{"channels":["pty:01HZX","nonsense","output"]}`)
	for _, name := range []string{"pty:01HZX", "nonsense"} {
		if f := s.want("control", "error"); f.field("code") != "not_found" || !strings.Contains(f.text, name) {
			t.Errorf("%s is answered with %s", name, f.text)
		}
	}
	s.send("pty.resize", `{"invocation_id":"01HZX","cols":80,"rows":24}`)
	s.want("control", "error")
	q.publish(session, "output", 1)
	s.frames("output", q.all(session, "output", 1))
}

// The daemon's warnings are sent on events once per socket, outside the session's numbers (A-WS-EV-07).
func TestWarnings(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{insecure: true, noSandbox: true})
	c := d.client()
	c.get("/api/v1/me")
	q.publish(session, "events", 2)
	s := c.socket(session)
	s.hello(`{"events":1}`)
	for _, want := range []string{"insecure-mode", "no-sandbox"} {
		if f := s.want("events", "audit.warning"); f.Seq != 0 || f.field("warning") != want || f.field("since") == "0" {
			t.Errorf("warning %s, want %s", f.text, want)
		}
	}
	s.frames("events", q.all(session, "events", 2))
	s.send("subscribe", `{"channels":["events","output"]}`)
	s.sync()
}

// A client that reads too slowly is closed with backpressure. After a reconnect it gets the missed frames
// (A-WS-BP-02, -03, A-FAIL-06).
func TestBackpressure(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{config: quick(map[string]any{"output_buffer": int64(64 << 10), "closing_timeout": "1m"})})
	c := d.operator()
	s := c.socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["output"]}`)
	s.sync()
	// The client reads one frame first, because under load the closing frame may come before any other.
	q.publish(session, "output", 1)
	last := s.want("output", "message.delta").Seq
	for range 800 { // until the network's buffer is full too
		q.publishSized(session, "output", 1, 16<<10)
	}
	<-d.manager.released
	for {
		f, err := s.next()
		if err != nil {
			t.Fatalf("the socket ended without a closing frame: %v", err)
		}
		if f.Type == "closing" {
			if f.field("code") != "backpressure" {
				t.Errorf("closing %s", f.text)
			}
			break
		}
		if f.Seq != last+1 {
			t.Fatalf("frame %d after %d", f.Seq, last)
		}
		last = f.Seq
	}
	if last == 801 {
		t.Error("all frames came")
	}
	s.conn.Close()
	// A replay of any length passes through a small buffer.
	s = c.socket(session)
	s.hello(fmt.Sprintf(`{"output":%d}`, last))
	s.frames("output", q.all(session, "output", int(last)+1))
}

// Each channel has its own limit, by default the specification's. A slow client of events and a client that does
// not read the answers to its frames are closed with backpressure (A-WS-BP-02).
func TestBackpressureOfEachChannel(t *testing.T) {
	t.Parallel()
	if c := gateway.DefaultConfig(); c.OutputBuffer != 4<<20 || c.EventsBuffer != 64<<10 {
		t.Errorf("the buffers are %d and %d", c.OutputBuffer, c.EventsBuffer)
	}
	d, q := onSession(t, setup{config: quick(map[string]any{"closing_timeout": "1m", "client_burst": 10000})})
	c := d.operator()
	for name, flood := range map[string]func(*ws){
		"events": func(*ws) {
			for range 800 {
				q.publishSized(session, "events", 1, 16<<10)
			}
		},
		"control": func(s *ws) {
			payload := `{"channels":["` + strings.Repeat("x", 60) + strings.Repeat(`","y`, 100) + `"]}`
			for range 2000 {
				err := s.conn.WriteMessage(websocket.TextMessage,
					[]byte(`{"channel":"control","type":"subscribe","payload":`+payload+`}`))
				if err != nil {
					return // the socket was closed
				}
			}
		},
	} {
		s := c.socket(session)
		s.hello(`{}`)
		s.send("subscribe", `{"channels":["events","output"]}`)
		s.sync()
		flood(s)
		<-d.manager.released
		for {
			f, err := s.next()
			if err != nil {
				t.Fatalf("%s: the socket ended without a closing frame: %v", name, err)
			}
			if f.Type == "closing" {
				if f.field("code") != "backpressure" || !strings.Contains(f.text, name) {
					t.Errorf("%s: closing %s", name, f.text)
				}
				break
			}
		}
		s.conn.Close()
	}
}

// A silent client is closed with idle_timeout. A client that answers pings is not (A-WS-CLOSE-01, -04, A-WS-UP-04,
// A-TEST-05).
func TestIdle(t *testing.T) {
	t.Parallel()
	d, _ := onSession(t, setup{config: quick(map[string]any{"idle_timeout": "900ms"})})
	s := d.operator().socket(session)
	s.conn.SetPingHandler(func(string) error { return nil })
	s.hello(`{}`)
	s.closed("idle_timeout", websocket.ClosePolicyViolation)
	<-d.manager.released
	d, q := onSession(t, setup{config: quick(map[string]any{"idle_timeout": "6s"})}) // time to answer on a busy machine
	s = d.operator().socket(session)
	s.hello(`{}`)
	pings := make(chan struct{}, 100)
	handler := s.conn.PingHandler()
	s.conn.SetPingHandler(func(data string) error { pings <- struct{}{}; return handler(data) })
	s.send("subscribe", `{"channels":["output"]}`)
	published := make(chan struct{})
	go func() {
		defer close(published)
		for range 4 { // longer than the timeout
			<-pings
		}
		q.publish(session, "output", 1)
	}()
	s.want("output", "message.delta")
	<-published
}

// When another socket asks for the session, a client that does not answer within the probe timeout is closed. A
// client that answers stays (A-WS-UP-04).
func TestWantedSession(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{config: quick(map[string]any{"probe_timeout": "1m"})})
	s := d.operator().socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["output"]}`)
	s.sync()
	pinged := make(chan struct{}, 100)
	answer := s.conn.PingHandler()
	s.conn.SetPingHandler(func(data string) error { pinged <- struct{}{}; return answer(data) })
	go func() {
		<-pinged
		q.publish(session, "output", 1)
	}()
	d.manager.want(session)
	s.want("output", "message.delta")
	d, _ = onSession(t, setup{config: quick(map[string]any{"probe_timeout": "200ms"})})
	s = d.operator().socket(session)
	s.conn.SetPingHandler(func(string) error { return nil })
	s.hello(`{}`)
	d.manager.want(session)
	s.closed("idle_timeout", websocket.ClosePolicyViolation)
	<-d.manager.released
}

// The end of a session closes its socket after the frames that report the end (A-WS-CLOSE-01, -03, A-SESS-DEL-01).
func TestSessionEnded(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{config: quick(map[string]any{"flush_window": "1s"})})
	s := d.operator().socket(session)
	s.hello(`{"events":0}`)
	s.send("subscribe", `{"channels":["events"]}`)
	s.sync()
	q.publish(session, "events", 1)
	s.frames("events", q.all(session, "events", 1))
	start := time.Now() // before the window begins, so that a late reader counts no shorter window
	d.manager.end(session, &sessionmanagerv1.AttachEnded{Code: "session_ended", Reason: "The session was ended."})
	if f := s.want("control", "closing"); f.field("code") != "session_ended" {
		t.Errorf("closing %s", f.text)
	}
	if _, err := s.next(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("the socket ended with %v", err)
	}
	if left := time.Since(start); left < time.Second {
		t.Errorf("the client was left %s to flush", left)
	}
}

// A stopping gateway closes its sockets with server_shutdown (A-FAIL-07, A-WS-CLOSE-01).
func TestShutdown(t *testing.T) {
	t.Parallel()
	d, _ := onSession(t, setup{})
	c := d.operator()
	s := c.socket(session)
	s.hello(`{}`)
	go d.service().Drain(t.Context())
	s.closed("server_shutdown", websocket.CloseGoingAway)
	_, got := c.dial(session, wish{})
	got.refused(t, "an upgrade while it stops", 503, "unavailable")
}

// A client does not notice that its holder crashes or stops, if another holder answers within the grace. Otherwise
// it is closed with server_shutdown.
func TestHolderComesBack(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	s := d.operator().socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["output"]}`)
	s.sync()
	<-d.manager.attaches
	for _, ended := range []*sessionmanagerv1.AttachEnded{nil, {Code: "server_shutdown", Reason: "Going."}} {
		d.manager.end(session, ended)
		<-d.manager.attaches
		q.publish(session, "output", 2)
		s.frames("output", q.all(session, "output", len(q.all(session, "output", 1))-1))
	}
	d, _ = onSession(t, setup{config: quick(map[string]any{"grace": "300ms"})})
	s = d.operator().socket(session)
	s.hello(`{}`)
	d.manager.with(func() { d.manager.notReady = fault.New(fault.Unavailable, "gone") })
	d.manager.end(session, nil)
	s.closed("server_shutdown", websocket.CloseGoingAway)
}

// If the session ended or its frames were lost while its holder was unavailable, the client is closed with the
// reason.
func TestHolderComesBackWithoutTheSession(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	c := d.operator()
	s := c.socket(session)
	s.hello(`{}`)
	d.manager.with(func() { d.manager.ended[session] = true })
	d.manager.end(session, nil)
	s.closed("session_ended", websocket.CloseNormalClosure)

	d.manager.with(func() { d.manager.ended[session] = false })
	q.publish(session, "output", 3)
	s = c.socket(session)
	s.hello(`{"output":3}`)
	d.manager.with(func() { d.manager.seqs[session]["output"] = 1 }) // the holder counts from an earlier point
	d.manager.end(session, nil)
	s.closed("resume_failed", websocket.ClosePolicyViolation)
}

// Frames that are published while the bus restarts arrive in order, and the socket stays open.
func TestBusComesBack(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{config: quick(map[string]any{"grace": "1m"})})
	c := d.operator()
	s := c.socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["output"]}`)
	s.sync()
	q.publish(session, "output", 1)
	s.frames("output", q.all(session, "output", 1))
	d.nats.Stop()
	s.sync()
	d.nats.Start()
	q.publish(session, "output", 2)
	s.frames("output", q.all(session, "output", 2))
}

// A bus that is unavailable for longer than the grace closes the sockets.
func TestBusStaysAway(t *testing.T) {
	t.Parallel()
	d, _ := onSession(t, setup{config: quick(map[string]any{"grace": "300ms"})})
	c := d.operator()
	s := c.socket(session)
	s.hello(`{}`)
	d.nats.Stop()
	s.closed("server_shutdown", websocket.CloseGoingAway)
	_, got := c.dial(session, wish{})
	got.refused(t, "an upgrade without a bus", 503, "unavailable")
}

// A client may close its socket in order (A-WS-CLOSE-02) or drop the connection. In both cases the session is
// released.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	d, _ := onSession(t, setup{})
	c := d.operator()
	s := c.socket(session)
	s.hello(`{}`)
	if err := s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""),
		time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.next(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("the close was answered with %v", err)
	}
	<-d.manager.released
	s = c.socket(session)
	s.conn.NetConn().Close()
	<-d.manager.released
}
