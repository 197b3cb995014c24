package shim

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/commands"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// Main is the shim. It works until the supervisor's end of the socket is closed, kills its commands, and ends the
// process; it does not return.
func Main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", Name, err)
		syscall.Exit(1)
	}
	syscall.Exit(0) // not os.Exit: its hooks have no work here while the supervisor waits
}

func run() error {
	if kind, err := unix.GetsockoptInt(Socket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return fmt.Errorf("descriptor %d is not the supervisor's socket", Socket)
	}
	supervisor := -1
	if err := unix.PidfdSendSignal(Supervisor, 0, nil, 0); err != unix.EBADF { // not the supervisor
		supervisor = Supervisor
		unix.CloseOnExec(supervisor)
	}
	conn, err := frame.Open(Socket)
	if err != nil {
		return err
	}
	if err := isolate(); err != nil {
		return err
	}
	s, err := commands.New(conn, commands.Options{})
	if err != nil {
		return err
	}
	ordered := s.Serve(frame.Frame{Op: frame.OpReady, PID: os.Getpid()})
	if !ordered && supervisor >= 0 && proc.Ended(supervisor, dying) { // it has the cgroups locked until then
		_ = cgroup.Abandon(Leaf) // leftovers are found by the next supervisor
	}
	return nil
}

// dying is how long a killed supervisor may take to be gone once its end of the socket is closed.
const dying = 10 * time.Second

// isolate makes the process a shim: the subreaper of its descendants, closed to them, without files of the process that
// started it.
func isolate() error {
	// A name to be found by; without one it would be called "exe".
	_ = os.WriteFile("/proc/self/comm", []byte(Name), 0)
	if err := commands.CloseInherited(Supervisor); err != nil {
		return fmt.Errorf("inherited files: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	// Signals are caught, not ignored: a caught one is reset for a command, an ignored one is inherited. That includes
	// signals that were ignored at the start of this process, such as the SIGHUP of nohup.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGALRM, unix.SIGUSR1,
		unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	go func() {
		for range caught {
		}
	}()
	restoreLibcSignals()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	// Last: from here on /proc/self belongs to root, and no process of the same user can look inside or trace.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("dumpable: %w", err)
	}
	return nil
}
