package frames

import (
	"context"
	"errors"

	"kaged.dev/pkg/retry"
)

// Start says where the numbers of a session's channels continue.
type Start struct {
	// Stored are the numbers in the store, by channel. At least the frames up to them were published.
	Stored [Channels]int64
	// Outbox are the durable frames in the store's outbox, in order.
	Outbox []Durable
	// TakeOver says that another process may have published since this one last did. The writer then appends a marker
	// to each channel, so that the stream refuses the other process.
	TakeOver bool
	// WorkSince is the start of the work that the last holder left unfinished, in Unix milliseconds, or 0. Frames
	// published after it may be missing in Stored.
	WorkSince int64
}

// lostStream is added to a channel's numbers if the stream was lost together with the holder. Frames with unknown
// numbers may have been delivered; a client that has seen them must notice a gap rather than receive other frames
// under the same numbers.
const lostStream = 1 << 20

// New returns the writer of a session and starts to look up the end of each channel in the background. If
// s.TakeOver is set it appends a marker to each channel. It then publishes the frames of s.Outbox that the stream
// lacks. Frames can be emitted at once; they follow. An unreachable stream delays all of this.
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

// Opened waits until the ends of the channels are known; from then on [Writer.Acked] is valid. It returns ctx's
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

// ready numbers and publishes the frames that were emitted while the channels were being looked up.
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

// locate sets a channel's next number and appends the marker if s.TakeOver is set.
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
		// The stale holder may have published in between, or an earlier try may have stored the marker: look again.
		if !errors.Is(err, ErrConflict) && !retry.Wait(w.ctx, pauses.First) {
			return errClosed
		}
	}
}

// streamIsYounger reports whether the stream was created after moment, retrying until the writer is closed.
func (w *Writer) streamIsYounger(moment int64) (bool, error) {
	for range pauses.Each(w.ctx) {
		created, err := w.cfg.Stream.Created(w.ctx)
		if err == nil {
			return created.UnixMilli() > moment, nil
		}
	}
	return false, errClosed
}

// republish publishes the durable frames one by one. If the stream already holds a frame, the number meant for it
// goes to the next frame.
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
		// A duplicate behind the marker was stored by an earlier try of this loop and keeps its number.
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
