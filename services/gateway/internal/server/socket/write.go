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

// status returns the WebSocket close code for the code of a closing frame.
func status(code string) int {
	switch code {
	case codeShutdown:
		return websocket.CloseGoingAway
	case codeEnded:
		return websocket.CloseNormalClosure
	}
	return websocket.ClosePolicyViolation
}

// close starts closing the socket with a code and a reason. Only the first call counts.
func (s *Socket) close(code, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked(code, reason)
}

// closeLocked is close with mu held. It releases the session at once, so that the client can reconnect before it
// has read the closing frame.
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

// forceLater closes the connection after the closing timeout, so that a client that does not read cannot keep the
// socket open. If the gateway stops, the time is shorter. mu is held.
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

// send writes an item's frames. A client that does not read for the idle timeout counts as gone.
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

// lingerFor is the maximum time of [Socket.linger].
const lingerFor = time.Second

// linger ends the direction to the client and waits until the client ends the other direction. Closing a connection
// with unread data sends a reset, with which the client could lose the closing frame.
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

// sayGoodbye sends the closing frame, gives the client the flush window to close the connection, and sends the
// close.
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
		// read ended because the client was silent, not because the client has left
		<-ended.C
	case <-ended.C:
	}
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(status(final.GetCode()), final.GetCode()),
		time.Now().Add(limits.Closing))
}
