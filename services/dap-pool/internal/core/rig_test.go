package core_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/core"
	"kaged.dev/services/dap-pool/internal/fakedap"
)

// launcher starts fake adapters in this process.
type launcher struct {
	mode    string
	missing bool
	killed  contract.Reason // the reason of the adapters' ends

	mu       sync.Mutex // guards the fields below
	adapters []*fakedap.Adapter
	live     int
}

// process is a fake adapter.
type process struct {
	net.Conn
	ended  chan struct{}
	killed contract.Reason
}

func (p *process) PID() int64              { return 1 }
func (p *process) Ended() <-chan struct{}  { return p.ended }
func (p *process) Exit() int               { return -1 }
func (p *process) Killed() contract.Reason { return p.killed }

func (p *process) Close() error {
	err := p.Conn.Close()
	<-p.ended
	return err
}

func (l *launcher) Launch(_ context.Context, spec core.Spec) (core.Process, error) {
	if l.missing {
		return nil, fault.New(fault.ShellSpawnFailed, "no %s", spec.Argv[0]).With("missing", true)
	}
	near, far := net.Pipe()
	p := &process{Conn: near, ended: make(chan struct{}), killed: l.killed}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := fakedap.New(far, l.mode)
	l.adapters = append(l.adapters, a)
	l.live++
	go func() {
		a.Serve()
		l.mu.Lock()
		l.live--
		l.mu.Unlock()
		close(p.ended)
	}()
	return p, nil
}

func (l *launcher) Connect(context.Context, core.Spec, int) (io.ReadWriteCloser, error) {
	return nil, errors.New("the fake adapter listens at no port")
}

func (l *launcher) running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live
}

// last returns the adapter that was started last.
func (l *launcher) last() *fakedap.Adapter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.adapters[len(l.adapters)-1]
}

// first returns the adapter that was started first.
func (l *launcher) first() *fakedap.Adapter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.adapters[0]
}

// bench is a pool of fake adapters, and an agent.
type bench struct {
	*core.Pool
	*launcher
	t     *testing.T
	owner contract.Owner
}

func pool(t *testing.T, mode string) *bench {
	t.Helper()
	l := &launcher{mode: mode}
	ids := 0
	p := core.New(core.Options{
		Adapters: []*core.Adapter{{
			Runtimes: []string{"fake"}, Commands: [][]string{{"fakedap"}}, Install: "make fakedap",
			Traces:    []core.Request{core.Launch},
			Arguments: func(*core.Start) map[string]any { return map[string]any{"x": 1} },
		}},
		PerAgent: 1, Sessions: 3, StartTimeout: 10 * time.Second, RequestTimeout: time.Minute, Timeout: 20 * time.Second,
		StopGrace: 500 * time.Millisecond, MessageBytes: 32 << 20, OutputBytes: 64 << 10,
		ShownBytes: 8 << 10, ValueBytes: 1 << 10,
		Items: 100, Breakpoints: 5,
	}, l, func() string { ids++; return "dap_" + string(rune('a'+ids-1)) }, slog.New(slog.DiscardHandler))
	return &bench{p, l, t, contract.Owner{SessionID: "s", RunID: "r", Agent: "primary"}}
}

func (b *bench) begin(more ...func(*core.Start)) (core.Answer, error) {
	s := core.Start{
		Owner: b.owner, Root: "/project", Dir: "/project", Program: "/project/a.fake", Runtime: "fake", Request: core.Launch,
		StopOnEntry: true,
	}
	for _, f := range more {
		f(&s)
	}
	return b.Start(b.t.Context(), s)
}

// must starts a session that is stopped at its entry.
func (b *bench) must() {
	b.t.Helper()
	a, err := b.begin()
	if err != nil || a.Status != core.Stopped || a.Reason != "entry" {
		b.t.Fatalf("%+v, %v", a, err)
	}
}

func (b *bench) act(action core.Action, more ...func(*core.Do)) (core.Answer, error) {
	d := core.Do{Owner: b.owner, Action: action, Scope: "local", Context: "watch", Count: 100}
	for _, f := range more {
		f(&d)
	}
	return b.Do(b.t.Context(), d)
}

// fails executes an action that must fail with a code.
func (b *bench) fails(code fault.Code, action core.Action, more ...func(*core.Do)) *fault.Error {
	b.t.Helper()
	_, err := b.act(action, more...)
	if !errors.Is(err, code) {
		b.t.Errorf("action %d: %v, want %s", action, err, code)
	}
	return fault.From(err)
}

func (b *bench) ok(action core.Action, more ...func(*core.Do)) core.Answer {
	b.t.Helper()
	a, err := b.act(action, more...)
	if err != nil {
		b.t.Fatalf("action %d: %v", action, err)
	}
	return a
}

// over ends the run and checks that no adapter is running.
func (b *bench) over() []contract.Record {
	b.t.Helper()
	records := b.EndRun(b.owner.SessionID, b.owner.RunID)
	if n := b.running(); n != 0 {
		b.t.Errorf("%d adapters are left", n)
	}
	return records
}

func line(n int) func(*core.Do) {
	return func(d *core.Do) { d.Path, d.Line = "/project/a.fake", n }
}
