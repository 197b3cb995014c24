package socket

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/gateway/internal/core/channel"
)

// writeBuffer is the size of a buffer that a socket has while it writes a frame. readBuffer is the size of the
// buffer that each socket keeps.
const (
	writeBuffer = 4 << 10
	readBuffer  = 1 << 10
)

// Hub has the sockets of a gateway. Make one with [New]; its methods are safe for concurrent use.
type Hub struct {
	deps     Deps
	upgrader websocket.Upgrader

	mu        sync.RWMutex // guards the fields below
	bySession map[string][]*Socket
	watches   map[string][]*Watch // by session; a list is replaced and never modified
	count     int
	closed    bool
	empty     chan struct{} // closed once closed is set and the last socket has gone
}

// New returns a hub without sockets.
func New(deps Deps) *Hub {
	return &Hub{
		deps:      deps,
		bySession: map[string][]*Socket{},
		watches:   map[string][]*Watch{},
		empty:     make(chan struct{}),
		upgrader: websocket.Upgrader{
			ReadBufferSize:  readBuffer,
			WriteBufferSize: writeBuffer,
			WriteBufferPool: &sync.Pool{},
			Subprotocols:    []string{Protocol},
			CheckOrigin:     allowed,
			Error:           unanswered,
		},
	}
}

// Run pings clients, closes sockets that reach their maximum age, and closes all sockets while the bus is
// unavailable for longer than the grace. When ctx ends it closes the remaining sockets and returns once all have
// gone.
func (h *Hub) Run(ctx context.Context) {
	tick := time.NewTicker(max(min(time.Second, h.pingEach(), h.deps.Limits.Grace/3), time.Millisecond))
	defer tick.Stop()
	var bus Absence
	for {
		select {
		case now := <-tick.C:
			h.each(func(s *Socket) {
				if now.Sub(s.pinged) >= h.pingEach() {
					s.pinged = now
					s.ping()
				}
				s.age(now)
			})
			if bus.Check(now, h.deps.Ready(), h.deps.Limits.Grace) {
				h.each(func(s *Socket) {
					s.close(codeShutdown, "The frames of the session cannot be reached; connect again later.")
				})
			}
		case <-ctx.Done():
			h.Close()
			<-h.empty
			return
		}
	}
}

// pingEach is the time between two pings of a socket. Each socket has its own phase, because thousands of pings and
// answers at once would delay the frames of all.
func (h *Hub) pingEach() time.Duration { return h.deps.Limits.Idle / 3 }

// TooOld is the reason for closing a socket at its maximum age.
const TooOld = "The socket has reached its maximum age behind a sign-in proxy; connect again."

// age closes a socket at its maximum age.
func (s *Socket) age(now time.Time) {
	if limit := s.hub.deps.Limits.Age; limit > 0 && now.Sub(s.born) >= limit {
		s.close(codeShutdown, TooOld)
	}
}

// Close refuses new sockets and closes the open ones with server_shutdown. It does not wait; see [Hub.Wait].
func (h *Hub) Close() {
	h.mu.Lock()
	already := h.closed
	h.closed = true
	if !already && h.count == 0 {
		close(h.empty)
	}
	h.mu.Unlock()
	h.each(func(s *Socket) { s.close(codeShutdown, "The gateway is stopping; connect again.") })
}

// Wait returns once all sockets have gone after [Hub.Close], or ctx ends.
func (h *Hub) Wait(ctx context.Context) {
	select {
	case <-h.empty:
	case <-ctx.Done():
	}
}

// Deliver passes a live batch to the sockets and watches of its session. It does not block.
func (h *Hub) Deliver(session, name string, b channel.Batch) {
	lane := laneOf(name)
	if lane == laneControl {
		return
	}
	h.mu.RLock()
	sockets, watches := h.bySession[session], h.watches[session]
	h.mu.RUnlock()
	for _, w := range watches {
		w.deliver(name, b)
	}
	for _, s := range sockets {
		s.live(lane, b)
	}
}

// Missed is called when live batches may have been missed: every channel is filled from stored frames. If the
// stored frames were lost, clients must read their sessions again.
func (h *Hub) Missed(storeLost bool) {
	h.each(func(s *Socket) { s.missed(storeLost) })
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, watches := range h.watches {
		for _, w := range watches {
			w.miss(storeLost)
		}
	}
}

// Count returns the number of sockets.
func (h *Hub) Count() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.count
}

func (h *Hub) each(f func(*Socket)) {
	h.mu.RLock()
	all := make([]*Socket, 0, h.count)
	for _, list := range h.bySession {
		all = append(all, list...)
	}
	h.mu.RUnlock()
	for _, s := range all {
		f(s)
	}
}

// Admit fails with unavailable for a socket above the limit, and for every socket of a closed hub.
func (l Limits) Admit(open int, closed bool) error {
	switch {
	case closed:
		return fault.New(fault.Unavailable, "The gateway is stopping; try again shortly.").With("subsystem", "gateway")
	case open >= l.Sockets:
		return fault.New(fault.Unavailable, "The gateway is at its limit of open sockets; close one or try again later.").
			With("subsystem", "gateway")
	}
	return nil
}

// add registers s for live batches. It replaces the session's list, because Deliver reads the list without the
// lock.
func (h *Hub) add(s *Socket) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.deps.Limits.Admit(h.count, h.closed); err != nil {
		return err
	}
	h.bySession[s.session] = append(slices.Clone(h.bySession[s.session]), s)
	h.count++
	return nil
}

func (h *Hub) remove(s *Socket) {
	s.forget()
	s.ignore()
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(h.bySession[s.session]), func(other *Socket) bool { return other == s })
	if h.bySession[s.session] = rest; len(rest) == 0 {
		delete(h.bySession, s.session)
	}
	h.count--
	if h.closed && h.count == 0 {
		close(h.empty)
	}
}
