// Package sandbox starts language servers through sandbox-supervisor, with one Exec stream per server. The end of the
// stream ends the server and everything it has started. A server with a cage also has a HoldCage stream, because the
// cage of a single command has no permanent home folder.
//
// The messages of a server do not pass through the stream: this process takes the server's pipes (package handover),
// and reads and writes them itself. A relayed message and its answer wake six more goroutines, in two processes across
// sockets. The supervisor relays the messages if it is on another machine, or if this process cannot see its socket.
//
// Goroutines: per [process] one that reads the stream, and one that reads the stream of its cage. They end with the
// streams, which Close ends.
package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/sandboxwire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/handover"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/lsp-pool/internal/core"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

const (
	// stdinPiece is the maximum size of one message of input, logBytes the number of kept bytes at the end of standard
	// error.
	stdinPiece = 64 << 10
	logBytes   = 8 << 10
	// killGrace is the time to wait for the end of a killed program before its stream is cut, goneGrace the time to wait
	// after that.
	killGrace = time.Second
	goneGrace = 5 * time.Second
	// exitGrace is the time for a program that has closed its output to exit by itself, restTime the time to read the
	// output of an ended one.
	exitGrace = 200 * time.Millisecond
	restTime  = 100 * time.Millisecond
)

// Launcher is a core.Launcher.
type Launcher struct {
	client sandboxsupervisorv1.SandboxServiceClient
	log    *slog.Logger
}

var _ core.Launcher = (*Launcher)(nil)

// New returns a launcher that uses client.
func New(client sandboxsupervisorv1.SandboxServiceClient, log *slog.Logger) *Launcher {
	return &Launcher{client, log}
}

type stream = grpc.BidiStreamingClient[sandboxsupervisorv1.ExecRequest, sandboxsupervisorv1.ExecEvent]

// Launch starts a program and returns when it runs. The program outlives ctx, which limits only the start.
func (l *Launcher) Launch(ctx context.Context, spec core.Spec) (core.Process, error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	started := false
	defer func() {
		stop()
		if !started {
			cancel()
		}
	}()
	cage, err := l.hold(lasting, spec)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.From(err)
	}
	st, err := l.client.Exec(lasting)
	if err != nil {
		return nil, err
	}
	start := &sandboxsupervisorv1.ExecStart{
		Owner: sandboxwire.Owner(spec.Owner), Argv: spec.Argv, Cwd: spec.Dir, Env: spec.Env, Cage: spec.Cage.Proto(),
		ProjectRoot: spec.Root, CageId: cage, Share: true,
	}
	err = st.Send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start}})
	if err != nil && !errors.Is(err, io.EOF) { // the first Recv returns the refusal
		return nil, err
	}
	event, err := st.Recv()
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.From(err)
	}
	run := event.GetStarted()
	if run == nil {
		return nil, fault.New(fault.Unavailable,
			"The sandbox supervisor did not say that the language server runs.").With("subsystem", "sandbox-supervisor")
	}
	p := &process{
		client: l.client, stream: st, cancel: cancel, id: run.GetExecId(), pid: run.GetPid(),
		ended: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	if err := l.connect(p, run); err != nil {
		return nil, err
	}
	started = true
	go p.read()
	return p, nil
}

// connect gives a process its input and output: the pipes of the program, or the stream.
func (l *Launcher) connect(p *process, run *sandboxsupervisorv1.ExecStarted) error {
	if run.GetTicket() != "" {
		err := p.take(run)
		if err == nil {
			return nil
		}
		l.log.Info("the messages of language servers are relayed by sandbox-supervisor, because their pipes cannot be taken",
			"socket", run.GetSocket(), "error", err)
		err = p.stream.Send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Unshare{
			Unshare: &sandboxsupervisorv1.Unshare{},
		}})
		if err != nil {
			return err
		}
	}
	p.relayed, p.relay = io.Pipe()
	p.output = p.relayed
	return nil
}

// hold creates the cage of a server and holds it until ctx ends. It returns the cage's id, "" for a server without a
// cage.
func (l *Launcher) hold(ctx context.Context, spec core.Spec) (id string, err error) {
	if spec.Cage == nil {
		return "", nil
	}
	owner := spec.Owner
	owner.Agent += "." + viewOf(spec)
	id = ident.New()
	st, err := l.client.HoldCage(ctx, sandboxwire.CageSpec(contract.CageSpec{
		ID: id, Owner: owner, Policy: spec.Cage, Root: spec.Root,
	}))
	if err != nil {
		return "", err
	}
	opened, err := st.Recv()
	if err != nil {
		return "", err
	}
	if opened.GetOpened() == nil {
		return "", fault.New(fault.CageUnavailable, "The cage of the language server ended before it was there.")
	}
	go func() {
		for { // the stream has network attempts and the end
			if _, err := st.Recv(); err != nil {
				return
			}
		}
	}()
	return opened.GetOpened().GetCageId(), nil
}

// viewOf identifies the view of a cage. Only servers of one view share a home folder, because caches contain file
// contents.
func viewOf(spec core.Spec) string {
	policy, _ := json.Marshal(spec.Cage) // plain values can be encoded as JSON
	sum := sha256.Sum256(policy)
	return hex.EncodeToString(sum[:8])
}

// process is a core.Process.
type process struct {
	client sandboxsupervisorv1.SandboxServiceClient
	stream stream
	cancel context.CancelFunc
	id     string
	pid    int64
	ended  chan struct{} // closed at the end of the stream
	turn   chan struct{} // holds a token while a request is sent

	output io.ReadCloser // the pipe from the program, or relayed
	silent atomic.Bool   // output has ended

	input   *os.File        // the pipe to the program, nil if the stream relays
	raw     syscall.RawConn // of input
	out     *os.File        // output, nil if the stream relays
	relayed *io.PipeReader  // the other end of relay
	relay   *io.PipeWriter  // receives the relayed output, nil with the program's pipes

	mu   sync.Mutex // guards the fields below
	log  []byte
	exit contract.Exit
}

// take takes the pipes of the program.
func (p *process) take(run *sandboxsupervisorv1.ExecStarted) error {
	files, err := handover.Take(run.GetSocket(), run.GetTicket())
	if err != nil {
		return err
	}
	if len(files) != 2 {
		for _, f := range files {
			f.Close()
		}
		return errors.New("the ticket is for other files")
	}
	p.input, p.out, p.output = files[0], files[1], files[1]
	p.raw, err = p.input.SyscallConn()
	return err
}

// read receives the events of the stream until its end, and passes relayed output on.
func (p *process) read() {
	defer close(p.ended)
	defer p.cancel() // ends the cage
	for {
		event, err := p.stream.Recv()
		if err != nil {
			p.mu.Lock()
			if p.exit.Duration == 0 {
				p.exit.Reason = contract.ReasonLost
			}
			p.mu.Unlock()
			p.finish()
			return
		}
		switch e := event.GetEvent().(type) {
		case *sandboxsupervisorv1.ExecEvent_Output:
			switch {
			case e.Output.GetStream() == sandboxsupervisorv1.Stream_STREAM_STDERR:
				p.keep(e.Output.GetData())
			case p.relay != nil:
				_, _ = p.relay.Write(e.Output.GetData()) // it fails when the reader is closed; the end is awaited nevertheless
			}
		case *sandboxsupervisorv1.ExecEvent_Exited:
			p.mu.Lock()
			p.exit = sandboxwire.FromExit(e.Exited)
			p.mu.Unlock()
			p.finish()
		}
	}
}

// finish ends the output. An unrelated process may hold the pipe open.
func (p *process) finish() {
	if p.relay != nil {
		p.relay.CloseWithError(io.EOF)
		return
	}
	_ = p.out.SetReadDeadline(time.Now().Add(restTime)) // it fails if the pipe is closed
}

// keep keeps the end of standard error.
func (p *process) keep(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, data...)
	if over := len(p.log) - logBytes; over > 0 {
		p.log = append(p.log[:0], p.log[over:]...)
	}
}

// Read implements io.Reader.
func (p *process) Read(b []byte) (int, error) {
	n, err := p.output.Read(b)
	if err != nil {
		p.silent.Store(true)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

// TryWrite implements [contentlength.TryWriter].
func (p *process) TryWrite(b []byte) (n int) {
	if p.raw == nil {
		return 0
	}
	_ = p.raw.Write(func(fd uintptr) bool { // it fails if the pipe is closed; so does the Write that follows
		n, _ = syscall.Write(int(fd), b)
		return true
	})
	return max(n, 0)
}

// Write sends input.
func (p *process) Write(b []byte) (int, error) {
	if p.input != nil {
		return p.input.Write(b)
	}
	for sent := 0; sent < len(b); {
		n := min(len(b)-sent, stdinPiece)
		p.turn <- struct{}{}
		err := p.stream.Send(&sandboxsupervisorv1.ExecRequest{
			Request: &sandboxsupervisorv1.ExecRequest_Stdin{Stdin: b[sent : sent+n]},
		})
		<-p.turn
		if err != nil {
			return sent, err
		}
		sent += n
	}
	return len(b), nil
}

// Close kills the program and returns when it has ended with everything it has started. A program that has closed its
// output exits by itself, with an exit code of its own. If messages are relayed, a program that does not read its input
// may block a Write, and so the sending of the signal. Then the end of the stream kills the program, and Close asks the
// supervisor until it has ended.
func (p *process) Close() error {
	defer p.cancel()
	if p.silent.Load() {
		timer := time.NewTimer(exitGrace)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
		}
	}
	_ = p.output.Close()
	if p.input != nil {
		_ = p.input.Close()
	}
	timer := time.NewTimer(killGrace)
	defer timer.Stop()
	select {
	case p.turn <- struct{}{}:
		_ = p.stream.Send(&sandboxsupervisorv1.ExecRequest{
			Request: &sandboxsupervisorv1.ExecRequest_Signal{Signal: &sandboxsupervisorv1.Signal{Name: "SIGKILL"}},
		}) // it fails if the stream has ended
		<-p.turn
	case <-p.ended:
	case <-timer.C:
	}
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
	}
	p.cancel()
	<-p.ended
	p.await()
	return nil
}

// await returns when the supervisor no longer has the program, or does not answer.
func (p *process) await() {
	ctx, cancel := context.WithTimeout(context.Background(), goneGrace)
	defer cancel()
	tick := time.NewTicker(goneGrace / 100)
	defer tick.Stop()
	for {
		res, err := p.client.ListProcesses(ctx, &sandboxsupervisorv1.ListProcessesRequest{})
		if err != nil || !slices.ContainsFunc(res.GetProcesses(), func(r *sandboxsupervisorv1.Process) bool {
			return r.GetExecId() == p.id
		}) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *process) PID() int64 { return p.pid }

func (p *process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.log)
}

func (p *process) Exit() contract.Exit {
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}
