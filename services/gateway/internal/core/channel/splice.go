package channel

// Verdict is the action that a [Splice] asks of its caller.
type Verdict int

// The verdicts.
const (
	// Nothing: no action.
	Nothing Verdict = iota
	// Deliver: send the returned batch to the client.
	Deliver
	// Fill: read the stored batches from [Splice.Next] on, and pass them to [Splice.Stored].
	Fill
	// Lost: a frame that the client needs has expired, or the client's numbers do not match the stored ones. The
	// client must read the session again.
	Lost
)

type state int

const (
	off     state = iota // the client is not subscribed
	live                 // live batches are delivered
	filling              // stored batches are delivered
)

// Splice is the position of one client in a channel. The zero value is a channel that the client is not subscribed
// to and whose last frame is unknown.
type Splice struct {
	state state
	next  int64 // the next frame for the client; valid unless state is off
	end   int64 // the number after the last frame known to be published, or 0
	asked int64 // the value of end at the last call of Ask
	epoch int64 // the latest epoch received, or 0
	again bool  // Suspect was called while filling
	lazy  bool  // the client wants all stored frames; if the first have expired, it accepts those from since on
	since int64 // the number of the next frame at the time of Begin
}

// On reports whether the client is subscribed.
func (s *Splice) On() bool { return s.state != off }

// Filling reports whether stored batches are needed.
func (s *Splice) Filling() bool { return s.state == filling }

// Next returns the number of the next frame for the client.
func (s *Splice) Next() int64 { return s.next }

// Last returns the number of the last frame known to be published, or 0.
func (s *Splice) Last() int64 { return max(s.end-1, 0) }

// Ask is called before the session's holder is asked for the number of the last frame.
func (s *Splice) Ask() { s.asked = s.end }

// Published takes the holder's answer after [Splice.Ask]: the number of the channel's last frame. The answer may be
// older than live frames that arrived since Ask. It returns Fill if the client misses frames, and Lost if the
// client has received more frames than the holder has published.
func (s *Splice) Published(last int64) Verdict {
	if last+1 >= s.asked {
		s.end = max(s.end, last+1)
		return s.check()
	}
	// The holder's last frame is before one known at Ask: the holder counts from an earlier point.
	if s.state != off && last+1 < s.next {
		return Lost
	}
	s.end = last + 1
	return s.check()
}

// Resume subscribes the client after the last frame that it has seen. It returns Lost if that frame is not
// published yet, and Fill if the client missed frames.
func (s *Splice) Resume(seen int64) Verdict {
	if seen > s.Last() {
		return Lost
	}
	s.state, s.next, s.lazy = live, seen+1, false
	return s.check()
}

// Begin subscribes the client from the first frame on. If the first frames have expired, it begins at the next live
// frame.
func (s *Splice) Begin() Verdict {
	s.state, s.next, s.lazy, s.since = live, 1, true, s.Last()+1
	return s.check()
}

// Follow subscribes the client from the next live frame on.
func (s *Splice) Follow() {
	s.state, s.next, s.lazy = live, s.Last()+1, false
}

// Stop unsubscribes the client.
func (s *Splice) Stop() { s.state, s.lazy = off, false }

// Suspect is called when live batches may have been missed, the last one included.
func (s *Splice) Suspect() Verdict {
	switch s.state {
	case off:
		return Nothing
	case filling:
		// The current read of the store may end before the missed frames.
		s.again = true
		return Nothing
	}
	s.state = filling
	return Fill
}

func (s *Splice) check() Verdict {
	if s.state == live && s.next < s.end {
		s.state = filling
		return Fill
	}
	return Nothing
}

// Live takes a live batch and returns the part to deliver. A batch that cannot be delivered yet is dropped, because
// it is read again from the store.
func (s *Splice) Live(b Batch) (Batch, Verdict) {
	if s.contradicts(b) {
		return Batch{}, Lost
	}
	s.note(b)
	switch {
	case s.state != live || b.Next() <= s.next:
		return Batch{}, Nothing
	case b.First > s.next:
		s.state = filling
		return Batch{}, Fill
	}
	return s.take(b)
}

// Stored takes the next stored batch while the channel is filling. It returns Lost if a frame before the batch is
// missing.
func (s *Splice) Stored(b Batch) (Batch, Verdict) {
	if s.state != filling {
		return Batch{}, Nothing
	}
	s.note(b)
	if b.First > s.next && s.missing() == Lost {
		return Batch{}, Lost
	}
	switch {
	case b.First > s.next:
		return Batch{}, Lost
	case b.Next() <= s.next:
		return Batch{}, Nothing
	}
	return s.take(b)
}

// contradicts reports whether a batch of a later epoch begins before the client's position. The later holder then
// counts from an earlier point, as after a loss of the store, and its frames differ from the client's frames of the
// same numbers.
func (s *Splice) contradicts(b Batch) bool {
	return s.state == live && s.epoch > 0 && b.Epoch > s.epoch && b.First < s.next
}

func (s *Splice) note(b Batch) {
	s.epoch = max(s.epoch, b.Epoch)
	s.end = max(s.end, b.Next())
}

// Filled is called when all stored batches were read. It returns Nothing if no frame is missing, so that live
// batches are delivered again, and Fill if published frames are not stored yet.
func (s *Splice) Filled() Verdict {
	if s.state != filling {
		return Nothing
	}
	if s.next < s.end || s.again {
		s.again = false
		return Fill
	}
	s.state = live
	return Nothing
}

// GiveUp is called when missing frames do not get stored in time. It returns Fill if the client accepts the frames
// from its subscription on, and else Lost.
func (s *Splice) GiveUp() Verdict {
	if s.state != filling {
		return Nothing
	}
	return s.missing()
}

func (s *Splice) missing() Verdict {
	if !s.lazy {
		return Lost
	}
	s.lazy, s.next = false, s.since
	return Fill
}

func (s *Splice) take(b Batch) (Batch, Verdict) {
	b = b.From(s.next)
	s.next, s.lazy = b.Next(), false
	return b, Deliver
}
