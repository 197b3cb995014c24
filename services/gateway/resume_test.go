package gateway_test

import (
	"fmt"
	"testing"

	"github.com/gorilla/websocket"
)

// A session's client says hello, subscribes, gets the frames of both channels in order, reconnects to another
// gateway and resumes without a gap, byte for byte (A-TEST-04, A-WS-CTRL-01..05, A-WS-FRAME-01, -02, A-WS-REC-01,
// -02, A-TEST-05).
func TestSessionFromHelloToResume(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	s := d.operator().socket(session)
	w := s.hello(`{}`)
	if w.field("session_id") != session || w.field("server_seq") != "map[events:0 output:0]" || w.Seq != 1 {
		t.Errorf("welcome %s", w.text)
	}
	s.send("subscribe", `{"channels":["events"]}`)
	s.sync()
	q.publish(session, "output", 1) // the client is not subscribed to this channel
	q.publish(session, "events", 2)
	s.frames("events", q.all(session, "events", 1))
	s.send("subscribe", `{"channels":["output","events"]}`)
	s.sync()
	q.publish(session, "output", 3)
	s.frames("output", q.all(session, "output", 2))
	s.send("unsubscribe", `{"channels":["output"]}`)
	s.sync()
	q.publish(session, "output", 1)
	q.publish(session, "events", 1)
	s.frames("events", q.all(session, "events", 3))
	s.conn.Close()
	<-d.manager.released

	q.publish(session, "output", 5)
	again := start(t, setup{manager: d.manager, nats: d.nats, config: quick(nil)}).ready()
	s = again.operator().socket(session)
	if w := s.hello(`{"output":4,"events":3}`); w.field("server_seq") != "map[events:3 output:10]" {
		t.Errorf("welcome %s", w.text)
	}
	s.frames("output", q.all(session, "output", 5))
	q.publish(session, "output", 2)
	s.frames("output", q.all(session, "output", 11))
	q.publish(session, "events", 1)
	s.frames("events", q.all(session, "events", 4))
}

// A client that reconnects while frames are published gets each frame once.
func TestResumeWhileStreaming(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	const total = 3000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < total; {
			n := min(1+i%7, total-i)
			q.publish(session, "output", n)
			i += n
		}
	}()
	seen := 0
	c := d.operator()
	for seen < total {
		s := c.socket(session)
		s.hello(fmt.Sprintf(`{"output":%d}`, seen))
		if seen == 0 {
			s.send("subscribe", `{"channels":["output"]}`)
		}
		for n := 0; n < 400 && seen < total; n++ {
			f := s.want("output", "message.delta")
			if f.Seq != int64(seen+1) {
				t.Fatalf("frame %d came after %d", f.Seq, seen)
			}
			if want := q.all(session, "output", seen+1)[0]; f.text != want {
				t.Fatalf("frame %q, want %q", f.text, want)
			}
			seen++
		}
		s.conn.Close()
		<-d.manager.released
	}
	<-done
}

// hello with 0 sends all stored frames once the client subscribes to the channel.
func TestHelloFromTheBeginning(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	q.publish(session, "output", 4)
	s := d.operator().socket(session)
	s.hello(`{"output":0,"events":0}`)
	s.sync()
	s.send("subscribe", `{"channels":["output"]}`)
	s.frames("output", q.all(session, "output", 1))
	q.publish(session, "output", 1)
	s.frames("output", q.all(session, "output", 5))
}

// hello with 0 succeeds even if the first frames have expired, and continues with live frames.
func TestHelloFromABeginningThatIsGone(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	q.render(session, "output", 5, 0) // published and expired
	q.publish(session, "output", 2)
	q.render(session, "events", 3, 0)
	s := d.operator().socket(session)
	s.hello(`{"output":0,"events":0}`)
	s.send("subscribe", `{"channels":["output","events"]}`)
	s.sync()
	q.publish(session, "output", 1)
	s.frames("output", q.all(session, "output", 8))
	q.publish(session, "events", 1)
	s.frames("events", q.all(session, "events", 4))
}

// A client that needs expired frames, or has numbers that were never published, is closed with resume_failed after
// the welcome (A-WS-REC-03, -04, A-TEST-05).
func TestResumeFailed(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		prepare func(*sequencer)
		hello   string
	}{
		"a gap before the stored frames": {
			func(q *sequencer) { q.render(session, "output", 5, 0); q.publish(session, "output", 2) }, `{"output":2}`,
		},
		"all frames expired":         {func(q *sequencer) { q.render(session, "output", 5, 0) }, `{"output":2}`},
		"after an unpublished frame": {func(q *sequencer) { q.publish(session, "output", 5) }, `{"output":6}`},
		"the other channel":          {func(q *sequencer) { q.render(session, "events", 5, 0) }, `{"output":0,"events":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, q := onSession(t, setup{})
			x.prepare(q)
			c := d.operator()
			s := c.socket(session)
			s.hello(x.hello)
			s.closed("resume_failed", websocket.ClosePolicyViolation)
			<-d.manager.released
			s = c.socket(session) // a new hello succeeds
			s.hello(`{}`)
			s.sync()
		})
	}
}

// Resuming at the tail succeeds even if earlier frames have expired.
func TestResumeAtTheEnd(t *testing.T) {
	t.Parallel()
	d, q := onSession(t, setup{})
	q.render(session, "output", 5, 0)
	s := d.operator().socket(session)
	s.hello(`{"output":5}`)
	q.publish(session, "output", 1)
	s.frames("output", q.all(session, "output", 6))
}
