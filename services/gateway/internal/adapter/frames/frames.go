// Package frames is the gateway's access to the bus: the live batches of the sessions with a socket or another reader,
// and the stored frames.
package frames

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/gateway/internal/core/channel"
)

// The pauses between attempts. The first ones are short, because on a fresh machine the stream is created while the
// gateway starts.
var (
	connecting = retry.Pauses{First: 10 * time.Millisecond, Last: time.Second}
	asking     = retry.Pauses{First: 200 * time.Millisecond, Last: 200 * time.Millisecond}
)

// Listener receives live batches and the state of the subscription. Its methods do not block.
type Listener interface {
	// Deliver receives a live batch.
	Deliver(session, channel string, b channel.Batch)
	// Missed is called when batches may have been missed. storeLost is true if the stored frames were lost.
	Missed(storeLost bool)
	// Connected receives the connection before the first batch. It fails with unavailable.
	Connected(ctx context.Context, conn *bus.Conn) error
}

// Frames is the gateway's connection to the bus. [New] creates it; it works while [Frames.Run] runs.
type Frames struct {
	bus  bus.Config
	log  *slog.Logger
	open atomic.Pointer[opened]
}

type opened struct {
	conn   *bus.Conn
	frames *bus.Frames
	live   *bus.Subscription
}

// New returns a connection that Run opens.
func New(cfg bus.Config) *Frames { return &Frames{bus: cfg, log: cfg.Log} }

// Run connects, with retries, and relays batches until ctx ends.
func (f *Frames) Run(ctx context.Context, to Listener) {
	for try := range connecting.Each(ctx) {
		err := f.serve(ctx, to)
		if ctx.Err() != nil {
			return
		}
		pause := connecting.After(try)
		level := slog.LevelDebug // usual at the start on a fresh machine
		if pause == connecting.Last {
			level = slog.LevelWarn
		}
		f.log.Log(ctx, level, "the bus cannot be used yet", "error", err, "again_in", pause)
	}
}

// serve connects once and relays batches until ctx ends; it fails only before the first batch.
func (f *Frames) serve(ctx context.Context, to Listener) error {
	conn, err := bus.Connect(ctx, f.bus)
	if err != nil {
		return err
	}
	defer conn.Close()
	// session-manager creates the stream. The gateway waits for it and never changes it.
	frames := bus.ReadFrames(conn)
	incarnation, err := frames.Incarnation(ctx)
	if err != nil {
		return err
	}
	if err := to.Connected(ctx, conn); err != nil {
		return err
	}
	missed := make(chan struct{}, 1)
	live := frames.Live(func(b bus.Batch) { to.Deliver(b.Session, b.Channel, batch(b)) }, func() {
		select {
		case missed <- struct{}{}:
		default:
		}
	})
	defer live.Close()
	f.open.Store(&opened{conn, frames, live})
	defer f.open.Store(nil)
	for {
		select {
		case <-missed:
			incarnation = f.catchUp(ctx, frames, incarnation, to)
		case <-ctx.Done():
			return nil
		}
	}
}

// catchUp calls Missed on the listener and returns the store's current incarnation.
func (f *Frames) catchUp(ctx context.Context, frames *bus.Frames, before string, to Listener) string {
	for range asking.Each(ctx) {
		now, err := frames.Incarnation(ctx)
		if err == nil {
			to.Missed(now != before)
			return now
		}
	}
	return before
}

// Ready fails with fault.Unavailable while the bus is unavailable.
func (f *Frames) Ready() error {
	o := f.open.Load()
	if o == nil {
		return fault.New(fault.Unavailable, "The bus cannot be reached yet.").With("subsystem", "bus")
	}
	return o.conn.Ready()
}

// Follow implements socket.Deps.Follow.
func (f *Frames) Follow(ctx context.Context, session string) (stop func(), err error) {
	o := f.open.Load()
	if o == nil {
		return nil, f.Ready()
	}
	return o.live.Follow(ctx, session)
}

// Stored implements socket.Deps.Stored. It ends without an error before frames that are published and not stored
// yet.
func (f *Frames) Stored(ctx context.Context, session, name string, from int64) iter.Seq2[channel.Batch, error] {
	return func(yield func(channel.Batch, error) bool) {
		o := f.open.Load()
		if o == nil {
			yield(channel.Batch{}, f.Ready())
			return
		}
		for b, err := range o.frames.Replay(ctx, session, name, from, 0) {
			if errors.Is(err, bus.ErrGap) {
				err = channel.ErrGap
			}
			if !yield(batch(b), err) {
				return
			}
		}
	}
}

// Next returns the number of the next frame of a channel, 0 if the channel has no stored frame. It fails with
// unavailable.
func (f *Frames) Next(ctx context.Context, session, name string) (int64, error) {
	o := f.open.Load()
	if o == nil {
		return 0, f.Ready()
	}
	tail, found, err := o.frames.Tail(ctx, session, name)
	if err != nil || !found {
		return 0, err
	}
	return tail.Next(), nil
}

//convert:one batch bus.Batch channel.Batch Seq=First Body=Data
