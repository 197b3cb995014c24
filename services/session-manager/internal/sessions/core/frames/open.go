package frames

import (
	"context"
	"errors"

	"kaged.dev/pkg/retry"
)

// Start says where a session's frames go on.
type Start struct {
	// Stored are the numbers noted in the store, by channel: at least up to here frames were published.
	Stored [Channels]int64
	// Outbox are the durable frames that the store still lists, in order.
	Outbox []Durable
	// TakeOver says that another process may have published since this one last did: the channels are marked, so
	// that the other is refused from now on.
	TakeOver bool
	// WorkSince is since when, in milliseconds, the session has work that its last holder left unfinished, or 0.
	// Since then more may have been published than Stored says.
	WorkSince int64
}

// lostStream is the jump of a channel's numbers when the stream was lost together with the holder: forgotten
// numbers may have gone out, and a client that has seen them must find a gap rather than other frames under the
// same numbers.
const lostStream = 1 << 20

// New returns the writer of a session and begins to find the end of each channel: it marks the channels if
// s.TakeOver says so and publishes the frames of s.Outbox that the stream lacks. Frames can be emitted at once;
// they follow. A stream that is away delays all this like everything else.
func New(cfg Config, s Start) *Writer {
	w := &Writer{cfg: cfg, room: make(chan struct{}), opened: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.work.Add(1)
	go func() {
		defer w.work.Done()
		if err := w.open(s); err != nil {
			w.fail(err)
			return
		}
		w.ready()
	}()
	return w
}

// Opened waits until it is known where the channels stand: from then on [Writer.Acked] is true. It returns ctx's
// error if that ends first, and the writer's if it is lost or closed.
func (w *Writer) Opened(ctx context.Context) error {
	select {
	case <-w.opened:
		return nil
	case <-w.ctx.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isOpen {
		return nil
	}
	return w.err
}

// ready lets the frames go that came in the meantime.
func (w *Writer) ready() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.opened)
	w.isOpen = true
	early := w.early
	w.early, w.buffered = nil, 0
	for _, d := range early {
		w.enqueue(d)
	}
	w.wake()
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
		place := tail.Place
		if s.TakeOver {
			marker := Message{Session: w.cfg.Session, Channel: c, Epoch: w.cfg.Epoch, First: last + 1, After: tail.Place}
			var ack Ack
			ack, err = w.cfg.Stream.Append(w.ctx, marker)
			place = ack.Place
		}
		if err == nil {
			w.mu.Lock()
			w.channels[c] = channel{next: last + 1, acked: last, place: place}
			w.mu.Unlock()
			return nil
		}
		// The stale holder may have published in between, and an earlier try of the marker may have been stored: look again.
		if !errors.Is(err, ErrConflict) && !retry.Wait(w.ctx, pauses.First) {
			return errClosed
		}
	}
}

// streamIsYounger reports whether the stream was made after a moment, trying until the writer is closed.
func (w *Writer) streamIsYounger(moment int64) (bool, error) {
	for range pauses.Each(w.ctx) {
		created, err := w.cfg.Stream.Created(w.ctx)
		if err == nil {
			return created.UnixMilli() > moment, nil
		}
	}
	return false, errClosed
}

// republish publishes the durable frames one by one: the stream says of each whether it was there before, and then its
// number stays free for the next.
func (w *Writer) republish(outbox []Durable) error {
	for _, d := range outbox {
		w.mu.Lock()
		ch := &w.channels[d.Channel]
		after := ch.place
		b := ch.push(d.ID, d.N)
		w.add(ch, b, d.Frame)
		ch.queue = nil
		w.mu.Unlock()
		ack, err := w.send(d.Channel, b, after)
		if err != nil {
			return err
		}
		// A duplicate of a message behind the marker is an earlier try of this one.
		if ack.Duplicate && ack.Place <= after {
			w.mu.Lock()
			ch.next = b.first
			w.buffered -= len(*b.buf)
			w.mu.Unlock()
			w.cfg.Progress(Progress{Session: w.cfg.Session, Published: []int64{d.N}})
			continue
		}
		w.done(d.Channel, b, ack)
	}
	return nil
}
