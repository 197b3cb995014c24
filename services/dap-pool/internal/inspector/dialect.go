package inspector

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Dialect is the protocol of a runtime's inspector.
type Dialect struct {
	// over is the method of a step over a line.
	over string
	// translates is true if the runtime rewrites every file before it runs it. The running code then has other lines,
	// which are known only after it is loaded.
	translates bool
	// filters has the states of setPauseOnExceptions by the filters of exceptions.
	filters map[string]string
	// properties is the request for the properties of an object.
	properties string
	// deaf is true if the runtime reads no request while code runs: a pause is answered only when it has taken effect.
	deaf bool
	// pure is true if the runtime can evaluate an expression with the guarantee that it does not change the program.
	pure bool
	// begin prepares the inspector. entry is true if the program should stop at its first line.
	begin func(ctx context.Context, s *socket, entry bool) error
	// header is sent with the WebSocket's handshake.
	header http.Header
	// path is the path of the inspector of a program that the pool has not started, "" for a runtime that returns it on
	// request.
	path string
	// run is the method that starts a program that waits for its debugger.
	run string
	// url returns the runtime's name of a file. file returns the file of a name, "" for a name that is no file.
	url, file func(name string) string
	// breakpoint returns the arguments that set a breakpoint.
	breakpoint func(p *point, url string, at position) map[string]any
}

// Node is the inspector of Node.
var Node = &Dialect{
	over: "Debugger.stepOver", properties: "Runtime.getProperties", pure: true, begin: beginNode,
	run: "Runtime.runIfWaitingForDebugger", url: fileURL, file: filePath, breakpoint: nodeBreakpoint,
	filters: map[string]string{"": "none", "all": "all", "uncaught": "uncaught"},
}

// Bun is the inspector of bun.
var Bun = &Dialect{
	over: "Debugger.stepNext", properties: "Runtime.getDisplayableProperties", translates: true, deaf: true,
	begin: beginBun,
	run:   "Inspector.initialized", url: func(path string) string { return path }, file: plainPath,
	// Without the header, bun would not exit at the end of its program while a debugger is connected.
	header: http.Header{"Ref-Event-Loop": {"0"}}, path: "/", breakpoint: bunBreakpoint,
	filters: map[string]string{"": "none", "all": "all", "uncaught": "uncaught"},
}

// request is a request without a result.
type request struct {
	method string
	params map[string]any
}

func each(ctx context.Context, s *socket, list []request) error {
	for _, r := range list {
		if err := s.call(ctx, r.method, r.params, nil); err != nil {
			return fmt.Errorf("the runtime refuses %s: %w", r.method, err)
		}
	}
	return nil
}

// beginNode prepares Node. Its command line makes the program stop at its first line.
func beginNode(ctx context.Context, s *socket, _ bool) error {
	return each(ctx, s, []request{
		{"Runtime.enable", nil},
		{"Debugger.enable", nil},
		{"NodeRuntime.notifyWhenWaitingForDisconnect", map[string]any{"enabled": true}},
		// A breakpoint in the source of a script is set before the script runs.
		{"Debugger.setInstrumentationBreakpoint", map[string]any{"instrumentation": "beforeScriptWithSourceMapExecution"}},
	})
}

// beginBun prepares bun. Bun stops at the first line if a pause is requested before the program starts.
func beginBun(ctx context.Context, s *socket, entry bool) error {
	list := []request{
		{"Inspector.enable", nil},
		{"Runtime.enable", nil},
		{"Console.enable", nil},
		{"Debugger.enable", nil},
		{"Debugger.setBreakpointsActive", map[string]any{"active": true}},
		{"Debugger.setPauseOnDebuggerStatements", map[string]any{"enabled": true}},
	}
	if entry {
		list = append(list, request{"Debugger.pause", nil})
	}
	return each(ctx, s, list)
}

// fileURL returns the URL that Node uses for a file.
func fileURL(path string) string {
	var b strings.Builder
	b.WriteString("file://")
	for i := range len(path) {
		c := path[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"#%<>?`{}\\^", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// filePath returns the file of a URL of Node.
func filePath(address string) string {
	if path, ok := strings.CutPrefix(address, "file://"); ok {
		if path, err := url.PathUnescape(path); err == nil {
			return plainPath(path)
		}
		return ""
	}
	return plainPath(address)
}

// plainPath returns a name that is a file's path.
func plainPath(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return ""
}

// nodeBreakpoint counts and logs in the condition, which V8 evaluates without a stop, so that a step over a line with
// such a breakpoint is not interrupted.
func nodeBreakpoint(p *point, url string, at position) map[string]any {
	var parts []string
	if p.Condition != "" {
		parts = append(parts, "("+p.Condition+"\n)")
	}
	if p.hits > 1 {
		count := `globalThis[Symbol.for("kaged.breakpoint.` + strconv.Itoa(p.id) + `")]`
		parts = append(parts, "(("+count+" = ("+count+" || 0) + 1) >= "+strconv.Itoa(p.hits)+")")
	}
	if p.LogMessage != "" {
		parts = append(parts, "("+printing(p.LogMessage)+", false)")
	}
	return map[string]any{
		"url": url, "lineNumber": at.line, "columnNumber": at.column, "condition": strings.Join(parts, " && "),
	}
}

// bunBreakpoint uses WebKit's own count and automatic continuation.
func bunBreakpoint(p *point, url string, at position) map[string]any {
	options := map[string]any{"condition": p.Condition, "ignoreCount": max(0, p.hits-1)}
	if p.LogMessage != "" {
		options["autoContinue"] = true
		options["actions"] = []any{map[string]any{"type": "evaluate", "data": printing(p.LogMessage)}}
	}
	return map[string]any{"url": url, "lineNumber": at.line, "columnNumber": at.column, "options": options}
}

// printing returns the expression that prints a log message. {expressions} are evaluated; the value of one that fails
// is its error.
func printing(text string) string {
	var parts []string
	for text != "" {
		before, rest, ok := strings.Cut(text, "{")
		expression, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			parts = append(parts, quoted(text))
			break
		}
		parts = append(parts, quoted(before),
			"(() => { try { return String("+expression+"\n) } catch (e) { return String(e) } })()")
		text = after
	}
	return "console.log(" + strings.Join(parts, " + ") + ")"
}

// quoted returns a text as a literal of the language.
func quoted(text string) string {
	literal, _ := json.Marshal(text) // a string can be encoded as JSON
	return string(literal)
}
