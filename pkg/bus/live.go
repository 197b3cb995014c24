package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"kaged.dev/pkg/fault"
)

// defaultPendingMessages limits the messages that wait for a handler; beyond it messages are dropped.
const defaultPendingMessages = 1 << 16

// Subscription receives the live batches of the sessions that its reader follows.
type Subscription struct {
	conn    *Conn
	handle  func(Batch)
	lost    func()
	waiting chan *nats.Msg
	closing chan struct{}
	closed  chan struct{} // closed when the last callback has returned

	calling sync.Mutex // held while a callback runs

	mu       sync.Mutex // guards the field below
	followed map[string]*following
}

// following is a followed session.
type following struct {
	sub        *nats.Subscription
	readers    int
	registered bool // the server has registered the subscription
}

// Live returns a subscription that follows no session yet. It calls handle with every batch of a followed session
// stored from then on. Those of one subject come in the order of the stream, each once. It calls lost when batches may
// have been missed: after a reconnection, and after messages were dropped because handle was too slow; the reader then
// replays its channels. handle and lost are never called at the same time, must not block for long, and must not call
// Close.
func (f *Frames) Live(handle func(Batch), lost func()) *Subscription {
	s := &Subscription{
		conn: f.conn, handle: handle, lost: lost, waiting: make(chan *nats.Msg, f.pendingMessages),
		closing: make(chan struct{}), closed: make(chan struct{}), followed: map[string]*following{},
	}
	f.conn.mu.Lock()
	f.conn.lives[s] = true
	f.conn.mu.Unlock()
	go s.run()
	return s
}

func (s *Subscription) run() {
	defer close(s.closed)
	for {
		select {
		case msg := <-s.waiting:
			s.received(msg)
		case <-s.closing:
			return
		case <-s.conn.closed:
			return
		}
	}
}

// Follow subscribes to a session; when it returns, the server has registered the subscription. It fails with not_found
// for a name that no session can have, and with unavailable. The caller calls stop once.
func (s *Subscription) Follow(ctx context.Context, session string) (stop func(), err error) {
	if !validToken(session) {
		return nil, fault.New(fault.NotFound, "There is no session %q.", session)
	}
	f, err := s.add(session)
	if err != nil {
		return nil, classify(ctx, err, "NATS cannot be reached.")
	}
	stop = func() { s.remove(session, f) }
	s.mu.Lock()
	registered := f.registered
	s.mu.Unlock()
	if registered {
		return stop, nil
	}
	guarded, cancel := s.conn.guard(ctx)
	defer cancel()
	if err := s.conn.nc.FlushWithContext(guarded); err != nil {
		stop()
		return nil, classify(ctx, err, "NATS cannot be reached.")
	}
	s.mu.Lock()
	f.registered = true
	s.mu.Unlock()
	return stop, nil
}

func (s *Subscription) add(session string) (*following, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.followed[session]
	if f == nil {
		sub, err := s.conn.nc.ChanSubscribe(livePrefix+subjectPrefix+session+".*", s.waiting)
		if err != nil {
			return nil, err
		}
		f = &following{sub: sub}
		s.followed[session] = f
	}
	f.readers++
	return f, nil
}

func (s *Subscription) remove(session string, f *following) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.readers--; f.readers == 0 && s.followed[session] == f {
		delete(s.followed, session)
		_ = f.sub.Unsubscribe()
	}
}

func (s *Subscription) received(msg *nats.Msg) {
	b, _, ok := parseStored(msg)
	if !ok {
		return
	}
	s.calling.Lock()
	defer s.calling.Unlock()
	s.handle(b)
}

// reportLoss calls lost unless the subscription is closed.
func (s *Subscription) reportLoss() {
	s.calling.Lock()
	defer s.calling.Unlock()
	select {
	case <-s.closing:
	default:
		s.lost()
	}
}

// Close ends the subscription. After its return no callback runs. It may be called twice.
func (s *Subscription) Close() {
	s.conn.mu.Lock()
	there := s.conn.lives[s]
	delete(s.conn.lives, s)
	s.conn.mu.Unlock()
	if there {
		s.calling.Lock()
		close(s.closing)
		s.calling.Unlock()
		s.mu.Lock()
		for _, f := range s.followed {
			_ = f.sub.Unsubscribe()
		}
		clear(s.followed)
		s.mu.Unlock()
	}
	<-s.closed
}
