// Command cageinit is the first process of a cage: it builds the cage around itself, gives up every right to change it, and
// owns the commands in it until the supervisor's end of its socket is closed. Then it ends, and the kernel kills everything
// in the cage.
//
// It is started by package box in namespaces of its own and finds its socket as descriptor 3. What it is to build comes over
// that (package blueprint), and afterwards the commands (packages commands and frame). It is small, static and has no cgo:
// rights are given up by every thread at once, which the Go runtime can only do without cgo.
//
// Goroutines: those of package commands, and one that drains signals. They end with the process.
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
)

// socket is the descriptor of the connection to the supervisor.
const socket = 3

func main() {
	if len(os.Args) == 2 && os.Args[1] == "hold" {
		_, _ = os.Stdin.Read(make([]byte, 1)) // its namespace is all that is wanted of it
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

func run() error {
	if kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return errors.New("this is the init of kaged's cages; kaged starts it, and nobody else can")
	}
	// First of all: nobody of the same user looks inside or traces.
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
	plan, files, err := receive(conn)
	if err != nil {
		return err
	}
	server, sockets, err := build(conn, plan, files)
	if err != nil {
		var l *layerError
		if !errors.As(err, &l) {
			l = &layerError{layer: blueprint.LayerMount, err: err}
		}
		return conn.Send(frame.Frame{Op: frame.OpFailed, Layer: l.layer, Cause: l.cause, Text: l.err.Error()})
	}
	if err := handOver(conn, sockets); err != nil {
		return err
	}
	server.Serve(frame.Frame{Op: frame.OpReady})
	return nil
}

// handOver sends the sockets of the cage's network out and keeps none of them.
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

// receive returns what is to be built and the files that belong to it.
func receive(conn *frame.Conn) (plan blueprint.Plan, files []int, err error) {
	for {
		f, fds, err := conn.Receive()
		if err != nil {
			return plan, nil, err
		}
		files = append(files, fds...)
		switch f.Op {
		case frame.OpFiles:
		case frame.OpSetUp:
			return plan, files, json.Unmarshal(f.Plan, &plan)
		default:
			return plan, nil, fmt.Errorf("the supervisor's first word was %q", f.Op)
		}
	}
}

// catchSignals makes this process deaf to what would end it. The kernel keeps signals from the first process of a namespace
// only as far as they have no handler, and Go's runtime has one for each of these. Caught and not ignored: what is ignored is
// inherited.
func catchSignals() {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE,
		unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGTERM, unix.SIGSYS)
	go func() {
		for range caught {
		}
	}()
}

// layerError is why a cage cannot be built.
type layerError struct {
	layer string
	cause frame.Cause // frame.CauseFolder for a path that is not what it was
	err   error
}

func (e *layerError) Error() string { return e.layer + ": " + e.err.Error() }

// build builds the cage and returns the server of its commands and the sockets of its network, with no right left to this
// process.
func build(conn *frame.Conn, plan blueprint.Plan, files []int) (server *commands.Server, sockets []int, err error) {
	if plan.Mark != 0 {
		_ = proc.SetMark(plan.Mark) // where a limit is in the way, the supervisor knows the cage by its namespace
	}
	b := &builder{plan: plan, files: files, top: -1, store: -1}
	defer b.close()
	for _, step := range []struct {
		layer string
		do    func() error
	}{
		{blueprint.LayerMount, b.open},
		{blueprint.LayerMount, b.root},
		{blueprint.LayerMount, b.private},
		{blueprint.LayerMount, b.system},
		{blueprint.LayerMount, b.devices},
		{blueprint.LayerPID, b.proc},
		{blueprint.LayerMount, b.grants},
		{blueprint.LayerMount, b.enter},
		{blueprint.LayerUTS, func() error { return unix.Sethostname([]byte("cage")) }},
		{blueprint.LayerNet, func() (err error) { sockets, err = netns.Setup(plan.Net); return err }},
		{blueprint.LayerUser, b.noNamespaces},
	} {
		if err := step.do(); err != nil {
			var l *layerError
			if errors.As(err, &l) {
				return nil, nil, err
			}
			return nil, nil, &layerError{layer: step.layer, err: err}
		}
	}
	server, err = commands.New(conn, commands.Options{Inner: true, Prepare: func() error { return prepareForker(plan) }, Place: tasks.Enter})
	if err != nil {
		return nil, nil, err
	}
	return server, sockets, lock(plan)
}
