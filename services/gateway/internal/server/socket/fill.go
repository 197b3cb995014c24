package socket

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"kaged.dev/pkg/retry"
	"kaged.dev/services/gateway/internal/core/channel"
)

// fill sends a channel's stored frames until its gap is closed.
func (s *Socket) fill(lane int) {
	var since time.Time // the time at which a published frame was first found missing, or zero
	for s.ctx.Err() == nil {
		s.mu.Lock()
		splice := &s.lanes[lane].splice
		if !splice.Filling() {
			s.lanes[lane].filling = false
			s.mu.Unlock()
			return
		}
		from := splice.Next()
		s.mu.Unlock()
		err := s.fillFrom(lane, from)
		if err == nil && s.fillEnds(lane, from, &since) {
			return
		}
		if err == nil {
			continue
		}
		if since = (time.Time{}); errors.Is(err, channel.ErrGap) {
			s.giveUp(lane)
			continue
		}
		s.hub.deps.Log.Debug("stored frames cannot be read", "session_id", s.session, "channel", names[lane], "error", err)
		retry.Wait(s.ctx, retryStored)
	}
}

// retryStored is the pause before the store is read again after an error, retryMissing the pause if a published
// frame is missing in it.
const (
	retryStored  = 200 * time.Millisecond
	retryMissing = 10 * time.Millisecond
)

// fillFrom sends stored frames from a number on, as fast as the client takes them.
func (s *Socket) fillFrom(lane int, from int64) error {
	for b, err := range s.hub.deps.Stored(s.ctx, s.session, names[lane], from) {
		if err != nil {
			return err
		}
		if !s.awaitRoom(s.ctx, lane, len(b.Data)) || !s.awaitTurn(len(b.Data)) {
			return nil
		}
		s.mu.Lock()
		out, verdict := s.lanes[lane].splice.Stored(b)
		s.obey(lane, out, verdict)
		more := s.lanes[lane].splice.Filling() && s.phase < closing
		s.mu.Unlock()
		if !more {
			return nil
		}
	}
	return nil
}

// awaitRoom waits until size bytes fit into half of the lane's limit. The other half is for the live frames that
// follow. It returns false if ctx ends first.
func (s *Socket) awaitRoom(ctx context.Context, lane, size int) bool {
	half := s.hub.deps.Limits.lane(lane) / 2
	for {
		s.mu.Lock()
		waiting, room := s.queue.Waiting(lane), s.room(lane)
		s.mu.Unlock()
		if waiting == 0 || waiting+size <= half {
			return ctx.Err() == nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
	}
}

// room returns the channel that receives a value when a frame of a lane was sent or dropped. mu is held.
func (s *Socket) room(lane int) chan struct{} {
	switch {
	case lane < lanes:
		return s.lanes[lane].room
	case s.screens[lane-lanes] != nil:
		return s.screens[lane-lanes].room
	}
	return nil // the terminal was dropped while its frame was written
}

// awaitTurn waits until the replay rate allows size bytes. It waits in parts if they exceed the burst. It returns
// false if the socket ends first.
func (s *Socket) awaitTurn(size int) bool {
	if s.replay.Limit() == rate.Inf {
		return s.ctx.Err() == nil
	}
	for size > 0 {
		part := min(size, s.replay.Burst())
		if s.replay.WaitN(s.ctx, part) != nil {
			return false
		}
		size -= part
	}
	return true
}

// fillEnds reports whether the channel is filled. If published frames are not stored yet, it waits for a moment;
// after Missing it gives them up.
func (s *Socket) fillEnds(lane int, from int64, since *time.Time) bool {
	s.mu.Lock()
	splice := &s.lanes[lane].splice
	verdict := splice.Filled()
	progress := splice.Next() > from
	ends := verdict == channel.Nothing
	if ends {
		s.lanes[lane].filling = false
	}
	s.mu.Unlock()
	switch {
	case ends:
		return true
	case progress || since.IsZero():
		*since = time.Now()
	case time.Since(*since) >= s.hub.deps.Limits.Missing:
		s.giveUp(lane)
		*since = time.Time{}
		return false
	}
	retry.Wait(s.ctx, retryMissing)
	return false
}

func (s *Socket) giveUp(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.obey(lane, channel.Batch{}, s.lanes[lane].splice.GiveUp())
}
