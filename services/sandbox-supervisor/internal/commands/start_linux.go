package commands

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// refusal is the reason why a command could not be started.
type refusal struct {
	cause frame.Cause
	text  string
}

func (r *refusal) Error() string { return r.text }

func refuse(cause frame.Cause, err error) *refusal { return &refusal{cause, err.Error()} }

// start starts a command and answers. It owns fds.
func (s *Server) start(f frame.Frame, fds []int) {
	c := &command{id: f.Exec, mark: f.Mark, cgroup: -1}
	if f.Cgroup && len(fds) > 0 {
		c.cgroup = fds[len(fds)-1]
		fds = fds[:len(fds)-1]
	}
	place := fds[max(0, len(fds)-f.Place):]
	err := s.startWith(c, f, fds[:len(fds)-len(place)], place)
	closeAll(fds)
	if err == nil {
		return
	}
	if c.cgroup >= 0 {
		unix.Close(c.cgroup)
	}
	var r *refusal
	if !errors.As(err, &r) {
		r = refuse(frame.CauseSystem, err)
	}
	// A lost supervisor ends serve.
	_ = s.conn.Send(frame.Frame{Op: frame.OpFailed, Exec: c.id, Cause: r.cause, Text: r.text})
}

// startWith starts a command with its three files, or with a terminal, in the cgroups of place.
func (s *Server) startWith(c *command, f frame.Frame, fds, place []int) error {
	path, err := resolve(f.Argv, f.Env, f.Dir)
	if err != nil {
		return err
	}
	if f.Terminal == nil {
		if len(fds) != 3 {
			return refuse(frame.CauseSystem, errors.New("a command without a terminal needs three files"))
		}
		return s.fork(c, path, f, [3]int(fds), -1, place)
	}
	master, slave, err := openTerminal(*f.Terminal)
	if err != nil {
		return err
	}
	defer unix.Close(master)
	defer unix.Close(slave)
	return s.fork(c, path, f, [3]int{slave, slave, slave}, master, place)
}

// fork starts the main process of a command and reports that it runs, with the terminal's master unless that is -1.
// From then on c belongs to s.
func (s *Server) fork(c *command, path string, f frame.Frame, fds [3]int, master int, place []int) error {
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: master >= 0}
	if c.cgroup >= 0 {
		sys.UseCgroupFD, sys.CgroupFD = true, c.cgroup
	}
	pidfd := -1
	if s.opts.Inner {
		sys.PidFD = &pidfd
	}
	s.spawning.Lock()
	defer s.spawning.Unlock()
	// Registered before it starts, so that the new process does not count as a stray.
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return refuse(frame.CauseSystem, errors.New("what starts commands is ending"))
	}
	s.commands[c.id] = c
	s.base = c.mark
	s.forking++
	s.mu.Unlock()

	var pid int
	var err error
	s.onForker(func() {
		pid, err = s.exec(c, path, place, f.Argv, &syscall.ProcAttr{
			Dir: f.Dir, Env: f.Env, Files: []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2])}, Sys: sys,
		})
	})
	if pidfd >= 0 {
		defer unix.Close(pidfd)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	defer notify(s.forked)
	s.forking--
	status, ended := s.early[pid]
	clear(s.early)
	if err != nil {
		delete(s.commands, c.id)
		return refuse(causeOf(err), err)
	}
	c.pid = pid
	var send []int
	if pidfd >= 0 {
		send = append(send, pidfd)
	}
	if master >= 0 {
		send = append(send, master)
	}
	// A lost supervisor ends serve.
	_ = s.conn.Send(frame.Frame{Op: frame.OpStarted, Exec: c.id, PID: pid}, send...)
	if !ended {
		s.mains[pid] = c
		return nil
	}
	c.ended, c.status = true, status
	s.settle()
	return nil
}

// exec forks and executes on the forking thread.
func (s *Server) exec(
	c *command,
	path string,
	place []int,
	argv []string,
	attr *syscall.ProcAttr,
) (pid int, err error) {
	if s.opts.Place != nil && len(place) > 0 {
		back, err := s.opts.Place(place)
		if err != nil {
			return 0, err
		}
		defer back()
	}
	// If the limit cannot be set, the command has no mark; its cgroup and its descent identify it.
	if proc.SetMark(c.mark) == nil {
		defer func() { _ = proc.SetMark(proc.Own(c.mark)) }()
	}
	return syscall.ForkExec(path, argv, attr)
}

// causeOf distinguishes failures of the program from failures of the system.
func causeOf(err error) frame.Cause {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return frame.CauseSystem
	}
	switch errno {
	case syscall.ENOENT,
		syscall.EACCES,
		syscall.EPERM,
		syscall.ENOEXEC,
		syscall.ELIBBAD,
		syscall.ETXTBSY,
		syscall.ENOTDIR,
		syscall.ELOOP:
		return frame.CauseProgram
	}
	return frame.CauseSystem
}

// resolve checks the working folder and returns the path of the program, looked up in the PATH of env.
func resolve(argv, env []string, dir string) (string, error) {
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err == nil {
		err = unix.Access(dir, unix.X_OK)
	}
	if err != nil {
		return "", refuse(frame.CauseFolder, err)
	}
	if len(argv) == 0 {
		return "", refuse(frame.CauseProgram, unix.ENOENT)
	}
	name := argv[0]
	if strings.Contains(name, "/") {
		if err := executable(join(dir, name)); err != nil {
			return "", refuse(frame.CauseProgram, err)
		}
		return name, nil
	}
	found := error(unix.ENOENT)
	for _, entry := range strings.Split(pathOf(env), ":") {
		path := join(dir, entry+"/"+name)
		if entry == "" {
			path = join(dir, name) // an empty entry is the working folder
		}
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, unix.EACCES) {
			found = err
		}
	}
	return "", refuse(frame.CauseProgram, found)
}

func join(dir, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return dir + "/" + path
}

// pathOf returns the PATH of an environment, of several the last, as a shell does.
func pathOf(env []string) string {
	path := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	return path
}

// executable returns nil for a regular file this process may execute.
func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EACCES
	}
	return unix.Access(path, unix.X_OK)
}
