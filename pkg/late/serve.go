package late

import "context"

// Acknowledge passes each acknowledged id of a stream to told, until the stream ends. A first message without an id
// opens the stream. The returned context ends with the stream.
//
// Goroutines: one that reads the stream, which ends with it.
func Acknowledge(ctx context.Context, receive func() (id string, err error), told func(id string)) (
	context.Context, context.CancelFunc,
) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for {
			id, err := receive()
			if err != nil {
				return
			}
			if id != "" {
				told(id)
			}
		}
	}()
	return ctx, cancel
}

// Receive stores each record that next returns, and acknowledges it if it was stored, until one of them fails. A record
// that is not stored comes again with the next stream. next returns a record without an id for another event.
func Receive(
	next func() (Record, error), store func(Record) (stored bool, err error), acknowledge func(id string) error,
) error {
	for {
		r, err := next()
		if err != nil {
			return err
		}
		if r.ID == "" {
			continue
		}
		stored, err := store(r)
		if err == nil && stored {
			err = acknowledge(r.ID)
		}
		if err != nil {
			return err
		}
	}
}
