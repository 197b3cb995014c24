// Command cageinit is the first process of a cage: it builds the cage around itself, drops every right to change it,
// and is the parent of the commands in it until the supervisor closes its socket. Then it ends, and the kernel kills
// all processes in the cage.
//
// Package box starts it in new namespaces with its socket as descriptor 3. The plan arrives on the socket (package
// blueprint), in two parts: the part shared by all cages, and the part of this cage. The second may arrive much later,
// because a spare waits for its cage. Commands follow (packages commands and frame). The program is small, static and
// has no cgo: all threads drop rights at once, which the Go runtime can only do without cgo.
//
// Started as kaged-shim, the program is the shim (package shim), the parent of uncaged commands.
//
// Goroutines: those of package commands, and one that receives signals. They end with the process.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup/tasks"
	"kaged.dev/services/sandbox-supervisor/internal/commands"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/netns"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
	"kaged.dev/services/sandbox-supervisor/shim"
)

// socket is the descriptor of the connection to the supervisor.
const socket = 3

func main() {
	do := run
	switch {
	case len(os.Args) == 1 && os.Args[0] == shim.Name:
		shim.Main()
	case len(os.Args) == 2 && os.Args[1] == blueprint.ArgHold:
		_, _ = os.Stdin.Read(make([]byte, 1)) // only its namespace is needed
		return
	case len(os.Args) == 2 && refusedCalls(os.Args[1]):
		return
	case len(os.Args) == 2 && os.Args[1] == blueprint.ArgLaunch:
		do = launch
	}
	// Sets its name in ps and top, because it runs from a file without a name.
	_ = os.WriteFile("/proc/self/comm", []byte(os.Args[0]), 0)
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

func run() error {
	if kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return errors.New("this is the init of kaged's cages; kaged starts it, and nobody else can")
	}
	// Must come first: no process of the same user may inspect or trace this one.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("dumpable: %w", err)
	}
	if err := commands.CloseInherited(socket); err != nil {
		return fmt.Errorf("inherited files: %w", err)
	}
	conn, err := frame.Open(socket)
	if err != nil {
		return err
	}
	catchSignals()
	b := &builder{top: -1, store: -1}
	server, sockets, err := serve(conn, b)
	b.close()
	if err != nil {
		var l *layerError
		if !errors.As(err, &l) {
			return err
		}
		return conn.Send(frame.Frame{Op: frame.OpFailed, Layer: l.layer, Cause: l.cause, Text: l.err.Error()})
	}
	if err := handOver(conn, sockets); err != nil {
		return err
	}
	server.Serve(frame.Frame{Op: frame.OpReady})
	return nil
}

// handOver sends the sockets of the cage's network to the supervisor and closes its own copies.
func handOver(conn *frame.Conn, sockets []int) error {
	for some := range slices.Chunk(sockets, frame.MaxFiles) {
		if err := conn.Send(frame.Frame{Op: frame.OpFiles}, some...); err != nil {
			return err
		}
		for _, fd := range some {
			unix.Close(fd)
		}
	}
	return nil
}

// serve builds the cage by the supervisor's plan. It fails with a *layerError that names the failed part.
func serve(conn *frame.Conn, b *builder) (*commands.Server, []int, error) {
	var failed error // the error of the part shared by all cages
	for {
		f, fds, err := conn.Receive()
		if err != nil {
			return nil, nil, err
		}
		b.files = append(b.files, fds...)
		switch f.Op {
		case frame.OpPrepare:
			if err := json.Unmarshal(f.Plan, &b.base); err != nil {
				return nil, nil, err
			}
			failed = prepare(b) // sent as the answer to OpSetUp: a peer that is still sending would only see a closed socket
		case frame.OpFiles:
		case frame.OpSetUp:
			if failed != nil {
				return nil, nil, failed
			}
			if err := json.Unmarshal(f.Plan, &b.plan); err != nil {
				return nil, nil, err
			}
			return build(conn, b)
		default:
			return nil, nil, fmt.Errorf("the supervisor said %q", f.Op)
		}
	}
}

// catchSignals prevents signals from ending this process. The kernel protects the first process of a namespace only
// from signals without a handler, and Go's runtime has one for each of these. They are caught and not ignored, because
// commands would inherit ignored signals.
func catchSignals() {
	caught := make(chan os.Signal, 1)
	signal.Notify(
		caught,
		unix.SIGHUP,
		unix.SIGINT,
		unix.SIGQUIT,
		unix.SIGILL,
		unix.SIGTRAP,
		unix.SIGABRT,
		unix.SIGBUS,
		unix.SIGFPE,
		unix.SIGSEGV,
		unix.SIGSTKFLT,
		unix.SIGTERM,
		unix.SIGSYS,
	)
	go func() {
		for range caught {
		}
	}()
}

// layerError is the reason why a cage cannot be built.
type layerError struct {
	layer string
	cause frame.Cause // frame.CauseFolder for a path that has changed
	err   error
}

func (e *layerError) Error() string { return e.layer + ": " + e.err.Error() }

// step is a part of the building, with its layer.
type step struct {
	layer string
	do    func() error
}

// take runs the steps up to the first that fails.
func take(steps ...step) error {
	for _, s := range steps {
		if err := s.do(); err != nil {
			var l *layerError
			if errors.As(err, &l) {
				return err
			}
			return &layerError{layer: s.layer, err: err}
		}
	}
	return nil
}

// prepare builds the part shared by all cages.
func prepare(b *builder) error {
	if b.base.Mark != 0 {
		_ = proc.SetMark(b.base.Mark) // if a limit prevents the mark, the supervisor finds the cage by its namespace
	}
	return take(
		step{blueprint.LayerMount, b.open},
		step{blueprint.LayerMount, b.root},
		step{blueprint.LayerMount, b.private},
		step{blueprint.LayerMount, b.system},
		step{blueprint.LayerMount, b.devices},
		step{blueprint.LayerPID, b.proc},
		step{blueprint.LayerUTS, func() error { return unix.Sethostname([]byte("cage")) }},
	)
}

// build builds the rest of the cage and returns the server of its commands and the sockets of its network. This process
// has then no rights left.
func build(conn *frame.Conn, b *builder) (server *commands.Server, sockets []int, err error) {
	err = take(
		step{blueprint.LayerMount, b.openBinds},
		step{blueprint.LayerMount, b.bound},
		step{blueprint.LayerMount, b.hidden},
		step{blueprint.LayerMount, b.grants},
		step{blueprint.LayerMount, b.covered},
		step{blueprint.LayerMount, b.enter},
		step{blueprint.LayerNet, func() (err error) { sockets, err = netns.Setup(b.plan.Net); return err }},
		step{blueprint.LayerUser, b.bind},
	)
	if err != nil {
		return nil, nil, err
	}
	server, err = commands.New(
		conn,
		commands.Options{Inner: true, Prepare: func() error { return prepareForker(b.plan) }, Place: tasks.Enter},
	)
	if err != nil {
		return nil, nil, err
	}
	return server, sockets, lock(b.plan)
}
