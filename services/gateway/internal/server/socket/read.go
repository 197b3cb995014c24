package socket

import (
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/wirejson"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	"kaged.dev/services/gateway/internal/core/channel"
)

// read takes the client's frames until it leaves, is silent for too long, or breaks the protocol. While the socket closes
// it reads on, and forgets, until the connection ends: what a client has sent must not make the close a reset.
func (s *Socket) read() {
	defer close(s.left)
	s.touch()
	s.conn.SetPongHandler(func(string) error { s.touch(); return nil })
	s.conn.SetPingHandler(func(data string) error {
		s.touch()
		// Whether the answer gets through is write's to find out.
		_ = s.conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(pongWait))
		return nil
	})
	for {
		kind, data, err := s.next()
		var netErr net.Error
		switch {
		case errors.As(err, &netErr) && netErr.Timeout():
			s.close(codeIdle, "The client was silent for too long.")
			return
		case errors.Is(err, errTooLarge):
			s.close(codePolicy, "The frame is larger than the limit.")
			continue
		case err != nil:
			s.leave()
			return
		case kind != websocket.TextMessage:
			s.close(codePolicy, "Binary frames belong to a PTY channel, and none is open.")
			continue
		}
		s.touch()
		if err := s.handle(data); err != nil {
			s.close(codePolicy, fault.From(err).Msg)
		}
	}
}

// pongWait is how long the answer to a ping waits for a frame that is being written.
const pongWait = time.Second

var errTooLarge = errors.New("frame too large")

// next reads one frame, of which it keeps no more than the limit.
func (s *Socket) next() (kind int, data []byte, err error) {
	kind, r, err := s.conn.NextReader()
	if err != nil {
		return 0, nil, err
	}
	limit := s.hub.deps.Limits.Frame
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return 0, nil, errTooLarge
	}
	return kind, data, err
}

// touch notes that the client is there.
func (s *Socket) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase < closing {
		_ = s.conn.SetReadDeadline(time.Now().Add(s.hub.deps.Limits.Idle))
	}
}

// probe finds out at once whether the client is still there, because somebody else wants its session: a client that does
// not answer soon is let go as one that was silent.
func (s *Socket) probe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase < closing {
		_ = s.conn.SetReadDeadline(time.Now().Add(s.hub.deps.Limits.Probe))
		s.pinging = true
		s.signal()
	}
}

// leave ends the socket whose client has left.
func (s *Socket) leave() {
	s.mu.Lock()
	s.phase = gone
	s.mu.Unlock()
	s.cancel()
	s.signal()
}

// handle does what a frame of the client says. It fails with what makes the frame a breach of the protocol.
func (s *Socket) handle(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase >= closing {
		return nil
	}
	var f gatewayv1.ClientFrame
	if err := wirejson.Unmarshal(data, &f); err != nil {
		return err
	}
	if f.GetChannel() != names[laneControl] {
		return fault.New(fault.BadRequest, "A client sends on control only, not on %q.", clip(f.GetChannel()))
	}
	if (f.GetType() == "hello") != (s.phase == greeting) {
		return fault.New(fault.BadRequest, "The first frame must be hello, and no other.")
	}
	switch f.GetType() {
	case "hello":
		return s.hello(&f)
	case "ping":
		s.control("pong", &gatewayv1.Empty{})
		return nil
	case "subscribe":
		return s.choose(&f, s.subscribe)
	case "unsubscribe":
		return s.choose(&f, s.unsubscribe)
	case "pty.resize":
		s.control("error", toError(fault.New(fault.NotFound, "There is no PTY of this invocation.")))
		return nil
	}
	return fault.New(fault.BadRequest, "There is no control frame %q.", clip(f.GetType()))
}

// maxShown is how much of a client's text a sentence repeats, in bytes.
const maxShown = 64

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxShown)], "") }

// payload reads a frame's payload into m; a frame without one has an empty one.
func payload(f *gatewayv1.ClientFrame, m proto.Message) error {
	if f.GetPayload() == nil {
		return nil
	}
	data, err := wirejson.Marshal(f.GetPayload())
	if err != nil {
		return err
	}
	return wirejson.Unmarshal(data, m)
}

// hello greets the client and takes up the channels it has seen a part of. mu is held.
func (s *Socket) hello(f *gatewayv1.ClientFrame) error {
	var hello gatewayv1.Hello
	if err := payload(f, &hello); err != nil {
		return err
	}
	for name, seen := range hello.GetResumeFromSeq() {
		if seen < 0 {
			return fault.New(fault.BadRequest, "resume_from_seq.%s must not be negative.", clip(name))
		}
	}
	s.phase = open
	welcome := &gatewayv1.Welcome{SessionId: s.session, ServerSeq: make(map[string]int64, lanes)}
	for lane := laneOutput; lane < lanes; lane++ {
		welcome.ServerSeq[names[lane]] = s.lanes[lane].splice.Last()
	}
	s.control("welcome", welcome)
	for lane := laneOutput; lane < lanes; lane++ {
		seen, given := hello.GetResumeFromSeq()[names[lane]]
		if s.lanes[lane].begin = given && seen == 0; seen > 0 {
			s.warn(lane)
			s.obey(lane, channel.Batch{}, s.lanes[lane].splice.Resume(seen))
		}
	}
	return nil
}

// choose applies do to each channel that a subscribe or unsubscribe names. mu is held.
func (s *Socket) choose(f *gatewayv1.ClientFrame, do func(lane int)) error {
	var channels gatewayv1.Channels
	if err := payload(f, &channels); err != nil {
		return err
	}
	for _, name := range channels.GetChannels() {
		lane := laneOf(name)
		if lane == laneControl {
			s.control("error", toError(noChannel(name)))
			continue
		}
		do(lane)
	}
	return nil
}

func noChannel(name string) error {
	name = clip(name)
	if strings.HasPrefix(name, "pty:") {
		return fault.New(fault.NotFound, "There is no PTY of this invocation.").With("channel", name)
	}
	return fault.New(fault.NotFound, "There is no channel %q.", name).With("channel", name)
}

func (s *Socket) subscribe(lane int) {
	l := &s.lanes[lane]
	if l.splice.On() {
		return
	}
	s.warn(lane)
	if l.begin {
		l.begin = false
		s.obey(lane, channel.Batch{}, l.splice.Begin())
		return
	}
	l.splice.Follow()
}

func (s *Socket) unsubscribe(lane int) {
	s.lanes[lane].splice.Stop()
	s.queue.Drop(lane)
	wake(s.lanes[lane].room)
}

// warn sends the operator's warnings, once, when the client takes events for the first time. mu is held.
func (s *Socket) warn(lane int) {
	if lane != laneEvents || s.warned {
		return
	}
	s.warned = true
	for _, warning := range s.hub.deps.Warnings {
		frame, err := wirejson.AppendFrame(nil, names[laneEvents], 0, "audit.warning",
			&gatewayv1.AuditWarning{Warning: warning, Since: s.hub.deps.Since.UnixMilli()})
		if err == nil {
			s.push(laneEvents, frame)
		}
	}
}
