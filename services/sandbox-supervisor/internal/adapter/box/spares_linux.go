package box

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// spares keeps one init ready for the next cage: started in its namespaces, with the policy-independent part of its
// root built, which is most of the work. Its methods are safe for concurrent use.
type spares struct {
	idle   time.Duration // how long a spare is kept
	launch func(kind) (*cageInit, error)
	log    *slog.Logger

	mu     sync.Mutex  // guards the fields below
	have   *spare      // nil if absent
	next   *time.Timer // starts the next spare; nil if not scheduled
	wanted time.Time   // when the last one was wanted, and its kind
	last   kind
	making *making // nil if none is being made
	closed bool
	wg     sync.WaitGroup // of goroutines that make or end a spare
}

// making is a spare that is being made.
type making struct {
	kind    kind
	claimed bool          // a cage waits for it
	done    chan struct{} // closed when the making has ended
	spare   *spare        // for the cage that waits; set before done is closed, nil if none could be made
}

// settle is the pause after a cage was made before a spare is: a spare made at once would compete with the cage's first
// command for CPU. Cages that follow each other in less than the pause get theirs without it, because the next cage
// then finds most of its work done.
const settle = 20 * time.Millisecond

// lookAfter is the interval of checks for a stale spare. Its mount namespace keeps file systems busy that the host has
// unmounted.
const lookAfter = time.Second

// killWait bounds the wait for a killed spare, which has no device or network file system to hang in.
const killWait = 10 * time.Second

// spare is a waiting init.
type spare struct {
	kind   kind
	init   *cageInit
	mounts *os.File // /proc/self/mountinfo, opened before the init's start: poll reports later changes
	until  time.Time
	look   *time.Timer // checks for staleness and age
}

func newSpares(idle time.Duration, launch func(kind) (*cageInit, error), log *slog.Logger) *spares {
	return &spares{idle: idle, launch: launch, log: log}
}

// take returns the spare of a kind, or nil. It waits for one that is being made, unless another cage does. A spare of
// another kind or a stale one is ended.
func (s *spares) take(k kind) *cageInit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.making; m != nil && m.kind == k && !m.claimed && !s.closed {
		m.claimed = true
		s.wg.Add(1)
		s.mu.Unlock()
		<-m.done // bounded as the start of any init is
		s.mu.Lock()
		defer s.wg.Done()
		switch made := m.spare; {
		case made == nil:
			return nil
		case s.closed || made.stale():
			s.wg.Go(made.end)
			return nil
		default:
			made.mounts.Close()
			return made.init
		}
	}
	found := s.have
	if found == nil {
		return nil
	}
	if found.kind != k || found.stale() {
		s.drop()
		return nil
	}
	s.have = nil
	found.look.Stop()
	found.mounts.Close()
	return found.init
}

// drop ends the spare in the background; close waits for it. The caller holds mu.
func (s *spares) drop() {
	s.have.look.Stop()
	s.wg.Go(s.have.end)
	s.have = nil
}

// stale reports whether mounts of the host have changed since the init was started with a copy of them.
func (s *spare) stale() bool {
	fds := []unix.PollFd{{Fd: int32(s.mounts.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n != 0 || err != nil
}

// want schedules a spare of a kind, unless there is one.
func (s *spares) want(k kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	follows := k == s.last && time.Since(s.wanted) < settle
	s.wanted, s.last = time.Now(), k
	if s.idle <= 0 || s.closed || s.have != nil || s.making != nil {
		return
	}
	if s.next != nil {
		s.next.Stop()
	}
	pause := settle
	if follows {
		pause = 0
	}
	s.next = time.AfterFunc(pause, func() { s.fill(k) })
}

// fill makes a spare of a kind, unless there is one or one is being made.
func (s *spares) fill(k kind) {
	s.mu.Lock()
	if s.closed || s.have != nil || s.making != nil {
		s.mu.Unlock()
		return
	}
	m := &making{kind: k, done: make(chan struct{})}
	s.making = m
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	made, err := s.make(k)
	s.mu.Lock()
	s.making = nil
	kept := err == nil && !s.closed
	switch {
	case kept && m.claimed:
		m.spare = made
	case kept:
		made.until = time.Now().Add(s.idle)
		made.look = time.AfterFunc(min(s.idle, lookAfter), func() { s.look(made) })
		s.have = made
	}
	close(m.done)
	s.mu.Unlock()
	switch {
	case err != nil:
		s.log.Warn("cannot start a spare init", "error", err)
	case !kept:
		made.end()
	}
}

// make starts a spare.
func (s *spares) make(k kind) (*spare, error) {
	// Opened before the init copies the mounts, and not by package os: its poller would consume the event.
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	mounts := os.NewFile(uintptr(fd), "mountinfo")
	init, err := s.launch(k)
	if err != nil {
		mounts.Close()
		return nil, err
	}
	return &spare{kind: k, init: init, mounts: mounts}, nil
}

// look ends a spare that is stale or has reached its age.
func (s *spares) look(waiting *spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := time.Until(waiting.until)
	switch {
	case s.have != waiting:
	case left <= 0 || waiting.stale():
		s.drop()
	default:
		waiting.look.Reset(min(left, lookAfter))
	}
}

func (s *spare) end() {
	s.mounts.Close()
	s.init.kill()
	if !s.init.reap(killWait) {
		s.init.process.giveUp()
	}
}

// close ends the spare and waits; no other is made.
func (s *spares) close() {
	s.mu.Lock()
	s.closed = true
	if s.next != nil {
		s.next.Stop()
	}
	if s.have != nil {
		s.drop()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
