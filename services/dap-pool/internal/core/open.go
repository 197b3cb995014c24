package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/inspector"
)

// open starts the adapter and returns the connection to it.
func (s *session) open(ctx context.Context) (io.ReadWriteCloser, error) {
	heard := s.listen()
	spec := Spec{
		Owner: s.start.Owner, Dir: s.start.adapterDir(), Env: s.start.Env, Cage: s.start.Cage, CageID: s.start.CageID,
		Root: s.start.Root, Stderr: s.wrote,
	}
	if s.adapter.Inspector != nil {
		spec.Dir, spec.Stderr = s.start.Dir, heard.write
		if s.start.Request == Attach {
			return s.enter(ctx, spec, address{port: s.start.Port})
		}
	}
	if err := s.startAdapter(ctx, spec); err != nil {
		return nil, err
	}
	if s.adapter.Listens == "" {
		return s.process, nil
	}
	s.pumped = make(chan struct{})
	s.pool.wg.Go(func() { s.pump(heard) })
	select {
	case at := <-heard.at:
		if at.port == 0 {
			return nil, errors.New("the adapter has not said where it listens")
		}
		if s.adapter.Inspector != nil {
			return s.enter(ctx, spec, at)
		}
		s.port = at.port
		return s.pool.launcher.Connect(ctx, spec, at.port)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// startAdapter starts the first command line with an existing program.
func (s *session) startAdapter(ctx context.Context, spec Spec) error {
	var err error
	for _, argv := range s.adapter.Commands {
		spec.Argv = argv
		if s.adapter.Runs != nil {
			spec.Argv = append(slices.Clone(argv), s.adapter.Runs(&s.start)...)
		}
		s.spec = spec
		s.process, err = s.pool.launcher.Launch(ctx, spec)
		if err == nil || fault.CodeOf(err) != fault.ShellSpawnFailed || fault.From(err).Details["missing"] != true {
			return err
		}
		err = s.missing("is not installed, or cannot be seen by the agent")
	}
	return err
}

// enter connects to an inspector.
func (s *session) enter(ctx context.Context, spec Spec, at address) (io.ReadWriteCloser, error) {
	if at.path == "" {
		path, err := s.inspectorPath(ctx, spec, at.port)
		if err != nil {
			return nil, err
		}
		at.path = path
	}
	conn, err := s.pool.launcher.Connect(ctx, spec, at.port)
	if err != nil {
		return nil, err
	}
	opts := inspector.Options{
		Dialect: s.adapter.Inspector, Root: s.start.Root, MessageBytes: s.pool.opts.MessageBytes,
		Launched: s.start.Request == Launch, Entry: s.start.StopOnEntry,
	}
	if s.process != nil {
		opts.Ended, opts.Exit = s.process.Ended(), s.process.Exit
	}
	adapter, err := inspector.Open(ctx, conn, at.path, opts)
	if err != nil && s.process == nil {
		return nil, s.nobody(at.port)
	}
	return adapter, err
}

// inspectorPath requests the inspector's path from a runtime that the pool has not started.
func (s *session) inspectorPath(ctx context.Context, spec Spec, port int) (string, error) {
	conn, err := s.pool.launcher.Connect(ctx, spec, port)
	if fault.CodeOf(err) == fault.InvalidParams { // no program listens at the port
		return "", s.nobody(port)
	}
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	path, err := s.adapter.Inspector.Discover(ctx, conn)
	if err != nil {
		return "", s.nobody(port)
	}
	return path, nil
}

// nobody is the error of a port without a program of the runtime.
func (s *session) nobody(port int) error {
	return fault.New(fault.DapRequestFailed, "No program of %s can be attached to at the port %d; it is started with %s.",
		s.start.Runtime, port, fmt.Sprintf(s.adapter.WaitsAt, port)).With("port", port)
}

// address is the address at which an adapter listens.
type address struct {
	port int
	path string // the path of an inspector
}

// lineBytes is the maximum length of a line that is examined.
const lineBytes = 32 << 10

// listener finds the address in the lines that an adapter writes, and keeps the other lines. One goroutine at a time
// may use it.
type listener struct {
	s     *session
	noise func(string) bool
	rest  []byte
	told  bool
	at    chan address // capacity 1
}

func (s *session) listen() *listener {
	l := &listener{s: s, noise: func(string) bool { return false }, at: make(chan address, 1)}
	if s.adapter.Noise != nil {
		l.noise = s.adapter.Noise()
	}
	return l
}

// write processes output.
func (l *listener) write(data []byte) {
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		l.rest = append(l.rest, line...)
		data = rest
		switch {
		case whole:
			l.line("\n")
		case len(l.rest) > lineBytes:
			l.line("")
		}
	}
}

// line processes a complete line.
func (l *listener) line(end string) {
	text := string(l.rest)
	l.rest = l.rest[:0]
	if !l.told {
		if _, at, ok := strings.Cut(text, l.s.adapter.Listens); ok {
			l.told = true
			l.at <- addressOf(at)
			if l.s.adapter.Noise == nil {
				return
			}
		}
	}
	if !l.noise(strings.TrimRight(text, "\r")) {
		l.s.wrote([]byte(text + end))
	}
}

// end processes the end of the output.
func (l *listener) end() {
	if len(l.rest) > 0 {
		l.line("")
	}
	if !l.told {
		l.told = true
		l.at <- address{}
	}
}

// pump stores the output of an adapter at a port, which is also the program's output.
func (s *session) pump(heard *listener) {
	defer close(s.pumped)
	write, over := heard.write, heard.end
	if s.adapter.Inspector != nil { // the runtime's own messages are on its standard error
		write, over = s.wrote, func() {}
	}
	piece := make([]byte, lineBytes)
	for {
		n, err := s.process.Read(piece)
		write(bytes.Clone(piece[:n]))
		if err != nil {
			break
		}
	}
	if s.adapter.Inspector != nil {
		<-s.process.Ended() // after this point it has no more standard error
		over = heard.end
	}
	over()
}

// addressOf returns the address after the announcing text, with port 0 for an invalid address.
func addressOf(text string) address {
	host, path, slash := strings.Cut(strings.TrimSpace(text), "/")
	if slash {
		path = "/" + path
	}
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return address{}
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 0xffff {
		return address{}
	}
	return address{n, path}
}
