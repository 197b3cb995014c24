package egress

import (
	"os"
	"sync"
	"time"

	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// Targets and reason of reports on unrouted packets. Only their number and family are known.
const (
	targetUDP  = "UDP"
	targetUDP6 = "UDP over IPv6"
	whyUDP     = "UDP does not leave a cage; the kernel counts what it refuses, datagrams and the connecting of UDP " +
		"sockets, " +
		"and does not tell where to"
)

// unrouted reports packets that the kernel refused for lack of a route, by its counters: once a second while commands
// run, at each command's end, and at close.
type unrouted struct {
	busy  func() bool
	found func(target string, n uint64)
	ready chan struct{} // closed by watch

	mu       sync.Mutex // guards the fields below; held while found is called
	counters []counter
	text     [netns.CountersSize]byte // the last content of a counter
	timer    *time.Timer              // polls next; nil if not scheduled
	closed   bool
}

// counter is a file of /proc/net with a count.
type counter struct {
	file *os.File
	told uint64 // the reported part of the count
}

func newUnrouted(busy func() bool, found func(target string, n uint64)) *unrouted {
	return &unrouted{busy: busy, found: found, ready: make(chan struct{})}
}

// watch sets the counters. It is called once; the files must stay open until close.
func (u *unrouted) watch(files []*os.File) {
	defer close(u.ready)
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, file := range files {
		u.counters = append(u.counters, counter{file: file})
	}
}

// began starts polling at the start of a command.
func (u *unrouted) began() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer == nil && !u.closed {
		u.timer = time.AfterFunc(together, u.tick)
	}
}

// tick polls, and schedules the next poll while a command runs.
func (u *unrouted) tick() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return
	}
	u.look()
	if u.busy() {
		u.timer.Reset(together)
	} else {
		u.timer = nil
	}
}

// ended polls at the end of a command, after watch: a short command may end before the gate is served.
func (u *unrouted) ended() {
	<-u.ready
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.look()
	}
}

// close polls once more; found is not called afterwards.
func (u *unrouted) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.look()
	u.closed = true
	if u.timer != nil {
		u.timer.Stop()
	}
}

// look reports the counts' growth since the last call. The caller holds u.mu.
func (u *unrouted) look() {
	for i := range u.counters {
		c := &u.counters[i]
		n, _ := c.file.ReadAt(u.text[:], 0) // an unreadable file counts as unchanged
		count, ipv6, ok := netns.Unrouted(u.text[:n])
		if !ok || count <= c.told {
			continue
		}
		target := targetUDP
		if ipv6 {
			target = targetUDP6
		}
		u.found(target, count-c.told)
		c.told = count
	}
}
