package socket

import (
	"bytes"
	"time"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/gateway/internal/core/channel"
)

// The codes of a closing frame.
const (
	codeShutdown     = "server_shutdown"
	codeEnded        = "session_ended"
	codeIdle         = "idle_timeout"
	codeBackpressure = "backpressure"
	codePolicy       = "policy_violation"
	codeRate         = "rate_limited"
	codeReplaced     = "replaced"
	codeResumeFailed = "resume_failed"
	codeSignedOut    = "signed_out"
)

// status is the WebSocket close code of a closing code.
func status(code string) int {
	switch code {
	case codeShutdown:
		return websocket.CloseGoingAway
	case codeEnded:
		return websocket.CloseNormalClosure
	}
	return websocket.ClosePolicyViolation
}

// close lets the client know that the socket closes, and why. The first reason counts.
func (s *Socket) close(code, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked(code, reason)
}

// closeLocked is close with mu held. The session is given back at once: the client may come back before it has
// taken note.
func (s *Socket) closeLocked(code, reason string) {
	if s.phase >= closing {
		return
	}
	s.phase = closing
	s.final = &apiv1.Closing{Code: code, Reason: reason}
	if code == codeBackpressure {
		for lane := range lanes + len(s.screens) {
			s.queue.Drop(lane)
		}
	}
	s.cancel()
	s.signal()
	if s.conn != nil {
		s.forceLater()
	}
}

// forceLater makes sure that a client that does not read does not keep the socket, and for little longer than
// others do if the gateway stops. mu is held.
func (s *Socket) forceLater() {
	conn, after := s.conn.NetConn(), s.hub.deps.Limits.Closing
	if s.final.GetCode() == codeShutdown {
		after = min(after, s.hub.deps.Limits.Flush+time.Second)
	}
	s.force = time.AfterFunc(after, func() { _ = conn.Close() })
}

// write sends waiting frames until the client has left or the closing frame is sent.
func (s *Socket) write() {
	defer s.conn.Close()
	for {
		item, ping, state := s.take()
		switch {
		case state == gone:
			return
		case ping:
			_ = s.conn.SetWriteDeadline(time.Now().Add(s.hub.deps.Limits.Idle))
			if s.conn.WriteMessage(websocket.PingMessage, nil) != nil {
				return
			}
		case item.Data != nil:
			if !s.send(item) {
				return
			}
		case state == closing:
			s.sayGoodbye()
			s.linger()
			return
		default:
			select {
			case <-s.wake:
			case <-s.left:
				s.leave()
			}
		}
	}
}

// take returns the next work: a ping, an item with data, or an empty item.
func (s *Socket) take() (item channel.Item, ping bool, state phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinging && s.phase < closing {
		s.pinging = false
		return channel.Item{}, true, s.phase
	}
	item, _ = s.queue.Pop()
	return item, false, s.phase
}

// send writes an item's frames. A client that does not read for as long as it may be silent is gone.
func (s *Socket) send(item channel.Item) bool {
	for data := item.Data; len(data) > 0; {
		kind, frame, rest := websocket.BinaryMessage, data, []byte(nil)
		if item.Lane < lanes {
			kind = websocket.TextMessage
			frame, rest, _ = bytes.Cut(data, newline)
		}
		_ = s.conn.SetWriteDeadline(time.Now().Add(s.hub.deps.Limits.Idle))
		if s.conn.WriteMessage(kind, frame) != nil {
			return false
		}
		data = rest
	}
	s.mu.Lock()
	s.queue.Sent(item)
	wake(s.room(item.Lane))
	s.mu.Unlock()
	return true
}

// lingerFor bounds how long a client is read from that sends on after the close.
const lingerFor = time.Second

// linger ends this direction only, until the client ends the other: closing a connection with unread data is a
// reset, which takes the closing frame from a client that has not read it yet.
func (s *Socket) linger() {
	half, ok := s.conn.NetConn().(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	ended := time.NewTimer(lingerFor)
	defer ended.Stop()
	select {
	case <-s.left:
	case <-ended.C:
	}
}

var newline = []byte{'\n'}

// sayGoodbye sends the closing frame, leaves the client a while to close by itself, and closes.
func (s *Socket) sayGoodbye() {
	s.mu.Lock()
	final := s.final
	s.seq++
	frame, err := wirejson.AppendFrame(nil, names[laneControl], s.seq, "closing", final)
	s.mu.Unlock()
	limits := s.hub.deps.Limits
	_ = s.conn.SetWriteDeadline(time.Now().Add(limits.Closing))
	if err != nil || s.conn.WriteMessage(websocket.TextMessage, frame) != nil {
		return
	}
	ended := time.NewTimer(limits.Flush)
	defer ended.Stop()
	select {
	case <-s.left:
		if final.GetCode() != codeIdle {
			return
		}
		// Reading has ended because the client was silent, not because it has left.
		<-ended.C
	case <-ended.C:
	}
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(status(final.GetCode()), final.GetCode()),
		time.Now().Add(limits.Closing))
}
