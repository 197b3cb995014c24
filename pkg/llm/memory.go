package llm

import (
	"sync"
	"sync/atomic"
)

// Memories bounds what the drivers of a process keep of conversations together. The zero value is a bound of 0 bytes.
type Memories struct {
	limit int64
	used  atomic.Int64
}

// NewMemories returns a bound in bytes.
func NewMemories(limit int64) *Memories { return &Memories{limit: limit} }

// New returns an empty memory for one conversation. Its owner drops it when the conversation ends.
func (m *Memories) New() *Memory { return &Memory{of: m} }

// Memory is the part of a conversation that a driver keeps from one request to the next, such as its encoded messages.
// A driver works without it: a nil memory is always empty, and a memory past the bound of the process stays empty. It
// is safe for concurrent use.
type Memory struct {
	of *Memories

	mu      sync.Mutex // guards the fields below
	dropped bool
	value   any
	size    int64
}

// Take removes the value and returns it, nil for an empty memory. So no two requests share a value.
func (m *Memory) Take() any {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	value := m.value
	m.clear()
	return value
}

// Keep replaces the value by one with a size in bytes. Past the bound of the process, and after Drop, the memory stays
// empty.
func (m *Memory) Keep(value any, size int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
	if m.dropped || m.of == nil {
		return
	}
	if m.of.used.Add(int64(size)) > m.of.limit {
		m.of.used.Add(-int64(size))
		return
	}
	m.value, m.size = value, int64(size)
}

// Size returns the size of the value in bytes.
func (m *Memory) Size() int {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.size)
}

// Drop forgets the value for good.
func (m *Memory) Drop() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped = true
	m.clear()
}

// clear empties the memory. The caller holds mu.
func (m *Memory) clear() {
	if m.of != nil {
		m.of.used.Add(-m.size)
	}
	m.value, m.size = nil, 0
}
