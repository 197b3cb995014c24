package socket

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/gateway/internal/core/channel"
)

// read handles the client's frames until the client leaves, is silent for too long, or breaks the protocol. While
// the socket closes, it reads and drops frames until the connection ends, because closing a connection with unread
// data sends a reset.
func (s *Socket) read() {
	defer close(s.left)
	s.touch()
	s.conn.SetPongHandler(func(string) error { s.spend(); return nil })
	s.conn.SetPingHandler(func(data string) error {
		if s.spend() {
			// a failed write also ends the socket's write goroutine, which reports it
			_ = s.conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(pongWait))
		}
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
		}
		if !s.spend() {
			continue
		}
		if kind == websocket.TextMessage {
			err = s.handle(data)
		} else {
			err = s.typed(data)
		}
		if err != nil {
			s.close(codePolicy, fault.From(err).Msg)
		}
	}
}

// closingPace is the pause between two reads from a client that still sends while its socket closes.
const closingPace = 10 * time.Millisecond

// spend counts a client's frame and reports whether the frame is handled. It closes the socket of a client that
// sends too many frames. While the socket closes it sleeps, so that further frames wait on the client's side.
func (s *Socket) spend() bool {
	if !s.touch() {
		time.Sleep(closingPace)
		return false
	}
	if s.frames.Allow() {
		return true
	}
	s.close(codeRate, fmt.Sprintf("The client sends more than %d frames a second; connect again and send fewer.",
		s.hub.deps.Limits.Frames))
	return false
}

// pongWait is the time that the answer to a ping waits for a frame that is being written.
const pongWait = time.Second

var errTooLarge = errors.New("frame too large")

// next reads one frame. It fails with errTooLarge, without reading further, if the frame exceeds the limit.
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

// touch restarts the idle timeout. It reports whether the client's frames are still handled.
func (s *Socket) touch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase >= closing {
		return false
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(s.hub.deps.Limits.Idle))
	return true
}

// probe pings the client at once and shortens the idle timeout to the probe timeout, because another socket asks
// for the session.
func (s *Socket) probe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase < closing {
		_ = s.conn.SetReadDeadline(time.Now().Add(s.hub.deps.Limits.Probe))
		s.pinging = true
		s.signal()
	}
}

// leave ends the socket after its client has left.
func (s *Socket) leave() {
	s.mu.Lock()
	s.phase = gone
	s.mu.Unlock()
	s.cancel()
	s.signal()
}

// handle executes a client's frame. It fails if the frame breaks the protocol. It parses the frame before it locks
// mu, because live batches wait for mu.
func (s *Socket) handle(data []byte) error {
	f, err := parse(data)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase >= closing {
		return nil
	}
	if (f.kind == "hello") != (s.phase == greeting) {
		return fault.New(fault.BadRequest, "The first frame must be hello, and no other.")
	}
	switch f.kind {
	case "hello":
		s.hello(f.hello.GetResumeFromSeq())
	case "ping":
		s.control("pong", &apiv1.Empty{})
	case "subscribe":
		s.choose(&f.channels, s.subscribe, s.show)
	case "unsubscribe":
		s.choose(&f.channels, s.unsubscribe, s.hide)
	case "pty.resize":
		s.resize(&f.resize)
	default:
		return fault.New(fault.BadRequest, "There is no control frame %q.", shown(f.kind))
	}
	return nil
}

// request is a parsed frame of the client.
type request struct {
	kind     string
	hello    apiv1.Hello
	channels apiv1.Channels // of subscribe and unsubscribe
	resize   apiv1.PtyResize
}

// parse parses a frame. It fails if the frame breaks the protocol in any phase.
func parse(data []byte) (*request, error) {
	var f apiv1.ClientFrame
	if err := wirejson.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.GetChannel() != names[laneControl] {
		return nil, fault.New(fault.BadRequest, "A client sends on control only, not on %q.", shown(f.GetChannel()))
	}
	r := &request{kind: f.GetType()}
	switch r.kind {
	case "hello":
		if err := payload(&f, &r.hello); err != nil {
			return nil, err
		}
		for name, seen := range r.hello.GetResumeFromSeq() {
			if seen < 0 {
				return nil, fault.New(fault.BadRequest, "resume_from_seq.%s must not be negative.", shown(name))
			}
		}
	case "subscribe", "unsubscribe":
		return r, payload(&f, &r.channels)
	case "pty.resize":
		return r, payload(&f, &r.resize)
	}
	return r, nil
}

// maxShown is the maximum length in bytes of a client's text that an error repeats.
const maxShown = 64

func shown(s string) string { return strings.ToValidUTF8(clip.Bytes(s, maxShown), "") }

// payload parses a frame's payload into m. A missing payload is empty.
func payload(f *apiv1.ClientFrame, m proto.Message) error {
	if f.GetPayload() == nil {
		return nil
	}
	data, err := wirejson.Marshal(f.GetPayload())
	if err != nil {
		return err
	}
	return wirejson.Unmarshal(data, m)
}

// hello answers the client's hello with welcome and resumes the channels of which the client has seen frames. mu is
// held.
func (s *Socket) hello(resume map[string]int64) {
	s.phase = open
	welcome := &apiv1.Welcome{SessionId: s.session, ServerSeq: make(map[string]int64, lanes)}
	if s.window {
		s.control("welcome", welcome)
		return
	}
	for lane := laneControl + 1; lane < lanes; lane++ {
		welcome.ServerSeq[names[lane]] = s.lanes[lane].splice.Last()
	}
	s.control("welcome", welcome)
	for lane := laneControl + 1; lane < lanes; lane++ {
		seen, given := resume[names[lane]]
		if s.lanes[lane].begin = given && seen == 0; seen > 0 {
			s.warn(lane)
			s.obey(lane, channel.Batch{}, s.lanes[lane].splice.Resume(seen))
		}
	}
}

// choose calls session once for each named channel of the session and terminal for each named terminal. It stops if
// the socket closes meanwhile. mu is held.
func (s *Socket) choose(c *apiv1.Channels, session func(lane int), terminal func(name string, c *apiv1.Channels)) {
	var done [lanes]bool
	for _, name := range c.GetChannels() {
		if s.phase >= closing {
			return
		}
		switch lane := laneOf(name); {
		case isTerminal(name):
			terminal(name, c)
		case lane == laneControl, s.window:
			s.refuse(name, s.noChannel(name))
		case !done[lane]:
			done[lane] = true
			session(lane)
		}
	}
}

// refuse sends the error of a subscription or of input. For a terminal it also says whether the terminal is still
// subscribed. mu is held.
func (s *Socket) refuse(name string, err error) {
	refusal := fault.From(err).With("channel", shown(name))
	if isTerminal(name) {
		refusal = refusal.With("subscribed", s.screen(name) != nil)
	}
	s.control("error", toError(refusal))
}

func (s *Socket) noChannel(name string) error {
	if s.window && laneOf(name) != laneControl {
		return fault.New(fault.NotFound, "This socket shows terminals only; open one without terminals=1 for %s.", name)
	}
	return fault.New(fault.NotFound, "There is no channel %q.", shown(name))
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

// warn sends the daemon's warnings when the client subscribes to events for the first time. mu is held.
func (s *Socket) warn(lane int) {
	if lane != laneEvents || s.warned {
		return
	}
	s.warned = true
	for _, warning := range s.hub.deps.Warnings {
		frame, err := wirejson.AppendFrame(nil, names[laneEvents], 0, frametype.AuditWarning.Name,
			&apiv1.AuditWarning{Warning: warning, Since: s.hub.deps.Since.UnixMilli()})
		if err == nil {
			s.push(laneEvents, frame)
		}
	}
}
