package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/dap"
)

// Start starts a session and returns when its program is stopped at its entry, or runs. It fails with invalid_params,
// with conflict for an agent that has a session, with dap_requires_relaxed_seccomp, dap_adapter_not_found, with
// dap_request_failed if the adapter cannot start the program, and with the errors of the launcher.
func (p *Pool) Start(ctx context.Context, start Start) (Answer, error) {
	adapter, err := p.check(&start)
	if err != nil {
		return Answer{}, err
	}
	start.ID = p.newID()
	s := newSession(p, start, adapter)
	beginning, cancel := context.WithCancel(ctx)
	defer cancel()
	s.stopBegin = cancel
	if err := p.add(s); err != nil {
		return Answer{}, err
	}
	defer s.act()()
	err = s.begin(beginning)
	close(s.begun)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.Canceled) {
			err = fault.New(fault.DapSessionEnded, "The debug session was ended while it began.")
		}
		s.end(endedByCrash, true)
		p.forget(s)
		p.owe(start.key(), s.takeRecords())
		return Answer{}, err
	}
	return p.carry(s, func() (Answer, error) { return s.first(ctx) })
}

// carry adds the records stored for an agent to the answer of act. If act fails, they stay for the next answer.
func (p *Pool) carry(s *session, act func() (Answer, error)) (Answer, error) {
	a, err := act()
	k, records := s.start.key(), s.takeRecords()
	if err != nil {
		p.owe(k, records)
		return Answer{}, err
	}
	a.ID, a.Records, a.Moves = s.start.ID, append(p.settle(k), records...), s.takeMoves()
	return a, nil
}

// check sets the defaults of a session and refuses an invalid one.
func (p *Pool) check(s *Start) (*Adapter, error) {
	list := p.catalogue(s)
	a := find(list, s.Runtime)
	if a == nil {
		return nil, fault.New(fault.InvalidParams, "There is no debugger for the runtime %.40q; there are: %s.", s.Runtime,
			runtimes(list)).With("field", "runtime")
	}
	if s.Mode = cmp.Or(s.Mode, first(a.Modes)); s.Mode != "" && !slices.Contains(a.Modes, s.Mode) {
		return nil, fault.New(fault.InvalidParams, "The runtime %s has no mode %.40q.", s.Runtime, s.Mode).
			With("field", "mode")
	}
	if s.Folder && (s.Mode == "" || s.Mode == ModeExec) {
		return nil, fault.New(fault.InvalidParams, "The script is a folder; name a file.").With("field", "script")
	}
	if s.Timeout <= 0 {
		s.Timeout = p.opts.Timeout
	}
	if p.opts.NoSandbox {
		s.Cage, s.CageID = nil, ""
	}
	if s.caged() && a.traces(s.Request) && s.Cage.Seccomp != "relaxed" {
		return nil, fault.New(fault.DapRequiresRelaxedSeccomp,
			"The debugger of %s traces processes, which the agent's cage forbids; ask the operator for seccomp: relaxed in it.",
			s.Runtime).With("field", "cage.seccomp").With("required", "relaxed").With("runtime", s.Runtime)
	}
	if s.caged() && s.CageID == "" {
		return nil, fault.New(fault.Conflict,
			"A caged agent debugs in the cage of its run, and this call has none; let the agent debug in `kaged run`.").
			With("reason", "no_cage")
	}
	return a, nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// begin starts the adapter and the program.
func (s *session) begin(ctx context.Context) error {
	starting, cancel := context.WithTimeout(ctx, s.pool.opts.StartTimeout)
	defer cancel()
	conn, err := s.open(starting)
	close(s.opened)
	if err != nil {
		return s.notBegun(ctx, err)
	}
	s.client = dap.New(conn, dap.Options{
		MessageBytes: s.pool.opts.MessageBytes, Event: s.event, Request: s.asked,
	})
	s.pool.wg.Go(s.watch)
	if err := s.configure(starting); err != nil {
		return s.notBegun(ctx, err)
	}
	fields := map[string]any{
		"debug_session_id": s.start.ID, "runtime": s.start.Runtime, "script": s.relative(s.start.Program),
		"request": string(s.start.Request),
	}
	if s.start.Request == Attach {
		delete(fields, "script")
	}
	s.record(recordStarted, fields)
	return nil
}

// notBegun turns the reason why a session failed to start into an error of the pool.
func (s *session) notBegun(ctx context.Context, err error) error {
	var refused *dap.Refusal
	known := (*fault.Error)(nil)
	tail := s.output.tail(tailBytes)
	switch {
	case ctx.Err() != nil && !errors.Is(err, dap.ErrAdapter):
		return ctx.Err()
	case s.adapter.Outdated != "" && strings.Contains(err.Error()+tail, s.adapter.Outdated):
		return s.missing("is missing or too old for this program")
	case errors.As(err, &known):
		return err
	case errors.As(err, &refused):
		text := strings.TrimSuffix(strings.TrimSpace(refused.Message), ".")
		f := fault.New(fault.DapRequestFailed, "The debug adapter cannot begin: %s.", text).With("command", refused.Command)
		return withOutput(f, tail)
	case errors.Is(err, context.DeadlineExceeded):
		f := fault.New(fault.Timeout, "The debug adapter has not started the program within %s.", s.pool.opts.StartTimeout)
		return withOutput(f, tail)
	}
	return withOutput(fault.New(fault.DapRequestFailed, "The debug adapter has ended at its start."), tail)
}

func withOutput(f *fault.Error, tail string) error {
	if tail == "" {
		return f
	}
	return f.With("output", tail)
}

// missing is the error of an adapter that is not installed.
func (s *session) missing(how string) error {
	if s.adapter.By != "" {
		return fault.New(fault.DapAdapterNotFound, "The debug adapter of %s %s; %s names %s.", s.start.Runtime, how,
			s.adapter.By, s.adapter.Program).With("command", s.adapter.Program)
	}
	return fault.New(fault.DapAdapterNotFound, "The debug adapter of %s %s; install it with: %s.", s.start.Runtime, how,
		s.adapter.Install).With("command", s.adapter.Program).With("install", s.adapter.Install)
}

// hello returns the arguments of initialize.
func (s *session) hello() map[string]any {
	return map[string]any{
		"clientID": "kaged", "clientName": "kaged", "adapterID": s.start.Runtime, "pathFormat": "path", "linesStartAt1": true,
		"columnsStartAt1": true, "supportsVariableType": true, "supportsVariablePaging": true,
		"supportsMemoryReferences": true, "supportsStartDebuggingRequest": true, "supportsRunInTerminalRequest": true,
	}
}

// configure performs the handshake. It does not wait for the answer to launch before the configuration is complete,
// because many adapters send it only then.
func (s *session) configure(ctx context.Context) error {
	if err := s.client.Call(ctx, "initialize", s.hello(), &s.caps); err != nil {
		return err
	}
	begun, err := s.client.Start(string(s.start.Request), s.adapter.Arguments(&s.start))
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	s.pool.wg.Go(func() { answered <- begun.Wait(ctx, nil) })
	early := false
	select {
	case <-s.initialized:
	case err := <-answered:
		if err != nil {
			return err
		}
		early = true
		select {
		case <-s.initialized:
		case <-s.client.Done():
			return dap.ErrAdapter
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.configured = true
	if s.status == starting {
		s.set(Running)
	}
	s.mu.Unlock()
	if s.caps.SupportsConfigurationDoneRequest {
		if err := s.client.Call(ctx, "configurationDone", struct{}{}, nil); err != nil {
			return err
		}
	}
	if early {
		return nil
	}
	return <-answered
}

// prepare sets the breakpoints of the start.
func (s *session) prepare(ctx context.Context) error {
	if s.start.Request == Launch && s.start.StopOnEntry && s.adapter.Entry != "" {
		s.mu.Lock()
		s.points = append(s.points, &Breakpoint{Kind: kindFunction, Function: s.adapter.Entry, temporary: true})
		s.mu.Unlock()
		if err := s.sendFunctions(ctx); err != nil {
			return err
		}
	}
	for _, f := range s.caps.ExceptionBreakpointFilters {
		if f.Default {
			s.exceptions = append(s.exceptions, f.Filter)
		}
	}
	if len(s.caps.ExceptionBreakpointFilters) == 0 {
		return nil
	}
	return s.sendExceptions(ctx)
}

// first answers the request that started the session: when the program is stopped, or at once if it should run.
func (s *session) first(ctx context.Context) (Answer, error) {
	attached := s.start.Request == Attach && (s.adapter.Listens == "" || s.adapter.Inspector != nil || s.adapter.By != "")
	if s.start.Request == Launch && !s.start.StopOnEntry || attached {
		return s.state(ctx, true)
	}
	a, err := s.await(ctx, Do{Timeout: s.start.Timeout})
	if err != nil || a.Status != Stopped {
		return a, err
	}
	if s.dropTemporary() {
		a.Reason = "entry"
		s.mu.Lock()
		if s.status == Stopped {
			s.stop.Reason = a.Reason
		}
		s.mu.Unlock()
		if err := s.sendFunctions(ctx); err != nil {
			return a, err
		}
	}
	return a, nil
}

// dropTemporary removes the breakpoint of the entry and reports whether there was one.
func (s *session) dropTemporary() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.points)
	s.points = slices.DeleteFunc(s.points, func(b *Breakpoint) bool { return b.temporary })
	return len(s.points) < n
}
