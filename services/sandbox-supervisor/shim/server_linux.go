package shim

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

const (
	// giveUp is how long a killed process may take to be gone. The system lets go of one that hangs in a device or a dead
	// network file system only when that ends; its command is then reported as exited with what is left.
	giveUp = 10 * time.Second
	// again is how often the shim looks at a command that is ending, beside every time a process ends.
	again = 20 * time.Millisecond
)

// command is a command the shim has started or is starting.
type command struct {
	id, mark uint64
	pid      int // its main process, 0 before it is forked
	cgroup   int // the folder of its cgroup, -1 for none; the command's to close

	ended   bool // the main process is reaped
	status  unix.WaitStatus
	lenient bool      // terminated: what the main process leaves behind may end by itself, until OpKill
	killed  bool      // OpKill came
	giveUp  time.Time // when to report it as exited in any case; zero until it is first killed
}

// dying returns whether everything of the command is to be killed.
func (c *command) dying() bool { return c.killed || c.ended && !c.lenient }

// server is the state of the shim.
type server struct {
	conn *frame.Conn

	// spawning is held while a process is forked: its mark is then the shim's own.
	spawning sync.Mutex
	forked   chan struct{} // tells the reaper that there is a child again
	reaped   chan struct{} // tells end that a child is gone

	mu       sync.Mutex // guards what follows, and is held while processes are reaped or signalled by id
	commands map[uint64]*command
	mains    map[int]*command        // the commands by their main process, until it is reaped
	forking  int                     // how many processes may exist that are not in mains yet
	early    map[int]unix.WaitStatus // what ended while a fork was on its way
	base     uint64                  // the family of the marks seen
	looking  bool                    // the timer of look runs
	closing  bool                    // end was called
}

func newServer(conn *frame.Conn) *server {
	return &server{
		conn: conn, forked: make(chan struct{}, 1), reaped: make(chan struct{}, 1),
		commands: map[uint64]*command{}, mains: map[int]*command{}, early: map[int]unix.WaitStatus{},
	}
}

// serve does what the supervisor asks for until the socket ends.
func (s *server) serve() {
	for {
		f, fds, err := s.conn.Receive()
		if err != nil {
			return
		}
		if f.Op == frame.OpStart {
			// Beside the loop: a folder on a network that hangs must not keep others from being killed.
			go s.start(f, fds)
			continue
		}
		closeAll(fds)
		s.mu.Lock()
		if c := s.commands[f.Exec]; c != nil && c.pid != 0 {
			s.control(c, f)
		}
		s.mu.Unlock()
	}
}

// control does one thing to a command. The caller holds s.mu.
func (s *server) control(c *command, f frame.Frame) {
	switch f.Op {
	case frame.OpSignal:
		if !c.ended {
			_ = unix.Kill(-c.pid, unix.Signal(f.Signal))
		}
	case frame.OpTerminate:
		c.lenient = true
		s.terminate(c)
	case frame.OpKill:
		c.killed = true
		s.destroy(c, nil)
		s.settle()
	}
}

// end kills everything this process ever started, however it hides, and returns when it is gone.
func (s *server) end() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	for limit := time.Now().Add(giveUp); time.Now().Before(limit); {
		s.mu.Lock()
		s.collect()
		gone := childless() && s.forking == 0
		if !gone {
			s.destroyAll()
		}
		s.mu.Unlock()
		if gone {
			return
		}
		select {
		case <-s.reaped:
		case <-time.After(again):
		}
	}
}

// destroyAll kills what can be found of everything. The caller holds s.mu.
func (s *server) destroyAll() {
	for _, c := range s.commands {
		if c.cgroup >= 0 {
			_ = cgroup.Kill(c.cgroup)
		}
	}
	// What has shed its mark or left its cgroup becomes a child of this process when its parents are gone.
	children, _ := proc.Children()
	for _, pid := range children {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if s.base != 0 {
		ours := func(mark uint64) bool { return proc.Family(mark, s.base) }
		killMarked(ours)
	}
}

// killMarked kills every process whose mark match accepts.
func killMarked(match func(mark uint64) bool) {
	pids, _ := proc.Marked(match)
	for _, pid := range pids {
		proc.Signal(pid, unix.SIGKILL, func(pid int) bool { return match(proc.MarkOf(pid)) })
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
