package commands

import (
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// reap waits for processes to end, for ever.
func (s *Server) reap() {
	for {
		// Looked at and left: only collect takes an id out of use, under the lock that signals are sent under.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		switch err {
		case nil:
			s.look()
			notify(s.reaped)
		case unix.ECHILD:
			notify(s.reaped)
			<-s.forked
		}
	}
}

// look takes note of what has ended and of what follows from it.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect()
	s.settle()
}

// collect reaps what has ended. The caller holds s.mu.
func (s *Server) collect() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := s.mains[pid]; c != nil {
			delete(s.mains, pid)
			c.ended, c.status = true, status
		} else if s.forking > 0 {
			s.early[pid] = status
		}
	}
}

// settle reports the commands that are gone with all they started, and kills what the others have left behind. The caller
// holds s.mu.
func (s *Server) settle() {
	if s.closing {
		return
	}
	ending := false
	for _, c := range s.commands {
		ending = ending || c.ended || c.killed
	}
	if !ending && len(s.commands) > 0 {
		return
	}
	left := s.survivors()
	waiting := false
	for _, c := range s.commands {
		switch {
		case c.ended && s.empty(c, left):
			s.finish(c, 0)
			continue
		case !c.giveUp.IsZero() && time.Now().After(c.giveUp):
			s.finish(c, max(1, len(left.of[c])))
			continue
		case c.dying():
			s.destroy(c, left.of[c])
		}
		waiting = waiting || c.ended || c.killed
	}
	for _, pid := range left.of[nil] {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if waiting {
		s.lookAgain()
	}
}

// lookAgain makes the server look once more in a while. Most of what it waits for is the end of a child, which reap sees; what
// forked behind a search, and what the system does a moment later, is seen so. The caller holds s.mu.
func (s *Server) lookAgain() {
	if s.looking {
		return
	}
	s.looking = true
	time.AfterFunc(again, func() {
		s.mu.Lock()
		s.looking = false
		s.mu.Unlock()
		s.look()
	})
}

// survivors are the children of this process that are no main process: every process that outlives its parents is one.
type survivors struct {
	// childless says that this process has no children at all, so nothing it started is left.
	childless bool
	// of holds them by the command they belong to. Under nil is what is to be killed without asking: what belongs to a
	// command that is gone, and what belongs to nobody once no command runs that could have started it.
	of map[*command][]int
}

// survivors looks for what has survived. The caller holds s.mu.
func (s *Server) survivors() survivors {
	if childless() {
		return survivors{childless: true}
	}
	left := survivors{of: map[*command][]int{}}
	children, _ := proc.Children()
	for _, pid := range children {
		if s.mains[pid] != nil {
			continue
		}
		if c, known := s.owner(pid); known || !s.running() {
			left.of[c] = append(left.of[c], pid)
		}
	}
	return left
}

// owner returns the command a child belongs to, and whether that is known: nil and true is a command that is gone.
func (s *Server) owner(pid int) (c *command, known bool) {
	mark := proc.MarkOf(pid)
	stat, _ := proc.Read(pid)
	for _, c := range s.commands {
		if c.mark == mark || c.pid != 0 && c.pid == stat.Session {
			return c, true
		}
	}
	return nil, s.base != 0 && proc.Family(mark, s.base)
}

// running returns whether a command's main process runs or is about to.
func (s *Server) running() bool { return len(s.mains) > 0 || s.forking > 0 }

// empty returns whether nothing is left of a command whose main process has ended.
func (s *Server) empty(c *command, left survivors) bool {
	if left.childless {
		return true
	}
	if len(left.of[c]) > 0 || len(left.of[nil]) > 0 && !s.running() {
		return false
	}
	if c.cgroup < 0 {
		return true
	}
	if populated, err := cgroup.Populated(c.cgroup); err != nil || !populated {
		return true
	}
	// Some kernels count a process as there until a moment after it was reaped, and list it no more.
	pids, err := cgroup.Processes(c.cgroup)
	return err == nil && len(pids) == 0
}

// finish reports a command as exited and forgets it. The caller holds s.mu.
func (s *Server) finish(c *command, left int) {
	f := frame.Frame{Op: frame.OpExited, Exec: c.id, Left: left}
	switch {
	case !c.ended:
		f.Signal = int(unix.SIGKILL) // it does not end; this is what was sent last
		delete(s.mains, c.pid)
	case c.status.Signaled():
		f.Signal = int(c.status.Signal())
	default:
		f.Code = c.status.ExitStatus()
	}
	delete(s.commands, c.id)
	if c.cgroup >= 0 {
		unix.Close(c.cgroup)
	}
	_ = s.conn.Send(f) // a supervisor that is gone ends serve
}

// destroy kills everything of a command that can be found; orphans are those of its processes that are children of this
// one. It is repeated until nothing is left. The caller holds s.mu.
func (s *Server) destroy(c *command, orphans []int) {
	if c.giveUp.IsZero() {
		c.giveUp = time.Now().Add(giveUp)
	}
	if !c.ended {
		_ = unix.Kill(-c.pid, unix.SIGKILL)
		_ = unix.Kill(c.pid, unix.SIGKILL)
	}
	for _, pid := range orphans {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if c.cgroup >= 0 {
		if populated, err := cgroup.Populated(c.cgroup); err == nil && populated && cgroup.Kill(c.cgroup) == nil {
			return // at once and complete; what has left the cgroup is an orphan sooner or later
		}
	}
	killMarked(func(mark uint64) bool { return mark == c.mark })
}

// terminate asks everything of a command to end. The caller holds s.mu.
func (s *Server) terminate(c *command) {
	var pids []int
	if c.cgroup >= 0 {
		pids, _ = cgroup.Processes(c.cgroup)
	} else {
		pids, _ = proc.Marked(func(mark uint64) bool { return mark == c.mark })
	}
	// A stopped process takes notice only when it goes on.
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if !c.ended {
			_ = unix.Kill(-c.pid, sig)
		}
		for _, pid := range pids {
			proc.Signal(pid, sig, func(pid int) bool {
				stat, err := proc.Read(pid)
				inGroup := !c.ended && stat.Group == c.pid // has it already
				return err == nil && !inGroup && proc.MarkOf(pid) == c.mark
			})
		}
	}
}

// childless returns whether this process has no children: then nothing it started is left.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil) == unix.ECHILD
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
