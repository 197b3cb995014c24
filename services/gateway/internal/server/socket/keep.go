package socket

import (
	"context"
	"errors"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/gateway/internal/core/channel"
)

// pauses has the pauses between attempts to attach again.
var pauses = retry.Pauses{First: 50 * time.Millisecond, Last: time.Second}

// keep waits for the end of the hold. If the hold was lost, or the holder is stopping, it attaches again at the
// session's new holder; the client does not notice.
func (s *Socket) keep(hold channel.Hold) {
	for {
		ended, err := hold.Wait(s.probe)
		if s.ctx.Err() != nil {
			return
		}
		if err == nil && ended.Code != codeShutdown {
			s.close(known(ended.Code), ended.Reason)
			return
		}
		if hold = s.again(); hold == nil {
			return
		}
		s.published(hold)
	}
}

// known maps a holder's code to the code of a closing frame.
func known(code string) string {
	if code == codeEnded || code == codeReplaced {
		return code
	}
	return codeShutdown
}

// again attaches to the session with retries. If that fails for the grace, it closes the socket and returns nil.
func (s *Socket) again() channel.Hold {
	end := time.Now().Add(s.hub.deps.Limits.Grace)
	for range pauses.Each(s.ctx) {
		hold, err := s.tryAgain()
		switch {
		case s.ctx.Err() != nil:
			return nil
		case err == nil:
			return hold
		case errors.Is(err, fault.NotFound), errors.Is(err, fault.Gone):
			s.close(codeEnded, "The session has ended.")
			return nil
		case time.Now().Before(end):
			// another try
		case errors.Is(err, fault.SessionAttached):
			s.close(codeReplaced, "Another client has taken the session over.")
			return nil
		default:
			s.close(codeShutdown, "The session's holder cannot be reached; connect again later.")
			return nil
		}
	}
	return nil
}

// tryAgain attempts to attach once. The timeout bounds the attempt; the hold lasts as long as the socket.
func (s *Socket) tryAgain() (channel.Hold, error) {
	s.mu.Lock()
	for lane := laneControl + 1; lane < lanes; lane++ {
		s.lanes[lane].splice.Ask()
	}
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(s.ctx)
	tooLong := time.AfterFunc(s.hub.deps.Limits.Attach, cancel)
	hold, err := s.hub.deps.Attach(ctx, s.session, false)
	if err == nil && !tooLong.Stop() {
		err = fault.New(fault.Unavailable, "The session's holder does not answer.")
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return hold, nil
}
