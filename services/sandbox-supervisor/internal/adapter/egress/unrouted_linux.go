package egress

import (
	"os"
	"sync"
	"time"

	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// What is told of what had no route: how often, and of which family, is all that is known.
const (
	targetUDP  = "UDP"
	targetUDP6 = "UDP over IPv6"
	whyUDP     = "UDP does not leave a cage; the kernel counts what it refuses, datagrams and the connecting of UDP sockets, " +
		"and does not tell where to"
)

// unrouted tells what the kernel refused because it had no route. Nobody sees that, but the kernel counts it. Its count is looked at
// once a second while commands run, when one has ended, and at the end.
type unrouted struct {
	busy  func() bool
	found func(target string, n uint64)
	ready chan struct{} // closed by watch

	mu       sync.Mutex // guards what follows, and is held while found is called
	counters []counter
	text     [netns.CountersSize]byte // what was read of one last
	timer    *time.Timer              // of the next look, nil for none
	closed   bool
}

// counter is a file that shows a count.
type counter struct {
	file *os.File
	told uint64 // of the count
}

func newUnrouted(busy func() bool, found func(target string, n uint64)) *unrouted {
	return &unrouted{busy: busy, found: found, ready: make(chan struct{})}
}

// watch begins to look at files, which may be closed after close. It is called once.
func (u *unrouted) watch(files []*os.File) {
	defer close(u.ready)
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, file := range files {
		u.counters = append(u.counters, counter{file: file})
	}
}

// began takes note that a command runs.
func (u *unrouted) began() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer == nil && !u.closed {
		u.timer = time.AfterFunc(together, u.tick)
	}
}

// tick looks, and will again if a command runs.
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

// ended takes note that a command has ended, and waits for watch: a command can be quicker than the gate that is to serve it.
func (u *unrouted) ended() {
	<-u.ready
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.look()
	}
}

// close looks once more. Nothing is told when it has returned.
func (u *unrouted) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.look()
	u.closed = true
	if u.timer != nil {
		u.timer.Stop()
	}
}

// look tells what was refused since it was called last. The caller holds u.mu.
func (u *unrouted) look() {
	for i := range u.counters {
		c := &u.counters[i]
		n, _ := c.file.ReadAt(u.text[:], 0) // what cannot be read is no count
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
