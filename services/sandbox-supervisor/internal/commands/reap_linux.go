package commands

import (
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// reap waits for ended processes, in an endless loop.
func (s *Server) reap() {
	for {
		// Examined without reaping: only collect frees an id, under the lock for sending signals.
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

// look reaps ended processes and acts on their ends.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect()
	s.settle()
}

// collect reaps ended processes. The caller holds s.mu.
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

// settle reports the commands that have ended with their descendants, and kills the descendants of the other ended
// commands. The caller holds s.mu.
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

// lookAgain schedules another check. reap sees the ends of children; the check finds processes forked during a search,
// and delayed effects of the system. The caller holds s.mu.
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

// survivors are the children of this process that are not main processes, that is, processes that outlived their
// parents.
type survivors struct {
	// childless means that this process has no children, so no descendants remain.
	childless bool
	// of holds them by their command. Under nil are those to kill unconditionally: those of an ended command, and those
	// without a command if no running command could have started them.
	of map[*command][]int
}

// survivors searches for surviving descendants. The caller holds s.mu.
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

// owner returns the command of a child, and whether it is known: nil and true mean an ended command.
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

// running reports whether a command's main process runs or is about to start.
func (s *Server) running() bool { return len(s.mains) > 0 || s.forking > 0 }

// empty reports whether a command with an ended main process has no descendants left.
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
	// Some kernels still count a process shortly after it was reaped, but no longer list it.
	pids, err := cgroup.Processes(c.cgroup)
	return err == nil && len(pids) == 0
}

// finish reports a command as exited and forgets it. The caller holds s.mu.
func (s *Server) finish(c *command, left int) {
	f := frame.Frame{Op: frame.OpExited, Exec: c.id, Left: left}
	switch {
	case !c.ended:
		f.Signal = int(unix.SIGKILL) // it does not end; SIGKILL was the last signal
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
	_ = s.conn.Send(f) // a lost supervisor ends serve
}

// destroy kills every findable process of a command; orphans are those that are children of this process. It is
// repeated until the command is empty. The caller holds s.mu.
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
			return // at once and complete; processes that left the cgroup become orphans later
		}
	}
	killMarked(func(mark uint64) bool { return mark == c.mark })
}

// terminate asks all processes of a command to end. The caller holds s.mu.
func (s *Server) terminate(c *command) {
	var pids []int
	if c.cgroup >= 0 {
		pids, _ = cgroup.Processes(c.cgroup)
	} else {
		pids, _ = proc.Marked(func(mark uint64) bool { return mark == c.mark })
	}
	// A stopped process reacts only after it is continued.
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if !c.ended {
			_ = unix.Kill(-c.pid, sig)
		}
		for _, pid := range pids {
			proc.Signal(pid, sig, func(pid int) bool {
				stat, err := proc.Read(pid)
				inGroup := !c.ended && stat.Group == c.pid // its group has got the signal already
				return err == nil && !inGroup && proc.MarkOf(pid) == c.mark
			})
		}
	}
}

// childless reports whether this process has no children: then no descendants remain.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil) == unix.ECHILD
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
