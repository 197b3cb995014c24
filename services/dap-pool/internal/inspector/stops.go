package inspector

import (
	"encoding/json"
	"slices"
	"strings"

	godap "github.com/google/go-dap"
)

// location is a position in a script.
type location struct {
	ScriptID     string `json:"scriptId"`
	LineNumber   int    `json:"lineNumber"`
	ColumnNumber int    `json:"columnNumber"`
}

func (l location) position() position { return position{l.LineNumber, l.ColumnNumber} }

// paused is the runtime's event about a stop.
type paused struct {
	CallFrames []struct {
		CallFrameID  string   `json:"callFrameId"`
		FunctionName string   `json:"functionName"`
		Location     location `json:"location"`
		ScopeChain   []scope  `json:"scopeChain"`
		This         remote   `json:"this"`
	} `json:"callFrames"`
	Reason string `json:"reason"`
	Data   struct {
		BreakpointID string `json:"breakpointId"`
		Description  string `json:"description"`
		Reasons      []struct {
			Reason string `json:"reason"`
		} `json:"reasons"`
	} `json:"data"`
	HitBreakpoints []string `json:"hitBreakpoints"`
}

type scope struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Empty  bool   `json:"empty"`
	Object remote `json:"object"`
}

// reasons returns the reasons of a stop, of which there may be several.
func (p *paused) reasons() []string {
	list := []string{p.Reason}
	for _, r := range p.Data.Reasons {
		list = append(list, r.Reason)
	}
	return list
}

const (
	entryReason  = "Break on start"
	scriptReason = "instrumentation"
)

// stop handles a stop and reports it to the debugger. It continues the program after a stop that only the bridge needs.
func (b *bridge) stop(p *paused) {
	b.mu.Lock()
	reason, text := b.reason(p)
	method := b.resumed
	switch {
	case reason == "":
		method = "Debugger.resume"
	case (reason == "step" || reason == "pause") && b.skipped < maxSkips && b.internal(p):
		b.skipped++
		method = "Debugger.stepOut" // to the code of the program that called this code, or is called next
		if reason == "step" && !b.called(p) {
			method, b.resumed = "Debugger.resume", "" // the step was the last one of its function
		}
		reason = ""
	case reason == "step" && b.skipped < maxSkips && !b.shown(p):
		b.skipped++ // between two lines of the source
		reason = ""
	default:
		b.paused, b.handles, b.pausing, b.resumed = p, nil, false, ""
	}
	var hit []int
	for _, list := range b.points {
		for _, point := range list {
			if slices.ContainsFunc(point.set, func(id string) bool {
				return slices.Contains(p.HitBreakpoints, id) || id == p.Data.BreakpointID
			}) {
				hit = append(hit, point.id)
			}
		}
	}
	b.mu.Unlock()
	if reason == "" {
		_ = b.call(method, nil, nil) // the reader detects a runtime that has ended
		return
	}
	b.event("stopped", map[string]any{
		"reason": reason, "text": text, "threadId": thread, "allThreadsStopped": true, "hitBreakpointIds": hit,
	})
}

// maxSkips is the maximum number of steps that the bridge adds to one step.
const maxSkips = 100

// shown reports whether a stop has a position in a source file. b.mu is held.
func (b *bridge) shown(p *paused) bool {
	return len(p.CallFrames) == 0 || b.written(p.CallFrames[0].Location).exact
}

// internal reports whether a stop is in code of the runtime itself. b.mu is held.
func (b *bridge) internal(p *paused) bool {
	return len(p.CallFrames) > 0 && b.own(p.CallFrames[0].Location)
}

// called reports whether the program's own code is among the callers of a stop. b.mu is held.
func (b *bridge) called(p *paused) bool {
	for _, f := range p.CallFrames {
		if !b.own(f.Location) {
			return true
		}
	}
	return false
}

// own reports whether a location is in code of the runtime itself. b.mu is held.
func (b *bridge) own(at location) bool {
	s := b.scripts[at.ScriptID]
	return s != nil && strings.HasPrefix(s.url, "node:")
}

// reason returns the reason of a stop, "" for a stop after which the program continues at once. b.mu is held.
func (b *bridge) reason(p *paused) (reason, text string) {
	all := p.reasons()
	own := !slices.ContainsFunc(all, func(r string) bool { return r != scriptReason && r != "ambiguous" })
	hit := len(p.HitBreakpoints) > 0 || p.Data.BreakpointID != ""
	switch {
	case own:
		return "", ""
	case !b.entered:
		b.entered = true
		if b.opts.Entry {
			return "entry", ""
		}
		if !hit && slices.Contains(all, entryReason) {
			return "", ""
		}
	case slices.Contains(all, entryReason):
		return "entry", ""
	}
	switch {
	case slices.Contains(all, "exception") || slices.Contains(all, "promiseRejection"):
		text, _, _ = strings.Cut(p.Data.Description, "\n")
		return "exception", text
	case hit:
		return "breakpoint", ""
	case b.pausing:
		return "pause", ""
	case b.resumed != "" && b.resumed != "Debugger.resume":
		return "step", ""
	}
	return "breakpoint", "a debugger statement" // or a cause that the runtime does not name
}

// stackTrace lists the frames, without those of the runtime itself.
func (b *bridge) stackTrace(arguments json.RawMessage) (any, error) {
	var a godap.StackTraceArguments
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused == nil {
		return nil, errRuns
	}
	all := []godap.StackFrame{}
	for i, f := range b.paused.CallFrames {
		if i > 0 && b.own(f.Location) {
			continue
		}
		at := b.written(f.Location)
		frame := godap.StackFrame{Id: i, Name: f.FunctionName, Line: at.line, Column: at.column}
		if frame.Name == "" {
			frame.Name = "(anonymous)"
		}
		if at.path != "" {
			frame.Source = &godap.Source{Path: at.path}
		}
		all = append(all, frame)
	}
	from := min(max(a.StartFrame, 0), len(all))
	to := len(all)
	if a.Levels > 0 {
		to = min(to, from+a.Levels)
	}
	return godap.StackTraceResponseBody{StackFrames: all[from:to], TotalFrames: len(all)}, nil
}

// scopes lists the scopes of a frame.
func (b *bridge) scopes(arguments json.RawMessage) (any, error) {
	var a godap.ScopesArguments
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused == nil || a.FrameId < 0 || a.FrameId >= len(b.paused.CallFrames) {
		return nil, errRuns
	}
	frame := b.paused.CallFrames[a.FrameId]
	own := ownScopes(frame.ScopeChain, frame.FunctionName)
	list := []godap.Scope{}
	for i, s := range frame.ScopeChain {
		x := godap.Scope{Name: "Closure"}
		h := handle{object: s.Object.ObjectID, scope: true}
		switch {
		case s.Empty:
			continue
		case s.Type == "global" || s.Type == "globalLexicalEnvironment" || s.Type == "script":
			x.Name, x.Expensive = "Global", s.Type == "global"
		case i < own:
			x.Name, x.PresentationHint = "Local", "locals"
			if i == own-1 && frame.This.ObjectID != "" && frame.This.ClassName != "global" {
				h.this = &frame.This
			}
		}
		x.VariablesReference = b.refer(h)
		list = append(list, x)
	}
	return godap.ScopesResponseBody{Scopes: list}, nil
}

// ownScopes returns the number of scopes of a chain that belong to the function: its blocks and the function itself.
func ownScopes(chain []scope, function string) int {
	named := 0
	for i, s := range chain {
		switch s.Type {
		case "local", "module":
			return i + 1
		case "closure", "functionName": // WebKit has no other name for the scope of the function itself
			if s.Name != function || function == "" {
				return max(named, 1)
			}
			named = i + 1
		case "global", "globalLexicalEnvironment", "script":
			return i
		}
	}
	return len(chain)
}
