package commands

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

const (
	// giveUp is the time limit for the end of a killed process. The kernel keeps a process that hangs in a device or a
	// dead network file system until that operation ends; its command is then reported as exited, with its remaining
	// processes.
	giveUp = 10 * time.Second
	// again is the interval of checks for a command that is ending, besides the check at every end of a process.
	again = 20 * time.Millisecond
)

// command is a command that was started or is being started.
type command struct {
	id, mark uint64
	pid      int // its main process, 0 before the fork
	cgroup   int // folder of its cgroup, or -1; closed by the command

	ended   bool // the main process is reaped
	status  unix.WaitStatus
	lenient bool      // terminated: descendants of the main process may end by themselves until OpKill
	killed  bool      // OpKill was received
	giveUp  time.Time // when to report it as exited even with remaining processes; zero until it is first killed
}

// dying reports whether all processes of the command are to be killed.
func (c *command) dying() bool { return c.killed || c.ended && !c.lenient }

// Options describes the process that the server runs in.
type Options struct {
	// Inner is set in the first process of a pid namespace. Its peer sees other process ids, so it sends a pidfd of each
	// process; the kernel kills its remaining processes.
	Inner bool
	// Prepare, unless nil, is called once on the thread that forks all commands, before the first: commands inherit its
	// effects.
	Prepare func() error
	// Place moves the forking thread into a command's cgroups, given by files, and returns a function that moves it back.
	// It is nil if commands come with the folder of their cgroup.
	Place func(files []int) (back func(), err error)
}

// Server starts and owns commands. Create it with [New].
type Server struct {
	conn *frame.Conn
	opts Options
	work chan func() // functions for the forking thread; nil for any thread

	// spawning is held while a process is forked, when its mark is still the shim's own.
	spawning sync.Mutex
	forked   chan struct{} // wakes the reaper when there is a child again
	reaped   chan struct{} // wakes end when a child was reaped

	mu       sync.Mutex // guards the fields below; held while processes are reaped or signalled by id
	commands map[uint64]*command
	mains    map[int]*command        // commands by their main process, until it is reaped
	forking  int                     // number of processes that may exist and are not in mains yet
	early    map[int]unix.WaitStatus // ends of processes seen during a fork
	base     uint64                  // family of the seen marks
	looking  bool                    // whether the timer of look runs
	closing  bool                    // whether end was called
}

// New returns a server for the requests of conn. A separate forking thread is prepared before New returns.
func New(conn *frame.Conn, opts Options) (*Server, error) {
	s := &Server{
		conn: conn, opts: opts, forked: make(chan struct{}, 1), reaped: make(chan struct{}, 1),
		commands: map[uint64]*command{}, mains: map[int]*command{}, early: map[int]unix.WaitStatus{},
	}
	if opts.Prepare == nil && opts.Place == nil {
		return s, nil
	}
	s.work = make(chan func())
	prepared := make(chan error, 1)
	go s.forker(prepared)
	return s, <-prepared
}

// forker is the thread that forks.
func (s *Server) forker(prepared chan<- error) {
	runtime.LockOSThread() // never unlocked, because the thread differs from all others
	if s.opts.Prepare != nil {
		if err := s.opts.Prepare(); err != nil {
			prepared <- err
			return
		}
	}
	prepared <- nil
	for do := range s.work {
		do()
	}
}

// onForker runs do on the forking thread and returns when it has run.
func (s *Server) onForker(do func()) {
	if s.work == nil {
		do()
		return
	}
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		do()
	}
	<-done
}

// Serve sends the peer the frame ready with files, and works until the connection ends. If the process is not the first
// of a namespace, all its descendants are killed and have ended when Serve returns. It reports whether the peer
// announced its end, and was not killed.
func (s *Server) Serve(ready frame.Frame, files ...int) (ordered bool) {
	go s.reap()
	if err := s.conn.Send(ready, files...); err == nil {
		over := make(chan bool, 1)
		go s.serve(over)
		ordered = <-over
	}
	if !s.opts.Inner {
		s.end()
	}
	return ordered
}

// serve handles the supervisor's requests until it ends, and then sends over whether the end was announced. It starts
// one command at most: another goroutine goes on meanwhile, because a hanging network folder must not delay the killing
// of other commands.
func (s *Server) serve(over chan<- bool) {
	for {
		f, fds, err := s.conn.Receive()
		if err != nil {
			over <- false
			return
		}
		if f.Op == frame.OpEnd {
			closeAll(fds)
			over <- true
			return
		}
		if f.Op == frame.OpStart {
			// The start stays in this goroutine: on one processor another one would run only once this one waits for a frame.
			go s.serve(over)
			s.start(f, fds)
			return
		}
		closeAll(fds)
		if f.Op == frame.OpConnect {
			go s.connect(f)
			continue
		}
		s.mu.Lock()
		if c := s.commands[f.Exec]; c != nil && c.pid != 0 {
			s.control(c, f)
		} else if f.Exec == 0 && f.Op == frame.OpTerminate && s.opts.Inner {
			s.terminateAll()
		}
		s.mu.Unlock()
	}
}

// control applies one request to a command. The caller holds s.mu.
func (s *Server) control(c *command, f frame.Frame) {
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

// terminateAll asks all processes in the namespace to end. The caller holds s.mu.
func (s *Server) terminateAll() {
	for _, c := range s.commands {
		c.lenient = true
	}
	_ = unix.Kill(-1, unix.SIGTERM)
	_ = unix.Kill(-1, unix.SIGCONT)
}

// end kills all descendants of this process, however they hide, and returns when they have ended.
func (s *Server) end() {
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

// destroyAll kills every process that can be found. The caller holds s.mu.
func (s *Server) destroyAll() {
	for _, c := range s.commands {
		if c.cgroup >= 0 {
			_ = cgroup.Kill(c.cgroup)
		}
	}
	// A process that shed its mark or left its cgroup becomes a child of this process when its parents have ended.
	children, _ := proc.Children()
	for _, pid := range children {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if s.base != 0 {
		ours := func(mark uint64) bool { return proc.Family(mark, s.base) }
		killMarked(ours)
	}
}

// killMarked kills every process with a mark that match accepts.
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
