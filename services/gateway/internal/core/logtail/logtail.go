// Package logtail passes new entries of projects' logs to their readers.
package logtail

import (
	"log/slog"
	"sync"
)

// Entry is a new entry for a stream.
type Entry struct {
	Level  slog.Level
	Source string
	// JSON is the entry on one line.
	JSON []byte
}

// Filter selects entries.
type Filter struct {
	// Level is the lowest level.
	Level slog.Level
	// Source filters unless it is empty.
	Source string
}

func (f Filter) takes(e Entry) bool {
	return e.Level >= f.Level && (f.Source == "" || f.Source == e.Source)
}

// Bounds of the entries that wait for one reader. Past them it misses entries.
const (
	maxEntries = 2048
	maxBytes   = 4 << 20
)

// Hub has the readers of a gateway. It is safe for concurrent use and starts no goroutine.
type Hub struct {
	mu      sync.Mutex // guards the maps, and the fields of their readers
	readers map[project]map[*Reader]bool
}

type project struct{ owner, id string }

// NewHub returns a hub without readers.
func NewHub() *Hub { return &Hub{readers: map[project]map[*Reader]bool{}} }

// Reader receives the entries of one project that are told after it was made. A reader that misses an entry receives
// no more; [Reader.Take] then returns false, and a new reader is needed.
type Reader struct {
	hub     *Hub
	of      project
	filter  Filter
	wake    chan struct{} // has room for one
	waiting [][]byte
	bytes   int
	missed  bool
}

// Read returns a reader of a project's log.
func (h *Hub) Read(owner, id string, f Filter) *Reader {
	r := &Reader{hub: h, of: project{owner, id}, filter: f, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers[r.of] == nil {
		h.readers[r.of] = map[*Reader]bool{}
	}
	h.readers[r.of][r] = true
	return r
}

// Wanted reports whether a project has readers.
func (h *Hub) Wanted(owner, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.readers[project{owner, id}]) > 0
}

// Readers returns how many readers there are.
func (h *Hub) Readers() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, list := range h.readers {
		n += len(list)
	}
	return n
}

// Tell passes entries to the readers of a project. It does not block.
func (h *Hub) Tell(owner, id string, entries []Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers[project{owner, id}] {
		for _, e := range entries {
			r.take(e)
		}
	}
}

// Missed marks every reader as one that missed entries, because notices may have been lost.
func (h *Hub) Missed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, list := range h.readers {
		for r := range list {
			r.miss()
		}
	}
}

// take and miss are called with the hub's lock held.
func (r *Reader) take(e Entry) {
	switch {
	case r.missed || !r.filter.takes(e):
		return
	case len(r.waiting) >= maxEntries || r.bytes+len(e.JSON) > maxBytes:
		r.miss()
		return
	}
	r.waiting, r.bytes = append(r.waiting, e.JSON), r.bytes+len(e.JSON)
	r.signal()
}

func (r *Reader) miss() {
	r.missed, r.waiting, r.bytes = true, nil, 0
	r.signal()
}

func (r *Reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Ready returns a channel that receives a value when Take has entries, or the reader has missed some.
func (r *Reader) Ready() <-chan struct{} { return r.wake }

// Take returns the waiting entries. ok is false once the reader has missed some.
func (r *Reader) Take() (entries [][]byte, ok bool) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	entries, r.waiting, r.bytes = r.waiting, nil, 0
	return entries, !r.missed
}

// Close ends the reader. It may be called twice.
func (r *Reader) Close() {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.readers[r.of], r)
	if len(r.hub.readers[r.of]) == 0 {
		delete(r.hub.readers, r.of)
	}
}
