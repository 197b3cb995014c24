package socket

import (
	"slices"
	"sync"

	"kaged.dev/services/gateway/internal/core/channel"
)

// Watch notes the published batches of a session, for a reader without a hold. It is safe for concurrent use.
type Watch struct {
	hub       *Hub
	session   string
	published chan struct{} // has room for one

	mu    sync.Mutex // guards first
	first map[string]int64
}

// Watch begins a watch of a session.
func (h *Hub) Watch(session string) *Watch {
	w := &Watch{hub: h, session: session, published: make(chan struct{}, 1), first: map[string]int64{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches[session] = append(slices.Clone(h.watches[session]), w)
	return w
}

// Published receives after each publication.
func (w *Watch) Published() <-chan struct{} { return w.published }

// First returns the number of the first frame of a channel that was published since the watch began, 0 before that.
func (w *Watch) First(name string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first[name]
}

// Forget ends the watch.
func (w *Watch) Forget() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(w.hub.watches[w.session]), func(other *Watch) bool { return other == w })
	if w.hub.watches[w.session] = rest; len(rest) == 0 {
		delete(w.hub.watches, w.session)
	}
}

func (w *Watch) deliver(name string, b channel.Batch) {
	w.mu.Lock()
	if w.first[name] == 0 {
		w.first[name] = b.First
	}
	w.mu.Unlock()
	wake(w.published)
}
