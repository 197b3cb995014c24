package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// Limits of the messages that wait for a handler; beyond them messages are dropped.
const (
	defaultPendingMessages = 1 << 18
	pendingBytes           = 128 << 20
)

// Subscription is a live subscription.
type Subscription struct {
	conn *Conn
	sub  *nats.Subscription

	mu     sync.Mutex // held while a callback runs; guards the field below
	closed bool
	handle func(Batch)
	lost   func()
}

// Live calls handle with every batch of every session stored from now on. Those of one subject come in the order of the
// stream, each once. Live calls lost when batches may have been missed: after a reconnection, and after messages were
// dropped because handle was too slow; the reader then replays its channels. handle and lost are never called at the
// same time, must not block for long, and must not call Close. When Live returns, the server has registered the
// subscription.
func (f *Frames) Live(ctx context.Context, handle func(Batch), lost func()) (*Subscription, error) {
	c := f.conn
	s := &Subscription{conn: c, handle: handle, lost: lost}
	c.mu.Lock()
	sub, err := c.nc.Subscribe(livePrefix+allSubjects, s.received)
	if err == nil {
		s.sub = sub
		c.subs[sub] = s
		err = sub.SetPendingLimits(f.pendingMessages, pendingBytes)
	}
	c.mu.Unlock()
	if err == nil {
		guarded, cancel := c.guard(ctx)
		defer cancel()
		err = c.nc.FlushWithContext(guarded)
	}
	if err != nil {
		if s.sub != nil {
			s.Close()
		}
		return nil, classify(ctx, err, "NATS cannot be reached.")
	}
	return s, nil
}

func (s *Subscription) received(msg *nats.Msg) {
	b, _, ok := parseStored(msg)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.handle(b)
	}
}

func (s *Subscription) reportLoss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.lost()
	}
}

// Close ends the subscription. After its return no callback runs. It may be called twice.
func (s *Subscription) Close() {
	s.conn.mu.Lock()
	delete(s.conn.subs, s.sub)
	s.conn.mu.Unlock()
	_ = s.sub.Unsubscribe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
