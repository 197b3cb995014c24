package socket

import (
	"slices"
	"sync"

	"kaged.dev/services/gateway/internal/core/channel"
)

// watchedBytes bounds the batches that wait for a reader of a watch. Beyond it they are dropped, and the reader reads
// them from the store.
const watchedBytes = 256 << 10

// Watch gathers the live batches of a session for a reader without a hold. It is safe for concurrent use.
type Watch struct {
	hub     *Hub
	session string
	wake    chan struct{} // has room for one

	mu     sync.Mutex // guards the fields below
	queued map[string][]channel.Batch
	bytes  int
	// missed says that batches may be missing among the queued ones, lost that the store itself was lost.
	missed, lost bool
}

// Watch begins a watch of a session.
func (h *Hub) Watch(session string) *Watch {
	w := &Watch{hub: h, session: session, wake: make(chan struct{}, 1), queued: map[string][]channel.Batch{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches[session] = append(slices.Clone(h.watches[session]), w)
	return w
}

// Published receives when there is something to take.
func (w *Watch) Published() <-chan struct{} { return w.wake }

// Take returns the batches of each channel since the last call, in order. missed reports that batches may be missing
// among them or before them, lost that the stored frames are void.
func (w *Watch) Take() (batches map[string][]channel.Batch, missed, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batches, missed = w.queued, w.missed
	w.queued, w.bytes, w.missed = map[string][]channel.Batch{}, 0, false
	return batches, missed, w.lost
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
	if w.bytes += len(b.Data); w.bytes > watchedBytes {
		w.queued, w.bytes, w.missed = map[string][]channel.Batch{}, 0, true
	} else {
		w.queued[name] = append(w.queued[name], b)
	}
	w.mu.Unlock()
	wake(w.wake)
}

// miss tells that batches may have been missed.
func (w *Watch) miss(storeLost bool) {
	w.mu.Lock()
	w.missed, w.lost = true, w.lost || storeLost
	w.mu.Unlock()
	wake(w.wake)
}
