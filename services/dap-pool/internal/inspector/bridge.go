package inspector

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	godap "github.com/google/go-dap"
)

// Options are the settings of a connection.
type Options struct {
	Dialect *Dialect
	// Root is the project's folder. Only source maps below it are read.
	Root string
	// MessageBytes is the maximum size of a message of the runtime.
	MessageBytes int
	// Launched is true if the runtime waits for its debugger at its first line, Entry if the program should stop there.
	Launched, Entry bool
	// Ended is closed when a launched program has ended; Exit then returns its exit code. It is nil for an attached
	// program.
	Ended <-chan struct{}
	Exit  func() int
}

// evaluateTime is the time limit for the evaluation of an expression.
const evaluateTime = 20 * time.Second

// bridge is a debug adapter for one runtime.
type bridge struct {
	opts    Options
	dialect *Dialect
	socket  *socket
	conn    net.Conn // the connection to the debugger
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	sending sync.Mutex // held during the write of a message; guards seq
	seq     int

	changing sync.Mutex      // held during changes of breakpoints; guards looked
	looked   map[string]bool // the files for which scripts were searched

	mu        sync.Mutex // guards the fields below
	scripts   map[string]*script
	foreseen  []*script // scripts made from files with breakpoints, which may not be loaded
	paused    *paused
	handles   []handle
	points    map[string][]*point // by path
	lastPoint int
	resumed   string // the request that continued the program
	pausing   bool
	entered   bool // the program has been at its first line
	skipped   int  // the number of repeated steps
}

// Open connects to the inspector at path over conn, and returns a connection to a debug adapter for its runtime.
// Closing that connection closes conn.
func Open(ctx context.Context, conn io.ReadWriteCloser, path string, opts Options) (io.ReadWriteCloser, error) {
	s, err := dial(ctx, conn, path, opts)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	b := &bridge{
		opts: opts, dialect: opts.Dialect, socket: s, conn: far, scripts: map[string]*script{},
		points: map[string][]*point{}, entered: !opts.Launched, looked: map[string]bool{},
	}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	b.wg.Go(s.read)
	b.wg.Go(b.follow)
	b.wg.Go(b.serve)
	return &adapter{near, b}, nil
}

// adapter is the debugger's end of the connection.
type adapter struct {
	net.Conn
	bridge *bridge
}

// Close ends the connection and waits for the goroutines that serve it.
func (a *adapter) Close() error {
	err := a.Conn.Close()
	a.bridge.close()
	a.bridge.wg.Wait()
	return err
}

func (b *bridge) close() {
	b.cancel()
	b.socket.close()
	_ = b.conn.Close()
}

// serve reads requests and answers each on its own goroutine, until the debugger leaves.
func (b *bridge) serve() {
	defer b.close()
	in := bufio.NewReader(b.conn)
	for {
		content, err := godap.ReadBaseMessage(in)
		if err != nil {
			return
		}
		var r struct {
			Seq       int             `json:"seq"`
			Type      string          `json:"type"`
			Command   string          `json:"command"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if json.Unmarshal(content, &r) != nil || r.Type != "request" {
			continue
		}
		b.wg.Go(func() {
			answer := map[string]any{"type": "response", "request_seq": r.Seq, "command": r.Command, "success": true}
			body, err := b.answer(r.Command, r.Arguments)
			switch {
			case err != nil:
				answer["success"], answer["message"] = false, err.Error()
			case body != nil:
				answer["body"] = body
			}
			b.send(answer)
			if r.Command == "attach" || r.Command == "launch" {
				b.event("initialized", nil)
			}
		})
	}
}

// send writes a message to the debugger, which may have left.
func (b *bridge) send(fields map[string]any) {
	b.sending.Lock()
	defer b.sending.Unlock()
	b.seq++
	fields["seq"] = b.seq
	if content, err := json.Marshal(fields); err == nil {
		_ = godap.WriteBaseMessage(b.conn, content)
	}
}

func (b *bridge) event(name string, body any) {
	b.send(map[string]any{"type": "event", "event": name, "body": body})
}

// call sends a request to the inspector.
func (b *bridge) call(method string, params, result any) error {
	err := b.socket.call(b.ctx, method, params, result)
	if errors.Is(err, context.Canceled) {
		return errGone
	}
	return err
}

// answer answers a request.
func (b *bridge) answer(command string, arguments json.RawMessage) (any, error) {
	switch command {
	case "initialize":
		return b.capabilities(), nil
	case "launch", "attach":
		return nil, b.dialect.begin(b.ctx, b.socket, b.opts.Launched && b.opts.Entry)
	case "configurationDone":
		return nil, b.call(b.dialect.run, nil, nil)
	case "setBreakpoints":
		return b.setBreakpoints(arguments)
	case "setExceptionBreakpoints":
		return nil, b.setExceptions(arguments)
	case "threads":
		return godap.ThreadsResponseBody{Threads: []godap.Thread{{Id: thread, Name: "main"}}}, nil
	case "stackTrace":
		return b.stackTrace(arguments)
	case "scopes":
		return b.scopes(arguments)
	case "variables":
		return b.variables(arguments)
	case "evaluate":
		return b.evaluate(arguments)
	case "continue":
		return map[string]any{"allThreadsContinued": true}, b.resume("Debugger.resume")
	case "next":
		return nil, b.resume(b.dialect.over)
	case "stepIn":
		return nil, b.resume("Debugger.stepInto")
	case "stepOut":
		return nil, b.resume("Debugger.stepOut")
	case "pause":
		return nil, b.pause()
	case "loadedSources":
		return b.loadedSources(), nil
	case "disconnect":
		return nil, b.disconnect(arguments)
	}
	return nil, fmt.Errorf("the inspector has no request %.80q", command)
}

// thread is the id of the only thread.
const thread = 1

func (b *bridge) capabilities() godap.Capabilities {
	return godap.Capabilities{
		SupportsConfigurationDoneRequest: true, SupportsConditionalBreakpoints: true,
		SupportsHitConditionalBreakpoints: true, SupportsLogPoints: true, SupportsLoadedSourcesRequest: true,
		ExceptionBreakpointFilters: []godap.ExceptionBreakpointsFilter{
			{Filter: "uncaught", Label: "Uncaught exceptions", Default: true}, {Filter: "all", Label: "All exceptions"},
		},
	}
}

// setExceptions selects the exceptions at which the program stops.
func (b *bridge) setExceptions(arguments json.RawMessage) error {
	var a godap.SetExceptionBreakpointsArguments
	if err := json.Unmarshal(arguments, &a); err != nil {
		return err
	}
	state := ""
	for _, f := range a.Filters {
		if state == "" || f == "all" {
			state = f
		}
	}
	return b.call("Debugger.setPauseOnExceptions", map[string]any{"state": b.dialect.filters[state]}, nil)
}

var errRuns = errors.New("the program runs")

// resume continues the program, for a step or without.
func (b *bridge) resume(method string) error {
	b.mu.Lock()
	if b.paused == nil {
		b.mu.Unlock()
		return errRuns
	}
	b.resumed, b.skipped = method, 0
	b.mu.Unlock()
	if err := b.call(method, nil, nil); !errors.Is(err, errGone) { // the program may have ended before the answer
		return err
	}
	return nil
}

func (b *bridge) pause() error {
	b.mu.Lock()
	b.pausing, b.skipped = true, 0
	b.mu.Unlock()
	if b.dialect.deaf {
		b.wg.Go(func() { _ = b.call("Debugger.pause", nil, nil) }) // the stop confirms that the request worked
		return nil
	}
	return b.call("Debugger.pause", nil, nil)
}

// loadedSources lists the files that were loaded, and their sources.
func (b *bridge) loadedSources() godap.LoadedSourcesResponseBody {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]bool{"": true}
	list := []godap.Source{}
	add := func(path string) {
		if !seen[path] {
			seen[path] = true
			list = append(list, godap.Source{Path: path})
		}
	}
	for _, s := range b.scripts {
		add(s.path)
		for _, source := range s.sources {
			add(source)
		}
	}
	return godap.LoadedSourcesResponseBody{Sources: list}
}

// disconnect leaves the program: an attached program continues, unless the request ends it.
func (b *bridge) disconnect(arguments json.RawMessage) error {
	var a struct {
		TerminateDebuggee bool `json:"terminateDebuggee"`
	}
	_ = json.Unmarshal(arguments, &a) // without arguments the program continues
	if a.TerminateDebuggee && !b.opts.Launched {
		return b.call("Runtime.evaluate", map[string]any{"expression": "process.kill(process.pid)"}, nil)
	}
	return nil
}

// follow handles the inspector's events, until the runtime ends.
func (b *bridge) follow() {
	for {
		events, ok := b.socket.next()
		if !ok {
			break
		}
		for _, e := range events {
			b.take(e)
		}
	}
	b.gone()
}

// gone sends the debugger the end of the program.
func (b *bridge) gone() {
	if b.opts.Ended != nil {
		select {
		case <-b.opts.Ended:
			b.event("exited", godap.ExitedEventBody{ExitCode: b.opts.Exit()})
		case <-b.ctx.Done():
		}
	}
	b.event("terminated", nil)
}

// take handles an event.
func (b *bridge) take(m message) {
	switch m.Method {
	case "Debugger.scriptParsed":
		var p parsed
		if json.Unmarshal(m.Params, &p) == nil {
			if s := b.load(p); s != nil && (s.smap != nil || b.dialect.translates) {
				b.rebind(s)
			}
		}
	case "Debugger.breakpointResolved":
		var r resolved
		if json.Unmarshal(m.Params, &r) == nil {
			b.resolve(r)
		}
	case "Debugger.paused":
		var p paused
		if json.Unmarshal(m.Params, &p) == nil {
			b.stop(&p)
		}
	case "Debugger.resumed":
		b.mu.Lock()
		b.paused, b.handles = nil, nil
		b.mu.Unlock()
	case "Runtime.consoleAPICalled", "Console.messageAdded":
		if !b.opts.Launched { // the output of a launched program is read from its standard files
			b.print(m.Params)
		}
	case "NodeRuntime.waitingForDisconnect":
		b.socket.close()
	}
}
