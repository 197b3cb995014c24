// Package logtail delivers new entries of projects' logs to their readers.
package logtail

import (
	"log/slog"
	"sync"
)

// Entry is a new log entry.
type Entry struct {
	Level  slog.Level
	Source string
	// JSON is the entry as one line of JSON.
	JSON []byte
}

// Filter selects log entries.
type Filter struct {
	// Level is the lowest level that is selected.
	Level slog.Level
	// Source is the only source that is selected; empty selects all.
	Source string
}

func (f Filter) takes(e Entry) bool {
	return e.Level >= f.Level && (f.Source == "" || f.Source == e.Source)
}

// maxEntries and maxBytes bound the entries that wait for one reader. Beyond them the reader misses entries.
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

// Reader receives the entries of one project that arrive after [Hub.Read]. A reader that has missed an entry
// receives no more entries: [Reader.Take] returns false, and the caller needs a new reader.
type Reader struct {
	hub     *Hub
	of      project
	filter  Filter
	wake    chan struct{} // capacity 1
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

// Readers returns the number of readers.
func (h *Hub) Readers() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, list := range h.readers {
		n += len(list)
	}
	return n
}

// Tell delivers entries to the readers of a project. It does not block.
func (h *Hub) Tell(owner, id string, entries []Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers[project{owner, id}] {
		for _, e := range entries {
			r.take(e)
		}
	}
}

// Missed marks every reader as having missed entries. It is called when notices may have been lost.
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

// Ready returns a channel that receives a value when Take has entries or the reader has missed some.
func (r *Reader) Ready() <-chan struct{} { return r.wake }

// Take returns the waiting entries and removes them. ok is false if the reader has missed entries.
func (r *Reader) Take() (entries [][]byte, ok bool) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	entries, r.waiting, r.bytes = r.waiting, nil, 0
	return entries, !r.missed
}

// Close removes the reader from the hub. It may be called twice.
func (r *Reader) Close() {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.readers[r.of], r)
	if len(r.hub.readers[r.of]) == 0 {
		delete(r.hub.readers, r.of)
	}
}
