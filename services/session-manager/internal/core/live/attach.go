package live

import (
	"context"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/core/frames"
)

// Attachment is a socket's hold on a session.
type Attachment struct {
	s     *Session
	ended chan Ended
}

// Ended says why a hold is over.
type Ended struct {
	// Code is session_ended, replaced or server_shutdown.
	Code string
	// Reason is one sentence.
	Reason string
}

// The codes of Ended.
const (
	SessionEnded   = "session_ended"
	Replaced       = "replaced"
	ServerShutdown = "server_shutdown"
)

// Attach gives the session to one socket, until [Attachment.Detach]. It fails with session_attached if another socket holds
// it; with takeover that one's hold ends as replaced.
func (s *Session) Attach(takeover bool) (*Attachment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attachment != nil {
		if !takeover {
			return nil, fault.New(fault.SessionAttached, "Another connection holds this session; close it or attach with takeover=1.")
		}
		s.attachment.end(Ended{Replaced, "Another connection took the session over."})
	}
	a := &Attachment{s: s, ended: make(chan Ended, 1)}
	s.attachment = a
	if s.left() {
		a.end(moved)
	}
	return a, nil
}

// Seq returns the last number of each channel that is published, once that is known. It returns ctx's error if that ends
// first, and unavailable if the session is no longer live.
func (a *Attachment) Seq(ctx context.Context) ([frames.Channels]int64, error) {
	if err := a.s.frames.Opened(ctx); err != nil {
		return [frames.Channels]int64{}, err
	}
	return a.s.frames.Acked(), nil
}

// Ended receives why the hold is over, once, unless the socket detached first.
func (a *Attachment) Ended() <-chan Ended { return a.ended }

// Detach gives the session up. It is idempotent.
func (a *Attachment) Detach() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.attachment == a {
		a.s.attachment = nil
	}
}

// end tells the socket. There is room for the first reason; later ones do not matter.
func (a *Attachment) end(why Ended) {
	select {
	case a.ended <- why:
	default:
	}
}

// moved is the end of holds when a session leaves this process.
var moved = Ended{ServerShutdown, "The session moves to another process; connect again."}

// Release ends the hold on a session, if there is one.
func (s *Session) Release(why Ended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attachment != nil {
		s.attachment.end(why)
	}
}
