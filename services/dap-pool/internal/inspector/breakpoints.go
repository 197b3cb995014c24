package inspector

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	godap "github.com/google/go-dap"
)

// point is a wanted breakpoint.
type point struct {
	godap.SourceBreakpoint
	id, hits int
	path     string
	targets  []target // the positions where it was set
	set      []string // the inspector's ids of the breakpoint
	actual   int      // its line, from 1; 0 if not yet known
	trouble  string   // the reason why it cannot be set
}

// resolved is the runtime's event about a breakpoint in a loaded script.
type resolved struct {
	BreakpointID string   `json:"breakpointId"`
	Location     location `json:"location"`
}

// setBreakpoints replaces the breakpoints of a file. A breakpoint that is in both sets is kept with its count.
func (b *bridge) setBreakpoints(arguments json.RawMessage) (any, error) {
	var a godap.SetBreakpointsArguments
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	path := a.Source.Path
	if len(a.Breakpoints) > 0 {
		b.foresee(path)
	}
	b.mu.Lock()
	left := slices.Clone(b.points[path])
	b.mu.Unlock()
	list := []*point{}
	for _, want := range a.Breakpoints {
		i := slices.IndexFunc(left, func(p *point) bool { return p.SourceBreakpoint == want })
		if i >= 0 {
			list = append(list, left[i])
			left = slices.Delete(left, i, i+1)
			continue
		}
		hits, _ := strconv.Atoi(want.HitCondition) // the pool has written the number
		b.mu.Lock()
		b.lastPoint++
		list = append(list, &point{SourceBreakpoint: want, id: b.lastPoint, hits: hits, path: path})
		b.mu.Unlock()
	}
	for _, p := range left {
		b.clear(p)
	}
	b.mu.Lock()
	b.points[path] = list
	b.mu.Unlock()
	body := godap.SetBreakpointsResponseBody{Breakpoints: []godap.Breakpoint{}}
	for _, p := range list {
		b.place(p)
		body.Breakpoints = append(body.Breakpoints, b.state(p))
	}
	return body, nil
}

// state returns a breakpoint in the form for the debugger.
func (b *bridge) state(p *point) godap.Breakpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := godap.Breakpoint{Id: p.id, Verified: p.actual > 0, Line: cmp.Or(p.actual, p.Line), Message: p.trouble}
	if !x.Verified && x.Message == "" {
		x.Message = "no code of this line is loaded yet"
	}
	return x
}

// clear removes a breakpoint from the runtime. b.changing is held.
func (b *bridge) clear(p *point) {
	for _, id := range p.set {
		// it may have been removed with its script
		_ = b.call("Debugger.removeBreakpoint", map[string]any{"breakpointId": id}, nil)
	}
	b.mu.Lock()
	p.set, p.targets, p.actual, p.trouble = nil, nil, 0, ""
	b.mu.Unlock()
}

// place sets a breakpoint at the known positions of its line, unless it is set there. b.changing is held.
func (b *bridge) place(p *point) {
	trouble := b.wrong(p)
	b.mu.Lock()
	if p.trouble = trouble; trouble != "" {
		b.mu.Unlock()
		return
	}
	targets := b.targets(p.path, p.Line)
	same := len(targets) == len(p.targets) && len(p.set) == len(targets)
	for _, t := range targets {
		same = same && slices.Contains(p.targets, t)
	}
	b.mu.Unlock()
	if same {
		return
	}
	b.clear(p)
	for _, t := range targets {
		var result struct {
			BreakpointID string     `json:"breakpointId"`
			Locations    []location `json:"locations"`
		}
		err := b.call("Debugger.setBreakpointByUrl", b.dialect.breakpoint(p, t.url, t.at), &result)
		if err != nil {
			b.mu.Lock()
			p.trouble = err.Error()
			b.mu.Unlock()
			continue
		}
		b.mu.Lock()
		p.targets, p.set = append(p.targets, t), append(p.set, result.BreakpointID)
		if len(result.Locations) > 0 {
			p.actual = b.written(result.Locations[0]).line
		}
		b.mu.Unlock()
	}
}

// wrong returns the reason why the expressions of a breakpoint cannot be evaluated, "" for valid ones. The runtime
// itself accepts every text, and ignores one that fails.
func (b *bridge) wrong(p *point) string {
	list := []struct{ what, text string }{{"condition", p.Condition}}
	if p.LogMessage != "" {
		list = append(list, struct{ what, text string }{"log message", printing(p.LogMessage)})
	}
	for _, e := range list {
		if e.text == "" {
			continue
		}
		if why := b.compiles(e.text); why != "" {
			return "the " + e.what + " is no expression: " + why
		}
	}
	return ""
}

// compiles returns the reason why a text is no expression, "" for an expression.
func (b *bridge) compiles(text string) string {
	if b.dialect == Bun {
		var result struct {
			Result  string `json:"result"`
			Message string `json:"message"`
		}
		err := b.call("Runtime.parse", map[string]any{"source": "(" + text + "\n)"}, &result)
		if err != nil || result.Result == "" || result.Result == "none" {
			return ""
		}
		return cmp.Or(result.Message, "a syntax error")
	}
	var result struct {
		ExceptionDetails *exception `json:"exceptionDetails"`
	}
	err := b.call("Runtime.compileScript", map[string]any{
		"expression": "(" + text + "\n)", "sourceURL": "", "persistScript": false,
	}, &result)
	if err != nil || result.ExceptionDetails == nil {
		return ""
	}
	return result.ExceptionDetails.text()
}

// rebind sets the breakpoints in the sources of a script, because their positions are known only now.
func (b *bridge) rebind(s *script) {
	b.changing.Lock()
	defer b.changing.Unlock()
	paths := append([]string{s.path}, s.sources...)
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		b.mu.Lock()
		list := slices.Clone(b.points[path])
		b.mu.Unlock()
		for _, p := range list {
			b.place(p)
			b.changed(p)
		}
	}
}

// resolve records the position at which the runtime has set a breakpoint.
func (b *bridge) resolve(r resolved) {
	b.mu.Lock()
	var found *point
	for _, list := range b.points {
		for _, p := range list {
			if slices.Contains(p.set, r.BreakpointID) {
				found = p
				p.actual = b.written(r.Location).line
			}
		}
	}
	b.mu.Unlock()
	if found != nil {
		b.changed(found)
	}
}

func (b *bridge) changed(p *point) {
	b.event("breakpoint", map[string]any{"reason": "changed", "breakpoint": b.state(p)})
}
