// Package fakedap is a debug adapter for tests. Its program has ten lines with a statement each, and one thread with
// one frame of id 0. Its mode selects a behaviour, such as every kind of misbehaviour.
package fakedap

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	godap "github.com/google/go-dap"
)

// The modes, joined by commas.
const (
	Hang     = "hang"     // requests after the handshake are never answered
	Garbage  = "garbage"  // text without a frame instead of the answer to threads
	Half     = "half"     // half a frame instead of the answer to threads, then the end of the output
	Huge     = "huge"     // the header of a message of 100 MB instead of the answer to threads
	NoJSON   = "no-json"  // a frame without JSON instead of the answer to threads
	WrongSeq = "wrong"    // before each answer comes one to an unknown request
	Twice    = "twice"    // initialized is sent again after the configuration
	Late     = "late"     // launch is answered after configurationDone
	Flood    = "flood"    // each continue prints 2 MB
	Deaf     = "deaf"     // disconnect has no effect
	Crash    = "crash"    // continue ends the adapter
	Endless  = "endless"  // continue runs until pause
	Refuse   = "refuse"   // launch is refused
	Strange  = "strange"  // bodies have other types than the protocol requires
	Bare     = "bare"     // no capabilities
	Lying    = "lying"    // a stopped event comes before the answer to continue, and one after the end
	Asking   = "asking"   // the adapter requests a terminal, and the program stops at its entry when the terminal exists
	Long     = "long"     // values of 1 MB and 50,000 variables
	Killed   = "killed"   // launch ends the adapter
	Quiet    = "quiet"    // initialized is never sent
	Abandons = "abandons" // continue ends with terminated and no exit code
	EndsAt   = "ends-at:" // the request with the name after the colon ends the adapter
	Simple   = "simple"   // the capabilities of a simple adapter: conditions, but no counts and no log messages
	Laps     = "laps"     // the lines run three times
	Parent   = "parent"   // the program is started as a child session, with its own connection
	NoIDs    = "no-ids"   // a stop does not name its breakpoints
)

// lines is the length of the program; its exit code is 7.
const (
	lines    = 10
	exitCode = 7
)

// Adapter is a running fake adapter.
type Adapter struct {
	mode []string
	conn io.ReadWriteCloser

	mu    sync.Mutex // guards the fields below and the writes
	seq   int
	seen  []string
	asked map[string]json.RawMessage
	child bool
	line  int
	lap   int
	stops map[int]bool
	later func()
}

// New returns an adapter that uses conn.
func New(conn io.ReadWriteCloser, mode string) *Adapter {
	return &Adapter{
		mode: strings.Split(mode, ","), conn: conn, line: 1, stops: map[int]bool{}, asked: map[string]json.RawMessage{},
	}
}

// Seen returns the received commands, in their order.
func (a *Adapter) Seen() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

// Asked returns the last arguments of a command, or the answer to a request of the adapter.
func (a *Adapter) Asked(command string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return string(a.asked[command])
}

func (a *Adapter) is(mode string) bool { return slices.Contains(a.mode, mode) }

type message struct {
	Seq       int             `json:"seq"`
	Type      string          `json:"type"`
	Command   string          `json:"command"`
	Arguments json.RawMessage `json:"arguments"`
	Body      json.RawMessage `json:"body"`
}

// Serve answers requests until the end of input or disconnect.
func (a *Adapter) Serve() {
	defer a.conn.Close()
	in := bufio.NewReader(a.conn)
	for {
		content, err := godap.ReadBaseMessage(in)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(content, &m) != nil {
			continue
		}
		a.mu.Lock()
		if m.Type == "response" {
			a.asked[m.Command] = m.Body
			if m.Command == "runInTerminal" {
				a.stop("entry", nil)
			}
		}
		if m.Type != "request" {
			a.mu.Unlock()
			continue
		}
		a.seen = append(a.seen, m.Command)
		a.asked[m.Command] = m.Arguments
		goOn := !a.is(EndsAt+m.Command) && a.take(m)
		a.mu.Unlock()
		if !goOn {
			return
		}
	}
}

// raw writes text without a frame.
func (a *Adapter) raw(text string) { _, _ = io.WriteString(a.conn, text) }

func (a *Adapter) send(fields map[string]any) {
	a.seq++
	fields["seq"] = a.seq
	content, err := json.Marshal(fields)
	if err == nil {
		_ = godap.WriteBaseMessage(a.conn, content) // it fails if the client has left
	}
}

func (a *Adapter) event(name string, body any) {
	a.send(map[string]any{"type": "event", "event": name, "body": body})
}

func (a *Adapter) answer(m message, body any) {
	if a.is(WrongSeq) {
		a.send(map[string]any{"type": "response", "request_seq": 1_000_000, "success": true, "command": m.Command})
	}
	if a.is(Strange) && m.Command != "initialize" && m.Command != "launch" && m.Command != "configurationDone" {
		body = []any{"strange", 1}
	}
	a.send(map[string]any{"type": "response", "request_seq": m.Seq, "success": true, "command": m.Command, "body": body})
}

func (a *Adapter) refuse(m message, text string) {
	a.send(map[string]any{
		"type": "response", "request_seq": m.Seq, "success": false, "command": m.Command, "message": "short",
		"body": map[string]any{
			"error": map[string]any{"id": 1, "format": "{why}", "variables": map[string]string{"why": text}},
		},
	})
}

func (a *Adapter) stop(reason string, hit []int) {
	a.event("stopped", map[string]any{"reason": reason, "threadId": 1, "allThreadsStopped": true, "hitBreakpointIds": hit})
}

// take answers a request; false ends the adapter.
func (a *Adapter) take(m message) bool {
	switch m.Command {
	case "initialize":
		if a.is(Bare) {
			a.answer(m, map[string]any{})
			return true
		}
		if a.is(Simple) {
			a.answer(m, godap.Capabilities{SupportsConfigurationDoneRequest: true, SupportsConditionalBreakpoints: true})
			return true
		}
		a.answer(m, godap.Capabilities{
			SupportsConfigurationDoneRequest: true, SupportsConditionalBreakpoints: true, SupportsFunctionBreakpoints: true,
			SupportsHitConditionalBreakpoints: true, SupportsLogPoints: true, SupportsInstructionBreakpoints: true,
			SupportsDataBreakpoints: true, SupportsDisassembleRequest: true, SupportsReadMemoryRequest: true,
			SupportsWriteMemoryRequest: true, SupportsModulesRequest: true, SupportsLoadedSourcesRequest: true,
			ExceptionBreakpointFilters: []godap.ExceptionBreakpointsFilter{
				{Filter: "uncaught", Label: "Uncaught", Default: true}, {Filter: "raised", Label: "Raised"},
			},
		})
		return true
	case "launch", "attach":
		return a.launch(m)
	case "configurationDone":
		return a.configured(m)
	case "disconnect":
		if a.is(Deaf) {
			return true
		}
		a.answer(m, nil)
		return false
	}
	if a.is(Hang) {
		return true
	}
	if m.Command == "threads" && a.misbehaves() {
		return !a.is(Half)
	}
	return a.control(m)
}

// misbehaves breaks the framing, in the modes with that behaviour.
func (a *Adapter) misbehaves() bool {
	switch {
	case a.is(Garbage):
		a.raw("this is no frame\r\n\r\n")
	case a.is(Half):
		a.raw("Content-Length: 1000\r\n\r\n{\"seq\":")
	case a.is(Huge):
		a.raw("Content-Length: 104857600\r\n\r\n" + strings.Repeat("x", 1000))
	case a.is(NoJSON):
		a.raw("Content-Length: 4\r\n\r\nnull")
		a.raw("Content-Length: 4\r\n\r\n\"no\"")
	default:
		return false
	}
	return true
}

func (a *Adapter) launch(m message) bool {
	a.child = strings.Contains(string(m.Arguments), childMark)
	switch {
	case a.is(Killed):
		return false
	case a.is(Refuse):
		a.refuse(m, "the program does not compile")
		return true
	case a.is(Late):
		a.later = func() { a.answer(m, nil) }
	default:
		a.answer(m, nil)
	}
	if !a.is(Quiet) {
		a.event("initialized", nil)
	}
	return true
}

func (a *Adapter) configured(m message) bool {
	if a.is(Asking) {
		a.send(map[string]any{
			"type": "request", "command": "runInTerminal", "arguments": map[string]any{"args": []string{"sh"}},
		})
	}
	a.answer(m, nil)
	if a.later != nil {
		a.later()
	}
	if a.is(Asking) {
		return true // the program stops when the terminal exists
	}
	if a.is(Parent) && !a.child {
		a.send(map[string]any{"type": "request", "command": "startDebugging", "arguments": map[string]any{
			"request": "launch", "configuration": map[string]any{childMark: true},
		}})
		return true
	}
	if a.is(Twice) {
		a.event("initialized", nil)
	}
	a.stop("entry", nil)
	return true
}

// control answers the requests that continue or stop the program.
func (a *Adapter) control(m message) bool {
	switch m.Command {
	case "continue":
		switch {
		case a.is(Crash):
			return false
		case a.is(Abandons):
			a.answer(m, nil)
			a.event("terminated", nil)
			return true
		case a.is(Endless):
			a.answer(m, nil)
			return true
		}
		a.run(m)
	case "next", "stepIn", "stepOut":
		a.answer(m, nil)
		if a.line++; a.line > lines {
			a.over()
			return true
		}
		a.stop("step", nil)
	case "pause":
		a.answer(m, nil)
		a.stop("pause", nil)
	case "setBreakpoints":
		a.setLines(m)
	default:
		a.look(m)
	}
	return true
}

// run continues to the next breakpoint or the end.
func (a *Adapter) run(m message) {
	if a.is(Flood) {
		for range 64 {
			a.event("output", map[string]any{"category": "stdout", "output": strings.Repeat("flood\n", 5461)})
		}
	}
	for a.line++; a.line <= lines || a.again(); a.line++ {
		if a.stops[a.line] {
			break
		}
	}
	if !a.is(Lying) {
		a.answer(m, nil)
	}
	a.event("output", map[string]any{"category": "stdout", "output": fmt.Sprintf("at %d\n", a.line)})
	if a.line > lines {
		a.over()
	} else {
		hit := []int{100 + a.line}
		if a.is(NoIDs) {
			hit = nil
		}
		a.stop("breakpoint", hit)
	}
	if a.is(Lying) {
		a.answer(m, nil)
	}
}

func (a *Adapter) over() {
	a.event("exited", map[string]any{"exitCode": exitCode})
	if a.is(Lying) {
		a.stop("breakpoint", nil)
	}
	a.event("terminated", nil)
}

// again starts another lap, if there is one.
func (a *Adapter) again() bool {
	if a.lap++; !a.is(Laps) || a.lap >= 3 {
		return false
	}
	a.line = 1
	return true
}

// childMark is the argument of launch that selects a child session.
const childMark = "__child"

// complaint returns the message of a breakpoint outside the program, empty for one inside.
func complaint(line int) string {
	if line > lines {
		return "no such line"
	}
	return ""
}

func (a *Adapter) setLines(m message) {
	var arguments godap.SetBreakpointsArguments
	_ = json.Unmarshal(m.Arguments, &arguments)
	clear(a.stops)
	points := []godap.Breakpoint{}
	for _, b := range arguments.Breakpoints {
		a.stops[b.Line] = b.Line <= lines
		points = append(points, godap.Breakpoint{
			Id: 100 + b.Line, Verified: b.Line <= lines, Line: b.Line, Message: complaint(b.Line),
		})
	}
	a.answer(m, godap.SetBreakpointsResponseBody{Breakpoints: points})
}

// look answers the requests that read the state of the program.
func (a *Adapter) look(m message) {
	source := map[string]any{"path": "/project/a.fake"}
	switch m.Command {
	case "threads":
		a.answer(m, map[string]any{"threads": []any{map[string]any{"id": 1, "name": "main"}}})
	case "stackTrace":
		a.answer(m, map[string]any{"totalFrames": 1, "stackFrames": []any{
			map[string]any{"id": 0, "name": "main", "line": a.line, "column": 1, "source": source},
		}})
	case "scopes":
		a.answer(m, map[string]any{"scopes": []any{
			map[string]any{"name": "Locals", "variablesReference": 1, "expensive": false},
			map[string]any{"name": "Globals", "variablesReference": 4, "expensive": true},
		}})
	case "variables":
		a.variables(m)
	case "evaluate":
		var arguments struct {
			FrameID    *int   `json:"frameId"`
			Expression string `json:"expression"`
		}
		_ = json.Unmarshal(m.Arguments, &arguments)
		if arguments.FrameID == nil {
			a.refuse(m, "no frame")
			return
		}
		if arguments.Expression == "bad" {
			a.refuse(m, strings.Repeat("bad ", 100_000))
			return
		}
		a.answer(m, map[string]any{"result": "4" + arguments.Expression, "type": "int"})
	case "dataBreakpointInfo":
		a.answer(m, map[string]any{"dataId": "d1", "description": "x", "accessTypes": []string{"write"}})
	case "disassemble":
		nop := map[string]any{"address": "0x1", "instruction": "nop", "location": source, "line": 3}
		a.answer(m, map[string]any{"instructions": []any{nop}})
	case "readMemory":
		a.answer(m, map[string]any{"address": "0x1", "data": "AQID"})
	case "writeMemory":
		a.answer(m, map[string]any{"bytesWritten": 3})
	case "modules":
		a.answer(m, map[string]any{"modules": []any{map[string]any{"id": 1, "name": "m"}}, "totalModules": 1})
	case "loadedSources":
		a.answer(m, map[string]any{"sources": []any{source}})
	case "own/request":
		a.answer(m, map[string]any{"echo": m.Arguments})
	case "setFunctionBreakpoints", "setInstructionBreakpoints", "setDataBreakpoints", "setExceptionBreakpoints":
		a.answer(m, map[string]any{"breakpoints": []any{map[string]any{"id": 50, "verified": true}}})
	default:
		a.refuse(m, "unknown")
	}
}

func (a *Adapter) variables(m message) {
	var arguments godap.VariablesArguments
	_ = json.Unmarshal(m.Arguments, &arguments)
	of := map[int][]godap.Variable{
		1: {{Name: "token", Value: "1", Type: "int"}, {Name: "user", Value: "person", VariablesReference: 2}},
		2: {{Name: "name", Value: "Ann"}, {Name: "home", Value: "place", VariablesReference: 3}},
		3: {{Name: "town", Value: "Ulm"}},
		4: {{Name: "global", Value: "9"}},
	}[arguments.VariablesReference]
	if a.is(Long) {
		of = nil
		for i := range 50_000 {
			of = append(of, godap.Variable{Name: fmt.Sprintf("v%d", i), Value: "x"})
		}
		of[0].Value = strings.Repeat("y", 1<<20)
	}
	a.answer(m, godap.VariablesResponseBody{Variables: of})
}
