package gateway_test

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// OpenTerminal succeeds for open sessions and for the processes in terminals.
func (m *manager) OpenTerminal(
	_ context.Context, r *sessionmanagerv1.OpenTerminalRequest,
) (*sessionmanagerv1.OpenTerminalResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.seqs[r.GetSessionId()] == nil:
		return nil, fault.New(fault.NotFound, "There is no session %q.", r.GetSessionId())
	case m.ended[r.GetSessionId()]:
		return nil, fault.New(fault.Gone, "The session has ended.")
	case r.GetProcessId() == "":
		return &sessionmanagerv1.OpenTerminalResponse{}, nil
	case m.terminals[r.GetProcessId()] != r.GetSessionId():
		return nil, fault.New(fault.ProcessNotFound, "No process %q runs for the session.", r.GetProcessId())
	}
	return &sessionmanagerv1.OpenTerminalResponse{Terminal: &sessionmanagerv1.Terminal{
		ProcessId: r.GetProcessId(), Pid: 7, Command: "sh", RunId: "01R", AgentPath: "primary",
	}}, nil
}

// RecordTerminalInput stores the record.
func (m *manager) RecordTerminalInput(
	_ context.Context, r *sessionmanagerv1.RecordTerminalInputRequest,
) (*sessionmanagerv1.RecordTerminalInputResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.untyped != nil {
		return nil, m.untyped
	}
	m.typed = append(m.typed, r)
	return &sessionmanagerv1.RecordTerminalInputResponse{}, nil
}

// box is a fake sandbox-supervisor. Tests write the output of its processes.
type box struct {
	sandboxsupervisorv1.UnimplementedSandboxServiceServer

	mu        sync.Mutex // guards the fields below
	processes map[string]*boxed
	cut       context.CancelFunc // ends the current streams
	life      context.Context
}

// boxed is a process of a box.
type boxed struct {
	session  string
	terminal bool
	start    int64  // offset of the first stored byte
	output   []byte // the output from start on
	exited   *sandboxsupervisorv1.ExecExited
	changed  chan struct{} // closed at the next change
	hidden   bool
	full     bool // refuses input
	got      chan string
}

func newBox() *box {
	b := &box{processes: map[string]*boxed{}}
	b.life, b.cut = context.WithCancel(context.Background())
	return b
}

func (b *box) module() host.Module {
	return host.Module{Name: "sandbox-supervisor", New: func(*host.Env) (host.Service, error) { return b, nil }}
}

// Register implements host.Service.
func (b *box) Register(r grpc.ServiceRegistrar) {
	sandboxsupervisorv1.RegisterSandboxServiceServer(r, b)
}

// Run implements host.Service.
func (b *box) Run(ctx context.Context) error {
	<-ctx.Done()
	b.restart(false)
	return nil
}

// begin starts a process of a session.
func (b *box) begin(id, session string) *boxed {
	p := &boxed{session: session, terminal: true, changed: make(chan struct{}), got: make(chan string, 1000)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.processes[id] = p
	return p
}

// change applies f to a process and wakes its streams.
func (b *box) change(p *boxed, f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (b *box) write(p *boxed, s string) { b.change(p, func() { p.output = append(p.output, s...) }) }

func (b *box) exit(p *boxed, code int32) {
	b.change(p, func() { p.exited = &sandboxsupervisorv1.ExecExited{ExitCode: code, DurationMs: 5} })
}

// restart ends all streams. With forget it also removes the processes.
func (b *box) restart(forget bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if forget {
		clear(b.processes)
	}
	b.cut()
	b.life, b.cut = context.WithCancel(context.Background())
}

func (b *box) find(id, session string) (*boxed, error) {
	p := b.processes[id]
	if p == nil || p.session != session {
		return nil, fault.New(fault.ProcessNotFound, "No process %q is known here.", id)
	}
	return p, nil
}

// AttachProcess implements SandboxService.
func (b *box) AttachProcess(
	r *sandboxsupervisorv1.AttachProcessRequest,
	stream grpc.ServerStreamingServer[sandboxsupervisorv1.AttachProcessEvent],
) error {
	b.mu.Lock()
	p, err := b.find(r.GetProcessId(), r.GetSessionId())
	life := b.life
	b.mu.Unlock()
	if err != nil {
		return err
	}
	state := func() *sandboxsupervisorv1.Process {
		return &sandboxsupervisorv1.Process{
			Terminal: p.terminal, OutputStart: p.start, OutputEnd: p.start + int64(len(p.output)), Exited: p.exited,
		}
	}
	b.mu.Lock()
	first := state()
	b.mu.Unlock()
	send := func(e *sandboxsupervisorv1.AttachProcessEvent) error { return stream.Send(e) }
	if err := send(&sandboxsupervisorv1.AttachProcessEvent{
		Event: &sandboxsupervisorv1.AttachProcessEvent_Attached{Attached: first},
	}); err != nil {
		return err
	}
	for from := r.GetOffset(); ; {
		b.mu.Lock()
		end := p.start + int64(len(p.output))
		at := min(max(from, p.start), end)
		data := append([]byte(nil), p.output[at-p.start:]...)
		changed, last := p.changed, state()
		b.mu.Unlock()
		switch {
		case len(data) > 0:
			data = data[:min(len(data), 32<<10)]
			output := &sandboxsupervisorv1.AttachProcessEvent_Output{
				Output: &sandboxsupervisorv1.ProcessOutput{Offset: at, Data: data},
			}
			if err := send(&sandboxsupervisorv1.AttachProcessEvent{Event: output}); err != nil {
				return err
			}
			from = at + int64(len(data))
			continue
		case last.GetExited() != nil:
			return send(&sandboxsupervisorv1.AttachProcessEvent{
				Event: &sandboxsupervisorv1.AttachProcessEvent_Process{Process: last},
			})
		}
		select {
		case <-changed:
		case <-life.Done():
			return fault.New(fault.Unavailable, "The supervisor is stopping.")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// ControlProcess implements SandboxService.
func (b *box) ControlProcess(
	_ context.Context, r *sandboxsupervisorv1.ControlProcessRequest,
) (*sandboxsupervisorv1.ControlProcessResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, err := b.find(r.GetProcessId(), r.GetSessionId())
	if err != nil {
		return nil, err
	}
	switch c := r.GetControl().(type) {
	case *sandboxsupervisorv1.ControlProcessRequest_Stdin:
		if p.full && len(c.Stdin) > 0 {
			return nil, fault.New(fault.RateLimited, "The process has not read the input it was given before.")
		}
		if len(c.Stdin) > 0 {
			p.got <- string(c.Stdin)
		}
	case *sandboxsupervisorv1.ControlProcessRequest_Resize:
		if !p.terminal {
			return nil, fault.New(fault.InvalidParams, "The command has no terminal to resize.")
		}
		t := c.Resize.GetTerminal()
		p.got <- fmt.Sprintf("size %dx%d", t.GetCols(), t.GetRows())
	}
	return &sandboxsupervisorv1.ControlProcessResponse{Hidden: p.hidden}, nil
}
