package socket

import (
	"context"
	"slices"
	"sync"

	"kaged.dev/services/gateway/internal/core/channel"
)

// watchedBytes bounds the batches that wait for the reader of a watch. Beyond it they are dropped, and the reader
// reads them from the store.
const watchedBytes = 256 << 10

// Watch collects the live batches of a session for a reader that does not hold the session. It is safe for
// concurrent use.
type Watch struct {
	hub     *Hub
	session string
	wake    chan struct{} // capacity 1
	ignore  func()        // ends the delivery of live batches

	mu     sync.Mutex // guards the fields below
	queued map[string][]channel.Batch
	bytes  int
	// missed is true if batches may be missing in queued, lost if the stored frames were lost.
	missed, lost bool
}

// Watch starts a watch of a session. It fails as [Deps].Follow does.
func (h *Hub) Watch(ctx context.Context, session string) (*Watch, error) {
	w := &Watch{
		hub: h, session: session, wake: make(chan struct{}, 1), queued: map[string][]channel.Batch{}, ignore: func() {},
	}
	h.mu.Lock()
	h.watches[session] = append(slices.Clone(h.watches[session]), w)
	h.mu.Unlock()
	stop, err := h.deps.Follow(ctx, session)
	if err != nil {
		w.Forget()
		return nil, err
	}
	w.ignore = stop
	return w, nil
}

// Published returns a channel that receives a value when Take has something to return.
func (w *Watch) Published() <-chan struct{} { return w.wake }

// Take returns the batches since the last call by channel, in order. missed is true if batches may be missing among
// or before them. lost is true if the stored frames were lost.
func (w *Watch) Take() (batches map[string][]channel.Batch, missed, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batches, missed = w.queued, w.missed
	w.queued, w.bytes, w.missed = map[string][]channel.Batch{}, 0, false
	return batches, missed, w.lost
}

// Forget ends the watch.
func (w *Watch) Forget() {
	w.ignore()
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

// miss is called when live batches may have been missed.
func (w *Watch) miss(storeLost bool) {
	w.mu.Lock()
	w.missed, w.lost = true, w.lost || storeLost
	w.mu.Unlock()
	wake(w.wake)
}
