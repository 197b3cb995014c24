package frames

import (
	"errors"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// pauses are the pauses between retries while the stream is unreachable.
var pauses = retry.Pauses{First: 10 * time.Millisecond, Last: time.Second}

// send publishes b, expecting the channel's last message at place after; see append.
func (w *Writer) send(c Channel, b *batch, after uint64) (Ack, error) {
	return w.append(Message{
		Session: w.cfg.Session, Channel: c, Epoch: w.cfg.Epoch,
		First: b.first, Count: b.count, ID: b.id, Data: *b.buf, After: after,
	})
}

// append publishes m. It retries until it succeeds, the writer is closed, or another holder has taken over
// (stale_lease). A message that is too large for the stream is divided; a single frame is shortened.
func (w *Writer) append(m Message) (Ack, error) {
	for try := range pauses.Each(w.ctx) {
		ack, done, err := w.tryAppend(&m)
		if done {
			return ack, err
		}
		if w.ctx.Err() != nil {
			break
		}
		if try == 0 {
			w.cfg.Log.Warn("frames wait: the stream is unreachable", "session", w.cfg.Session,
				"channel", m.Channel.String(), "error", err)
		}
	}
	return Ack{}, errClosed
}

// tryAppend publishes m. It corrects m.After or shortens m.Data if the stream refuses them. done is false if the
// stream is unreachable.
func (w *Writer) tryAppend(m *Message) (ack Ack, done bool, err error) {
	for {
		ack, err := w.cfg.Stream.Append(w.ctx, *m)
		switch {
		case err == nil:
			return ack, true, nil
		case errors.Is(err, ErrConflict):
			var stored bool
			if ack, stored, err = w.settle(m); err != nil || stored {
				return ack, true, err
			}
			continue
		case errors.Is(err, fault.PayloadTooLarge) && m.Count > 1:
			ack, err := w.inHalves(*m)
			return ack, true, err
		case errors.Is(err, fault.PayloadTooLarge):
			if short := shortened(m.Data); len(short) < len(m.Data) {
				w.cfg.Log.Error("a frame is shortened: it is too large for the stream", "session", w.cfg.Session,
					"channel", m.Channel.String(), "seq", m.First, "bytes", len(m.Data), "error", err)
				m.Data = short
				continue
			}
		}
		return Ack{}, false, err
	}
}

// inHalves publishes a message of several frames as two.
func (w *Writer) inHalves(m Message) (Ack, error) {
	first, second := divide(m)
	ack, err := w.append(first)
	if err != nil {
		return ack, err
	}
	second.After = ack.Place
	return w.append(second)
}

// settle finds out why the stream refused m: an earlier try of m was stored after all; the channel's messages have
// expired, so that m.After becomes 0; or another holder has taken over (stale_lease).
func (w *Writer) settle(m *Message) (ack Ack, stored bool, err error) {
	tail, err := w.tail(m.Channel)
	if err != nil {
		return Ack{}, false, err
	}
	switch {
	case tail.Epoch > m.Epoch:
		return Ack{}, false, stale(w.cfg.Session)
	case tail.Place != 0 && tail.Epoch == m.Epoch && m.Count > 0 && tail.Last == m.First+int64(m.Count)-1:
		return Ack{Place: tail.Place}, true, nil
	case tail.Place == 0 || tail.Last == m.First-1:
		// Only the store knows whether the lease is still ours: a new holder's marker expires too.
		if err := w.held(); err != nil {
			return Ack{}, false, err
		}
		m.After = tail.Place
		return Ack{}, false, nil
	}
	return Ack{}, false,
		fault.New(fault.StaleLease, "The frames of session %s were published up to %d by another process.", m.Session,
			tail.Last)
}

// tail reads a channel's last message, retrying until the writer is closed.
func (w *Writer) tail(c Channel) (Tail, error) {
	for range pauses.Each(w.ctx) {
		tail, err := w.cfg.Stream.Tail(w.ctx, w.cfg.Session, c)
		if err == nil {
			return tail, nil
		}
	}
	return Tail{}, errClosed
}

// held asks the store whether the lease is still ours, retrying until it answers or the writer is closed.
func (w *Writer) held() error {
	for range pauses.Each(w.ctx) {
		err := w.cfg.Held(w.ctx)
		if err == nil || errors.Is(err, fault.StaleLease) {
			return err
		}
	}
	return errClosed
}

func stale(session string) error {
	return fault.New(fault.StaleLease, "Another process took over session %s.", session)
}
