package core

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	godap "github.com/google/go-dap"

	"kaged.dev/services/dap-pool/internal/dap"
)

// maxChildren is the maximum number of further connections, and of terminals, of a session.
const maxChildren = 16

// child is a further connection to the adapter, for a program that the first program has started.
type child struct {
	client      *dap.Client
	process     Process // nil for an adapter that listens at a port
	initialized chan struct{}
}

// to returns the connection for requests: that of the child that stopped or was added last, or the first connection.
func (s *session) to() *dap.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active()
}

// active returns the connection for requests. s.mu is held.
func (s *session) active() *dap.Client {
	if n := len(s.started); n > 0 {
		return s.started[n-1].client
	}
	return s.client
}

// asked answers a request of the adapter.
func (s *session) asked(command string, raw json.RawMessage, answer func(any, error)) {
	switch command {
	case "startDebugging":
		var body struct {
			Request       string         `json:"request"`
			Configuration map[string]any `json:"configuration"`
		}
		err := json.Unmarshal(raw, &body)
		if err == nil && body.Request != string(Launch) && body.Request != string(Attach) {
			err = errors.New("a debug session begins by launch or attach")
		}
		answer(nil, err)
		if err == nil {
			s.pool.wg.Go(func() { s.startChild(body.Request, body.Configuration) })
		}
	case "runInTerminal":
		s.pool.wg.Go(func() { answer(s.terminal(raw)) })
	default:
		answer(nil, errors.New("kaged does not support this request"))
	}
}

// startChild opens a further connection, for a program that the adapter has started, and initializes it like the first
// one.
func (s *session) startChild(request string, configuration map[string]any) {
	ctx, cancel := context.WithTimeout(context.Background(), s.pool.opts.StartTimeout)
	defer cancel()
	c := &child{initialized: make(chan struct{})}
	conn, err := s.openChild(ctx, c)
	if err == nil {
		ready := make(chan struct{})
		c.client = dap.New(conn, dap.Options{
			MessageBytes: s.pool.opts.MessageBytes, Request: s.asked, Event: func(name string, raw json.RawMessage) {
				<-ready
				s.childEvent(c, name, raw)
			},
		})
		if !s.adopt(c) {
			close(ready)
			c.close()
			return
		}
		close(ready)
		s.pool.wg.Go(func() {
			<-c.client.Done()
			s.childLeft(c)
		})
		err = s.configureChild(ctx, c, request, configuration)
	}
	if err != nil {
		s.wrote([]byte("The debug adapter cannot begin with a program that it started: " + name(err.Error()) + ".\n"))
		if c.client != nil {
			s.childLeft(c)
		}
	}
}

// openChild opens the connection of a child.
func (s *session) openChild(ctx context.Context, c *child) (io.ReadWriteCloser, error) {
	<-s.opened
	if s.port != 0 {
		return s.pool.launcher.Connect(ctx, s.spec, s.port)
	}
	var err error
	c.process, err = s.pool.launcher.Launch(ctx, s.spec)
	return c.process, err
}

// adopt adds a child to the session. It reports false if the session has ended.
func (s *session) adopt(c *child) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving || len(s.started) >= maxChildren {
		return false
	}
	s.started = append(s.started, c)
	return true
}

func (s *session) configureChild(ctx context.Context, c *child, request string, configuration map[string]any) error {
	if err := c.client.Call(ctx, "initialize", s.hello(), nil); err != nil {
		return err
	}
	begun, err := c.client.Start(request, configuration)
	if err != nil {
		return err
	}
	select {
	case <-c.initialized:
	case <-c.client.Done():
		return dap.ErrAdapter
	case <-ctx.Done():
		return ctx.Err()
	}
	s.rebind(ctx)
	if len(s.caps.ExceptionBreakpointFilters) > 0 {
		if err := s.sendExceptions(ctx); err != nil {
			return err
		}
	}
	if s.caps.SupportsConfigurationDoneRequest {
		if err := c.client.Call(ctx, "configurationDone", struct{}{}, nil); err != nil {
			return err
		}
	}
	return begun.Wait(ctx, nil)
}

// childEvent handles an event from a child's connection.
func (s *session) childEvent(c *child, name string, raw json.RawMessage) {
	switch name {
	case "initialized":
		select {
		case <-c.initialized:
			s.ready()
		default:
			close(c.initialized)
		}
	case "stopped":
		s.mu.Lock()
		if i := slices.Index(s.started, c); i >= 0 {
			s.started = append(slices.Delete(s.started, i, i+1), c)
		}
		s.mu.Unlock()
		s.event(name, raw)
	case "exited":
		var body godap.ExitedEventBody
		if json.Unmarshal(raw, &body) == nil {
			s.mu.Lock()
			if !s.leaving {
				s.exitCode = &body.ExitCode
			}
			s.mu.Unlock()
		}
	case "terminated":
		s.pool.wg.Go(func() { s.childLeft(c) })
	default:
		s.event(name, raw)
	}
}

// childLeft removes a child. If it was the last child and its exit code is known, the program has ended.
func (s *session) childLeft(c *child) {
	s.mu.Lock()
	i := slices.Index(s.started, c)
	if i >= 0 {
		s.started = slices.Delete(s.started, i, i+1)
	}
	code, last := s.exitCode, i >= 0 && len(s.started) == 0
	s.mu.Unlock()
	if i < 0 {
		return
	}
	c.close()
	if last && code != nil {
		s.exited(code)
	}
}

func (c *child) close() {
	c.client.Close()
	if c.process != nil {
		_ = c.process.Close()
	}
}

// terminal starts a program for which the adapter requests a terminal: next to the adapter, with the same rights, and
// ending with it.
func (s *session) terminal(raw json.RawMessage) (any, error) {
	var body struct {
		Cwd  string             `json:"cwd"`
		Args []string           `json:"args"`
		Env  map[string]*string `json:"env"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || len(body.Args) == 0 {
		return nil, errors.New("the request names no program")
	}
	<-s.opened
	spec := s.spec
	spec.Argv, spec.Env = body.Args, maps.Clone(spec.Env)
	if body.Cwd != "" {
		spec.Dir = body.Cwd
	}
	for key, value := range body.Env {
		if value == nil {
			delete(spec.Env, key)
		} else {
			spec.Env[key] = *value
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.pool.opts.StartTimeout)
	defer cancel()
	p, err := s.pool.launcher.Launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	full := s.leaving || len(s.terminals) >= maxChildren
	if !full {
		s.terminals = append(s.terminals, p)
	}
	s.mu.Unlock()
	if full {
		_ = p.Close()
		return nil, errors.New("the debug session is ending, or has too many terminals")
	}
	s.pool.wg.Go(func() { _, _ = io.Copy(writes(s.wrote), p) })
	if s.start.caged() {
		return map[string]any{}, nil // the process has another id inside the cage
	}
	return map[string]any{"processId": p.PID()}, nil
}

// writes makes a function an io.Writer.
type writes func([]byte)

func (w writes) Write(data []byte) (int, error) {
	w(data)
	return len(data), nil
}

// leaveChildren ends the children and the terminals of a session that is ending.
func (s *session) leaveChildren() {
	s.mu.Lock()
	children, terminals := s.started, s.terminals
	s.started, s.terminals = nil, nil
	s.mu.Unlock()
	for _, c := range children {
		c.close()
	}
	for _, p := range terminals {
		_ = p.Close()
	}
}
