// Package systemsocket serves system sockets: GET /api/v1/socket, with the channel system, which reports changes of
// all the operator's sessions, projects, approvals and issues.
//
// A socket numbers its frames from 1, and the frames are not stored: a client that reconnects, or receives
// system.missed, reads its data again. Every socket of an operator gets the same frames, at any gateway.
//
// A socket has three goroutines, which end with it: one reads, one writes, and one waits for both and removes the
// socket from the hub. [Hub.Run] waits for all sockets.
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

// Frame is a notice for an operator.
type Frame struct {
	Type    string
	Payload json.RawMessage
	// Version orders the counts. It is 0 for other frames.
	Version int64
}

// Deps are the dependencies of a [Hub].
type Deps struct {
	Log *slog.Logger
	// Version is the version of kaged.
	Version string
	// Ready fails while notices cannot arrive.
	Ready func() error
	// Count returns a frame with the number of running sessions of the caller in ctx.
	Count func(ctx context.Context) (Frame, error)
	// Limits are those of the sockets of sessions. The fields Sockets, Frame, Frames, FrameBurst, Bytes, ByteBurst,
	// Events, Age, Idle, Flush, Closing and Grace apply.
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
			CheckOrigin:  func(*http.Request) bool { return true }, // the server's layers have checked the origin
			Error:        func(http.ResponseWriter, *http.Request, int, error) {},
		},
	}
}

// Upgrade upgrades a request with a checked caller and CSRF token to a socket. It fails with bad_request for a
// request that is not a handshake, with the error of Count, and with unavailable; then nothing is written.
// signedOut registers end, to be called when the caller is signed out; end closes the socket.
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
	// The count is queried after the socket is registered for changes, so that no change is missed in between.
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

// Close refuses new sockets and closes the open ones with server_shutdown. It does not wait; see [Hub.Run].
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.each(func(c *client) { c.close(codeShutdown, "The gateway is stopping; connect again.") })
}

// Run closes sockets that reach their maximum age, and closes all sockets while notices cannot arrive for longer
// than the grace. When ctx ends it closes the remaining sockets and returns once all have gone.
func (h *Hub) Run(ctx context.Context) {
	tick := time.NewTicker(max(min(time.Second, h.deps.Limits.Grace/3), time.Millisecond))
	defer tick.Stop()
	var bus socket.Absence
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
			if bus.Check(now, h.deps.Ready(), h.deps.Limits.Grace) {
				h.each(func(c *client) { c.close(codeShutdown, "Changes cannot be received now; connect again later.") })
			}
		case <-ctx.Done():
			h.Close()
			h.working.Wait()
			return
		}
	}
}

// Count returns the number of sockets.
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
	if err := h.deps.Limits.Admit(h.count, h.closed); err != nil {
		return err
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

// hello returns the first frame.
func (h *Hub) hello() *apiv1.SystemHello { return &apiv1.SystemHello{DaemonVersion: h.deps.Version} }
