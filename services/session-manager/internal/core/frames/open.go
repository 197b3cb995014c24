package frames

import (
	"context"
	"errors"
)

// Start says where a session's frames go on.
type Start struct {
	// Stored are the numbers noted in the store, by channel: at least up to here frames were published.
	Stored [Channels]int64
	// Outbox are the durable frames that the store still lists, in order.
	Outbox []Durable
	// TakeOver says that somebody else may have published since this process last did: the channels are marked, so that
	// whoever that was is refused from now on.
	TakeOver bool
	// WorkSince is since when, in milliseconds, the session has work that its last holder left unfinished; 0 for none. Since
	// then more may have been published than Stored says.
	WorkSince int64
}

// lostStream is how far a channel's numbers jump when the stream was lost together with the holder: numbers may have gone
// out that nobody remembers, and a client that has seen them must find a gap rather than other frames under the same
// numbers.
const lostStream = 1 << 20

// Open returns the writer of a session. It finds out where each channel stands, marks the channels if s.TakeOver says so,
// and publishes what s.Outbox lists and is not in the stream yet. It fails with stale_lease if yet another holder took
// over, and with the stream's error if the stream cannot be reached before ctx ends.
func Open(ctx context.Context, cfg Config, s Start) (*Writer, error) {
	w := &Writer{cfg: cfg, room: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(ctx)
	err := w.open(s)
	w.cancel()
	if err != nil {
		return nil, err
	}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return w, nil
}

func (w *Writer) open(s Start) error {
	for c := range Channels {
		if err := w.locate(c, s); err != nil {
			return err
		}
	}
	return w.republish(s.Outbox)
}

// locate sets where a channel goes on and marks it.
func (w *Writer) locate(c Channel, s Start) error {
	for {
		tail, err := w.tail(c)
		if err != nil {
			return err
		}
		if tail.Epoch > w.cfg.Epoch {
			return stale(w.cfg.Session)
		}
		last := max(tail.Last, s.Stored[c])
		if tail.Place == 0 && s.WorkSince != 0 {
			lost, err := w.streamIsYounger(s.WorkSince)
			if err != nil {
				return err
			}
			if lost {
				last += lostStream
			}
		}
		w.channels[c] = channel{next: last + 1, acked: last, place: tail.Place}
		if !s.TakeOver {
			return nil
		}
		marker := Message{Session: w.cfg.Session, Channel: c, Epoch: w.cfg.Epoch, First: last + 1, After: tail.Place}
		ack, err := w.cfg.Stream.Append(w.ctx, marker)
		if err == nil {
			w.channels[c].place = ack.Place
			return nil
		}
		// The stale holder may have published in between, and an earlier try of the marker may have been stored: look again.
		if !errors.Is(err, ErrConflict) && !wait(w.ctx, firstPause) {
			return errClosed
		}
	}
}

// streamIsYounger reports whether the stream was made after a moment, trying until the writer is closed.
func (w *Writer) streamIsYounger(moment int64) (bool, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		created, err := w.cfg.Stream.Created(w.ctx)
		if err == nil {
			return created.UnixMilli() > moment, nil
		}
		if !wait(w.ctx, pause) {
			return false, errClosed
		}
	}
}

// republish publishes the durable frames one by one: the stream says of each whether it was there before, and then its
// number stays free for the next.
func (w *Writer) republish(outbox []Durable) error {
	for _, d := range outbox {
		ch := &w.channels[d.Channel]
		b := ch.push(d.ID, d.N)
		w.add(ch, b, d.Frame)
		ch.queue = nil
		after := ch.place
		ack, err := w.send(d.Channel, b, after)
		if err != nil {
			return err
		}
		// A duplicate of a message behind the marker is an earlier try of this one.
		if ack.Duplicate && ack.Place <= after {
			ch.next = b.first
			w.buffered -= len(*b.buf)
			w.cfg.Progress(Progress{Session: w.cfg.Session, Published: []int64{d.N}})
			continue
		}
		w.done(d.Channel, b, ack)
	}
	return nil
}
