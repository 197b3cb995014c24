// Package sandbox starts debug adapters through sandbox-supervisor, with one Exec stream per adapter, and connects to
// their ports by Connect streams. The end of the Exec stream ends the adapter and everything it has started.
//
// Goroutines: per program and per connection one that reads its stream. It ends with the stream, which Close ends.
package sandbox

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/sandboxwire"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/core"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// piece is the maximum size of one message of input.
const piece = 64 << 10

// Launcher is a core.Launcher.
type Launcher struct {
	client sandboxsupervisorv1.SandboxServiceClient
}

var _ core.Launcher = (*Launcher)(nil)

// New returns a launcher that uses client.
func New(client sandboxsupervisorv1.SandboxServiceClient) *Launcher { return &Launcher{client} }

// lasting returns a context that ends with ctx until keep is called, and outlives ctx after that. done cancels it
// unless keep was called.
func lasting(ctx context.Context) (long context.Context, cancel context.CancelFunc, keep, done func()) {
	long, cancel = context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	kept := false
	return long, cancel, func() { kept = true }, func() {
		stop()
		if !kept {
			cancel()
		}
	}
}

// Launch implements core.Launcher.
func (l *Launcher) Launch(ctx context.Context, spec core.Spec) (core.Process, error) {
	long, cancel, keep, done := lasting(ctx)
	defer done()
	st, err := l.client.Exec(long)
	if err != nil {
		return nil, err
	}
	start := &sandboxsupervisorv1.ExecStart{
		Owner: owner(spec), Argv: spec.Argv, Cwd: spec.Dir, Env: spec.Env, Cage: spec.Cage.Proto(), CageId: spec.CageID,
		ProjectRoot: spec.Root,
	}
	err = st.Send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start}})
	if err != nil && !errors.Is(err, io.EOF) { // the first Recv returns the refusal
		return nil, err
	}
	event, err := st.Recv()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fault.From(err)
	case event.GetStarted() == nil:
		return nil, silent()
	}
	keep()
	out, in := io.Pipe()
	p := &process{
		stream: st, cancel: cancel, pid: event.GetStarted().GetPid(), stderr: spec.Stderr, out: out,
		exit: contract.Exit{Code: -1}, ended: make(chan struct{}),
	}
	go p.read(in)
	return p, nil
}

// owner returns the owner of a program: the run, so that the program ends with the run.
func owner(spec core.Spec) *sandboxsupervisorv1.Owner {
	o := spec.Owner
	if o.RunID != "" {
		o.Kind = contract.OwnedByRun
	}
	return sandboxwire.Owner(o)
}

func silent() error {
	return fault.New(fault.Unavailable, "The sandbox supervisor did not answer as it should.").
		With("subsystem", "sandbox-supervisor")
}

// process is a core.Process.
type process struct {
	stream grpc.BidiStreamingClient[sandboxsupervisorv1.ExecRequest, sandboxsupervisorv1.ExecEvent]
	cancel context.CancelFunc
	pid    int64
	stderr func([]byte)
	out    *io.PipeReader
	exit   contract.Exit // to be read after ended is closed
	ended  chan struct{}
}

// read passes the program's output to in until the stream ends.
func (p *process) read(in *io.PipeWriter) {
	defer close(p.ended)
	for {
		event, err := p.stream.Recv()
		if err != nil {
			in.CloseWithError(io.EOF)
			return
		}
		output := event.GetOutput()
		switch {
		case event.GetExited() != nil:
			p.exit = sandboxwire.FromExit(event.GetExited())
			in.CloseWithError(io.EOF)
		case output == nil:
		case output.GetStream() == sandboxsupervisorv1.Stream_STREAM_STDERR:
			p.stderr(output.GetData())
		default:
			_, _ = in.Write(output.GetData()) // it fails when the reader is closed; the program's end is awaited nevertheless
		}
	}
}

// Read implements io.Reader.
func (p *process) Read(b []byte) (int, error) { return p.out.Read(b) }

// Write sends input. One goroutine at a time may call it.
func (p *process) Write(b []byte) (int, error) {
	return pieces(b, func(data []byte) error {
		request := &sandboxsupervisorv1.ExecRequest_Stdin{Stdin: data}
		return p.stream.Send(&sandboxsupervisorv1.ExecRequest{Request: request})
	})
}

// pieces sends bytes in pieces.
func pieces(b []byte, send func([]byte) error) (int, error) {
	for sent := 0; sent < len(b); {
		n := min(len(b)-sent, piece)
		if err := send(b[sent : sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(b), nil
}

// termGrace is the time that a program has to end after SIGTERM, killGrace the time after SIGKILL. Then its stream is
// cut, and the supervisor ends the program.
const (
	termGrace = 300 * time.Millisecond
	killGrace = time.Second
)

// Close ends the program and returns when it has ended with everything it started. No Write may be in progress.
func (p *process) Close() error {
	defer p.cancel()
	_ = p.out.Close()
	for _, try := range []struct {
		signal string
		grace  time.Duration
	}{{"SIGTERM", termGrace}, {"SIGKILL", killGrace}} {
		select {
		case <-p.ended:
			return nil
		default:
		}
		request := &sandboxsupervisorv1.ExecRequest_Signal{Signal: &sandboxsupervisorv1.Signal{Name: try.signal}}
		_ = p.stream.Send(&sandboxsupervisorv1.ExecRequest{Request: request}) // it fails if the stream has ended
		timer := time.NewTimer(try.grace)
		select {
		case <-p.ended:
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
	p.cancel()
	<-p.ended
	return nil
}

func (p *process) PID() int64 { return p.pid }

func (p *process) Ended() <-chan struct{} { return p.ended }

func (p *process) Exit() int { return p.exit.Code }

func (p *process) Killed() contract.Reason { return p.exit.Reason }

// Connect implements core.Launcher.
func (l *Launcher) Connect(ctx context.Context, spec core.Spec, port int) (io.ReadWriteCloser, error) {
	long, cancel, keep, done := lasting(ctx)
	defer done()
	st, err := l.client.Connect(long)
	if err != nil {
		return nil, err
	}
	start := &sandboxsupervisorv1.ConnectStart{Owner: owner(spec), CageId: spec.CageID, Port: uint32(port)}
	err = st.Send(&sandboxsupervisorv1.ConnectRequest{Request: &sandboxsupervisorv1.ConnectRequest_Start{Start: start}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	event, err := st.Recv()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fault.From(err)
	case event.GetConnected() == nil:
		return nil, silent()
	}
	keep()
	out, in := io.Pipe()
	c := &connection{stream: st, cancel: cancel, out: out, ended: make(chan struct{})}
	go c.read(in)
	return c, nil
}

// connection is a connection to a port.
type connection struct {
	stream grpc.BidiStreamingClient[sandboxsupervisorv1.ConnectRequest, sandboxsupervisorv1.ConnectEvent]
	cancel context.CancelFunc
	out    *io.PipeReader
	ended  chan struct{}
}

// read passes the bytes of the other side to in until the stream ends.
func (c *connection) read(in *io.PipeWriter) {
	defer close(c.ended)
	for {
		event, err := c.stream.Recv()
		if err != nil {
			in.CloseWithError(io.EOF)
			return
		}
		_, _ = in.Write(event.GetData())
	}
}

// Read implements io.Reader.
func (c *connection) Read(b []byte) (int, error) { return c.out.Read(b) }

// Write sends bytes. One goroutine at a time may call it.
func (c *connection) Write(b []byte) (int, error) {
	return pieces(b, func(data []byte) error {
		request := &sandboxsupervisorv1.ConnectRequest_Data{Data: data}
		return c.stream.Send(&sandboxsupervisorv1.ConnectRequest{Request: request})
	})
}

// Close ends the connection and returns when the stream has ended.
func (c *connection) Close() error {
	c.cancel()
	_ = c.out.Close()
	<-c.ended
	return nil
}
