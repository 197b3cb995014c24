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
	// over is the name of the step over a line.
	over string
	// translates says that the runtime rewrites every file before it runs it: the code that runs has other lines,
	// which are known only when it is loaded.
	translates bool
	// filters are the states of setPauseOnExceptions by the filters of exceptions.
	filters map[string]string
	// properties is the request for the properties of an object.
	properties string
	// deaf says that the runtime reads no request while code runs: a pause is not answered before it takes effect.
	deaf bool
	// pure says that an expression can be evaluated under the promise to leave the program as it is.
	pure bool
	// begin prepares the inspector. entry says that the program is to stop at its first line.
	begin func(ctx context.Context, s *socket, entry bool) error
	// header is sent with the WebSocket's handshake.
	header http.Header
	// path is where the inspector is of a program that was not started by the pool, "" for one that can be asked.
	path string
	// run lets a program begin that waits for its debugger.
	run string
	// url is how the runtime names a file, file the reverse: "" for the name of another thing.
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
	// Without the header, bun would not end with its program while a debugger is connected.
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

// beginNode prepares Node, whose command line says that the program stops at its first line.
func beginNode(ctx context.Context, s *socket, _ bool) error {
	return each(ctx, s, []request{
		{"Runtime.enable", nil},
		{"Debugger.enable", nil},
		{"NodeRuntime.notifyWhenWaitingForDisconnect", map[string]any{"enabled": true}},
		// A breakpoint in the source of a script is set before the script runs.
		{"Debugger.setInstrumentationBreakpoint", map[string]any{"instrumentation": "beforeScriptWithSourceMapExecution"}},
	})
}

// beginBun prepares bun, which stops at the first line if it is asked to pause before the program begins.
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

// fileURL is the address that Node gives a file.
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

// filePath is the file of an address of Node's.
func filePath(address string) string {
	if path, ok := strings.CutPrefix(address, "file://"); ok {
		if path, err := url.PathUnescape(path); err == nil {
			return plainPath(path)
		}
		return ""
	}
	return plainPath(address)
}

// plainPath is a name that is a file's path.
func plainPath(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return ""
}

// nodeBreakpoint counts and logs in the condition, which V8 evaluates without stopping: a step over a line with
// such a breakpoint goes on.
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

// bunBreakpoint leaves counting and going on to WebKit.
func bunBreakpoint(p *point, url string, at position) map[string]any {
	options := map[string]any{"condition": p.Condition, "ignoreCount": max(0, p.hits-1)}
	if p.LogMessage != "" {
		options["autoContinue"] = true
		options["actions"] = []any{map[string]any{"type": "evaluate", "data": printing(p.LogMessage)}}
	}
	return map[string]any{"url": url, "lineNumber": at.line, "columnNumber": at.column, "options": options}
}

// printing is the expression that prints a log message: {expressions} are evaluated, one that fails is its error.
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

// quoted is a text as a literal of the language.
func quoted(text string) string {
	literal, _ := json.Marshal(text) // a string has a JSON form
	return string(literal)
}
