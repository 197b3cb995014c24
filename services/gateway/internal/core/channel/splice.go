package channel

// Verdict is a [Splice]'s decision about a batch or a client's request.
type Verdict int

// The verdicts.
const (
	// Nothing to do.
	Nothing Verdict = iota
	// Deliver the batch that came with the verdict.
	Deliver
	// Fill: read the stored batches from [Splice.Next] on and pass them to [Splice.Stored].
	Fill
	// Lost: a frame that the client lacks has expired, or its numbers do not match the stored ones. It must read
	// the session anew.
	Lost
)

type state int

const (
	off     state = iota // the client did not ask for the channel
	live                 // live batches pass
	filling              // stored batches pass
)

// Splice is where a client stands in a channel. The zero value is a channel without a client, in an unknown state.
type Splice struct {
	state state
	next  int64 // the frame the client gets next; only where state is not off
	end   int64 // one past the last frame known to be published, or 0
	asked int64 // end when the holder was asked
	epoch int64 // the latest received, or 0
	again bool  // Suspect came while filling
	lazy  bool  // the client wants all stored frames, or, if the beginning has expired, those from since on
	since int64 // the next frame when the client asked
}

// On reports whether the client gets the channel.
func (s *Splice) On() bool { return s.state != off }

// Filling reports whether stored batches are being read.
func (s *Splice) Filling() bool { return s.state == filling }

// Next is the number of the frame the client gets next.
func (s *Splice) Next() int64 { return s.next }

// Last is the number of the last frame known to be published, or 0.
func (s *Splice) Last() int64 { return max(s.end-1, 0) }

// Ask tells that the holder of the session is about to be asked where the channel stands.
func (s *Splice) Ask() { s.asked = s.end }

// Published takes the holder's answer to [Splice.Ask]: the number of the channel's last frame. Frames may have come
// live since it said so. Fill where the client misses some, Lost where the client has seen more than there is.
func (s *Splice) Published(last int64) Verdict {
	if last+1 >= s.asked {
		s.end = max(s.end, last+1)
		return s.check()
	}
	// It counts from an earlier point than was known before it was asked.
	if s.state != off && last+1 < s.next {
		return Lost
	}
	s.end = last + 1
	return s.check()
}

// Resume starts the channel after the frame the client saw last. Lost where there is no such frame yet, Fill where
// frames were missed.
func (s *Splice) Resume(seen int64) Verdict {
	if seen > s.Last() {
		return Lost
	}
	s.state, s.next, s.lazy = live, seen+1, false
	return s.check()
}

// Begin starts the channel at its first frame, or, if that has expired, with the next live frame.
func (s *Splice) Begin() Verdict {
	s.state, s.next, s.lazy, s.since = live, 1, true, s.Last()+1
	return s.check()
}

// Follow starts the channel with the next live frame.
func (s *Splice) Follow() {
	s.state, s.next, s.lazy = live, s.Last()+1, false
}

// Stop ends the channel; the client does not want it any more.
func (s *Splice) Stop() { s.state, s.lazy = off, false }

// Suspect tells that live batches may have been missed, so that even the last may be unknown.
func (s *Splice) Suspect() Verdict {
	switch s.state {
	case off:
		return Nothing
	case filling:
		// The current read may end before the missed frames.
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

// Live takes a batch as it was published. A batch that cannot pass yet is forgotten: it will come again as a stored
// one.
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

// Stored takes the next stored batch while the channel is filling. Lost where a frame before it is missing.
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

// contradicts reports whether a later holder begins before where the client is. It then counts from an earlier
// point, as after a loss of the stream, and its frames are others than the client's of the same numbers.
func (s *Splice) contradicts(b Batch) bool {
	return s.state == live && s.epoch > 0 && b.Epoch > s.epoch && b.First < s.next
}

func (s *Splice) note(b Batch) {
	s.epoch = max(s.epoch, b.Epoch)
	s.end = max(s.end, b.Next())
}

// Filled tells that no stored batch is left. It is Nothing if no frame is missing any more and live batches pass
// again, Fill if published frames are not among the stored ones (yet).
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

// GiveUp tells that the missing frames will not come: Lost, or Fill if the client takes the frames since it asked.
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
