package box

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// spares keeps one init ready for the next box: started, in its namespaces, with everything in its root that does not depend on
// a policy. That is most of what making a box takes. Its methods may be called by many at once.
type spares struct {
	idle   time.Duration // how long one is kept
	launch func(kind) (*inmate, error)
	log    *slog.Logger

	mu     sync.Mutex  // guards what follows
	have   *spare      // nil for none
	next   *time.Timer // makes one; nil for not
	making bool
	closed bool
	wg     sync.WaitGroup // of makers and of those that end a spare
}

// settle is how long no box must have been made before a spare is: boxes that follow each other at once would wait for it, and it
// would take from what the last box is for.
const settle = 20 * time.Millisecond

// lookAfter is how often it is looked whether a spare is stale: it holds what was mounted when it was started, so that what was
// unmounted meanwhile is busy.
const lookAfter = time.Second

// killWait is how long a spare that is killed may take to end. It has nothing to hang in.
const killWait = 10 * time.Second

// spare is an init that waits.
type spare struct {
	kind   kind
	init   *inmate
	mounts *os.File // sees changes of what is mounted since the init was started
	until  time.Time
	look   *time.Timer // sees whether it is to be ended
}

func newSpares(idle time.Duration, launch func(kind) (*inmate, error), log *slog.Logger) *spares {
	return &spares{idle: idle, launch: launch, log: log}
}

// take returns an init of a kind, and nil if there is none.
func (s *spares) take(k kind) *inmate {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// drop ends the spare, which nobody waits for but close. The caller holds mu.
func (s *spares) drop() {
	s.have.look.Stop()
	s.wg.Go(s.have.end)
	s.have = nil
}

// stale reports whether something was mounted, or is mounted no more, since the init was started: its root is from then.
func (s *spare) stale() bool {
	fds := []unix.PollFd{{Fd: int32(s.mounts.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n != 0 || err != nil
}

// want has an init of a kind made soon, unless there is one.
func (s *spares) want(k kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle <= 0 || s.closed || s.have != nil || s.making {
		return
	}
	if s.next != nil {
		s.next.Stop()
	}
	s.next = time.AfterFunc(settle, func() { s.fill(k) })
}

// fill makes an init of a kind, unless there is one or one is being made.
func (s *spares) fill(k kind) {
	s.mu.Lock()
	if s.closed || s.have != nil || s.making {
		s.mu.Unlock()
		return
	}
	s.making = true
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	made, err := s.make(k)
	s.mu.Lock()
	s.making = false
	kept := err == nil && !s.closed
	if kept {
		made.until = time.Now().Add(s.idle)
		made.look = time.AfterFunc(min(s.idle, lookAfter), func() { s.look(made) })
		s.have = made
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		s.log.Warn("no init can be kept ready for the next cage", "error", err)
	case !kept:
		made.end()
	}
}

// make starts a spare.
func (s *spares) make(k kind) (*spare, error) {
	// Before the init has its copy of what is mounted; and not by package os, which would take the news for itself.
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

// look ends a spare that nobody took in its time, or that is stale.
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

// close ends the spare. None is made any more.
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
