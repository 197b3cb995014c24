// Package systemsocket serves system sockets: GET /api/v1/socket, one channel system with the changes of an operator's
// sessions, anywhere in kaged.
//
// Frames are numbered by the socket, from 1, and not kept: a client that comes back, or that is told system.missed,
// fetches its view again. Every socket of an operator gets the same frames, at any gateway.
//
// A socket has two goroutines, which end with it: one reads, one writes. [Hub.Run] waits for all.
package systemsocket

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/gateway/internal/server/socket"
)

// RunningCount is the type of frames with a count.
const RunningCount = "sessions.running_count"

// Frame is a notice for an operator.
type Frame struct {
	Type    string
	Payload json.RawMessage
	// Version orders frames with a count; it is 0 for others.
	Version int64
}

// Deps are the collaborators of a [Hub].
type Deps struct {
	Log *slog.Logger
	// Version is kaged's.
	Version string
	// Ready fails while no notices come.
	Ready func() error
	// Count returns the frame with the count of the caller in ctx.
	Count func(ctx context.Context) (Frame, error)
	// Limits are those of sessions' sockets: Sockets, Frame, Frames, FrameBurst, Bytes, ByteBurst, Events, Idle,
	// Flush and Closing count.
	Limits socket.Limits
}

// Hub has the system sockets of a gateway. It is safe for concurrent use.
type Hub struct {
	deps     Deps
	upgrader websocket.Upgrader
	working  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	byOwner map[string]map[*client]bool
	count   int
	closed  bool
}

// New returns a hub without sockets.
func New(deps Deps) *Hub {
	return &Hub{
		deps: deps, byOwner: map[string]map[*client]bool{},
		upgrader: websocket.Upgrader{
			ReadBufferSize: 1 << 10, WriteBufferSize: 4 << 10, WriteBufferPool: &sync.Pool{},
			Subprotocols: []string{socket.Protocol},
			CheckOrigin:  func(*http.Request) bool { return true }, // a layer before has
			Error:        func(http.ResponseWriter, *http.Request, int, error) {},
		},
	}
}

// Upgrade makes a socket of a request with a checked caller and CSRF token. It fails with bad_request for a
// request that is no handshake, and with unavailable; then the answer is unwritten. signedOut calls end when the caller
// is signed out: the socket closes.
func (h *Hub) Upgrade(
	w http.ResponseWriter, r *http.Request, signedOut func(end func()) (stop func()),
) error {
	if err := socket.CheckHandshake(w, r); err != nil {
		return err
	}
	if err := h.deps.Ready(); err != nil {
		return err
	}
	c := newClient(h, ident.CallerFrom(r.Context()).UserID)
	if err := h.add(c); err != nil {
		return err
	}
	c.forget = signedOut(func() {
		c.close(codeSignedOut, "The browser of this socket was signed out; sign in again.")
	})
	// Asked for once the socket hears of changes, so that no change falls in between.
	count, err := h.deps.Count(r.Context())
	if err != nil {
		h.remove(c)
		return err
	}
	conn, err := h.upgrader.Upgrade(socket.Metered(w, h.deps.Limits), r, maps.Clone(w.Header()))
	if err != nil {
		h.remove(c)
		return fault.Wrap(err, fault.BadRequest, "The upgrade to a WebSocket failed.")
	}
	c.start(conn, count)
	return nil
}

// Tell passes a frame to the sockets of an operator. It does not block.
func (h *Hub) Tell(owner string, f Frame) {
	h.mu.Lock()
	list := make([]*client, 0, len(h.byOwner[owner]))
	for c := range h.byOwner[owner] {
		list = append(list, c)
	}
	h.mu.Unlock()
	for _, c := range list {
		c.tell(f)
	}
}

// Missed tells every socket that notices may have been lost.
func (h *Hub) Missed() {
	h.each(func(c *client) { c.tell(missed) })
}

// Close refuses new sockets and closes those that are there with server_shutdown. It does not wait; see [Hub.Run].
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.each(func(c *client) { c.close(codeShutdown, "The gateway is stopping; connect again.") })
}

// Run keeps the hub until ctx ends, and closes sockets while notices have been away for longer than the grace. Then
// it closes the rest and returns when every socket has gone.
func (h *Hub) Run(ctx context.Context) {
	tick := time.NewTicker(max(min(time.Second, h.deps.Limits.Grace/3), time.Millisecond))
	defer tick.Stop()
	there := time.Now()
	for {
		select {
		case now := <-tick.C:
			if limit := h.deps.Limits.Age; limit > 0 {
				h.each(func(c *client) {
					if now.Sub(c.born) >= limit {
						c.close(codeShutdown, socket.TooOld)
					}
				})
			}
			if h.deps.Ready() == nil {
				there = now
			} else if now.Sub(there) >= h.deps.Limits.Grace {
				h.each(func(c *client) { c.close(codeShutdown, "What changes cannot be told; connect again later.") })
			}
		case <-ctx.Done():
			h.Close()
			h.working.Wait()
			return
		}
	}
}

// Count returns how many sockets there are.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

func (h *Hub) each(f func(*client)) {
	h.mu.Lock()
	var all []*client
	for _, list := range h.byOwner {
		for c := range list {
			all = append(all, c)
		}
	}
	h.mu.Unlock()
	for _, c := range all {
		f(c)
	}
}

func (h *Hub) add(c *client) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return fault.New(fault.Unavailable, "The gateway is stopping; try again shortly.").With("subsystem", "gateway")
	case h.count >= h.deps.Limits.Sockets:
		return fault.New(fault.Unavailable, "The gateway has as many sockets as it may; close one or try again later.").
			With("subsystem", "gateway")
	}
	if h.byOwner[c.owner] == nil {
		h.byOwner[c.owner] = map[*client]bool{}
	}
	h.byOwner[c.owner][c] = true
	h.count++
	h.working.Add(1)
	return nil
}

func (h *Hub) remove(c *client) {
	c.forget()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byOwner[c.owner], c)
	if len(h.byOwner[c.owner]) == 0 {
		delete(h.byOwner, c.owner)
	}
	h.count--
	h.working.Done()
}

// hello is the first frame.
func (h *Hub) hello() *apiv1.SystemHello { return &apiv1.SystemHello{DaemonVersion: h.deps.Version} }
