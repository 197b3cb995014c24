package live

import (
	"context"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Attachment is a socket's hold on a session: at most one socket has it.
type Attachment struct {
	s      *Session
	ended  chan Ended
	wanted chan struct{} // capacity 1
	gone   chan struct{} // closed when the socket detached or another took the session over
}

// Ended says why a hold ended.
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

// Attach gives the session to one socket until [Attachment.Detach]. With takeover the present hold ends as
// replaced. Without takeover Attach tells the present holder on [Attachment.Wanted] and waits for it to detach: a
// client that lost its connection and reconnects may arrive before its old socket is known to be lost. Attach fails
// with gone if the session has ended, with session_attached if the other socket stays for longer than patience, and
// with ctx's error.
func (s *Session) Attach(ctx context.Context, takeover bool, patience time.Duration) (*Attachment, error) {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for {
		a, before, err := s.tryAttach(takeover)
		if a != nil || err != nil {
			return a, err
		}
		select {
		case before.wanted <- struct{}{}:
		default:
		}
		select {
		case <-before.gone:
		case <-enough.C:
			return nil,
				fault.New(fault.SessionAttached, "Another client is attached to this session; close it, or attach with "+
					"--takeover (takeover=1).")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryAttach returns the new hold, or the one that prevents it. Ending a session first changes its state and then
// ends the hold, so that no socket holds an ended session.
func (s *Session) tryAttach(takeover bool) (a, before *Attachment, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record.State == record.Ended {
		return nil, nil, record.Gone()
	}
	if before = s.attachment; before != nil {
		if !takeover {
			return nil, before, nil
		}
		before.end(Ended{Replaced, "Another connection took the session over."})
		close(before.gone)
	}
	a = &Attachment{s: s, ended: make(chan Ended, 1), wanted: make(chan struct{}, 1), gone: make(chan struct{})}
	s.attachment = a
	if s.left() {
		a.end(moved)
	}
	return a, nil, nil
}

// underWay bounds the wait of [Attachment.Seq] for the acknowledgement of published frames.
const underWay = time.Second

// Seq returns the last published number of each channel, once it is known. It is not less than the number of a frame
// that a reader of the stream has, unless an acknowledgement is late. Seq returns ctx's error if that ends first, and
// unavailable if the session is no longer live.
func (a *Attachment) Seq(ctx context.Context) ([frames.Channels]int64, error) {
	if err := a.s.frames.Opened(ctx); err != nil {
		return [frames.Channels]int64{}, err
	}
	settled, cancel := context.WithTimeout(ctx, underWay)
	defer cancel()
	return a.s.frames.Reached(settled), nil
}

// Ended receives the reason of the hold's end once, unless the socket detached first.
func (a *Attachment) Ended() <-chan Ended { return a.ended }

// Wanted receives when another socket waits for the session.
func (a *Attachment) Wanted() <-chan struct{} { return a.wanted }

// Detach ends the hold. It is idempotent.
func (a *Attachment) Detach() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.attachment == a {
		a.s.attachment = nil
		close(a.gone)
	}
}

// end tells the socket why its hold ended. Only the first reason counts.
func (a *Attachment) end(why Ended) {
	select {
	case a.ended <- why:
	default:
	}
}

// moved is the end of a hold when the session leaves this process.
var moved = Ended{ServerShutdown, "The session moves to another process; connect again."}

// Release ends the hold of a socket on the session, if one has it.
func (s *Session) Release(why Ended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attachment != nil {
		s.attachment.end(why)
	}
}
