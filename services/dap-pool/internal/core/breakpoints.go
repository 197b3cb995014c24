package core

import (
	"context"
	"slices"

	godap "github.com/google/go-dap"

	"kaged.dev/pkg/fault"
)

// The kinds of breakpoints.
const (
	kindLine        = "line"
	kindFunction    = "function"
	kindInstruction = "instruction"
	kindData        = "data"
)

// take applies the adapter's answer to a breakpoint.
func (b *Breakpoint) take(from godap.Breakpoint) {
	if from.Id != 0 {
		b.adapter = from.Id
	}
	b.Verified, b.Message = from.Verified, from.Message
	if from.Line > 0 {
		b.Actual = from.Line
	}
	if from.Source != nil && b.Path == "" {
		b.Path = from.Source.Path
	}
}

// breakpoints answers the actions that set, remove and list breakpoints.
func (s *session) breakpoints(ctx context.Context, d Do) (Answer, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	switch d.Action {
	case ListBreakpoints:
		return Answer{Breakpoints: s.listed()}, nil
	case SetBreakpoint, SetInstructionBreakpoint, SetDataBreakpoint:
		if d.SetExceptions {
			return s.setExceptions(ctx, d)
		}
		return s.add(ctx, d)
	}
	return s.remove(ctx, d)
}

// listed returns the breakpoints in their present state.
func (s *session) listed() []Breakpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Breakpoint{}
	for _, b := range s.points {
		if !b.temporary {
			list = append(list, s.shown(b))
		}
	}
	return list
}

// shown returns a breakpoint with its texts cut to the limit.
func (s *session) shown(b *Breakpoint) Breakpoint {
	c := *b
	c.Message = s.cut(c.Message)
	return c
}

// wanted returns the breakpoint of an action, and refuses a kind that the adapter does not offer.
func (s *session) wanted(d Do) (*Breakpoint, error) {
	b := &Breakpoint{
		Kind: kindLine, Path: d.Path, Line: d.Line, Condition: d.Condition, HitCount: d.HitCount, LogMessage: d.LogMessage,
	}
	able, what := true, "breakpoints"
	switch {
	case d.Action == SetInstructionBreakpoint || d.Action == RemoveInstructionBreakpoint:
		b.Kind, b.Reference, b.Offset = kindInstruction, d.Instruction, d.Offset
		able, what = s.caps.SupportsInstructionBreakpoints, "instruction breakpoints"
	case d.Action == SetDataBreakpoint || d.Action == RemoveDataBreakpoint:
		b.Kind, b.Reference, b.Access = kindData, d.DataID, d.AccessType
		able, what = s.caps.SupportsDataBreakpoints, "data breakpoints"
	case d.Function != "":
		b.Kind, b.Function, b.Path, b.Line = kindFunction, d.Function, "", 0
		able, what = s.caps.SupportsFunctionBreakpoints, "function breakpoints"
	}
	switch {
	case !able:
	case d.Condition != "" && !s.caps.SupportsConditionalBreakpoints:
		able, what = false, "conditions of breakpoints"
	}
	if !able {
		return nil, s.unable(what)
	}
	return b, nil
}

// unable returns the error of a feature that the adapter does not offer.
func (s *session) unable(what string) error {
	return fault.New(fault.DapRequestFailed, "The debug adapter of %s does not offer %s.", s.start.Runtime, what).
		With("capability", what)
}

// same reports whether two breakpoints have the same position.
func (b *Breakpoint) same(o *Breakpoint) bool {
	return b.Kind == o.Kind && b.Path == o.Path && b.Line == o.Line && b.Function == o.Function &&
		b.Reference == o.Reference && b.Offset == o.Offset && b.temporary == o.temporary
}

// at returns the position of a breakpoint that may have got another path from the adapter.
func (b *Breakpoint) at() *Breakpoint {
	c := *b
	if c.Kind != kindLine {
		c.Path = ""
	}
	return &c
}

// add sets a breakpoint. It replaces one at the same position.
func (s *session) add(ctx context.Context, d Do) (Answer, error) {
	b, err := s.wanted(d)
	if err != nil {
		return Answer{}, err
	}
	s.mu.Lock()
	i := slices.IndexFunc(s.points, func(o *Breakpoint) bool { return o.at().same(b) })
	var before *Breakpoint
	switch {
	case i >= 0:
		before = s.points[i]
		b.ID = before.ID
		s.points[i] = b
	case len(s.points) >= s.pool.opts.Breakpoints:
		s.mu.Unlock()
		return Answer{}, fault.New(fault.RateLimited, "There are %d breakpoints already, the most there may be.",
			s.pool.opts.Breakpoints)
	default:
		s.lastPoint++
		b.ID = s.lastPoint
		s.points = append(s.points, b)
	}
	s.mu.Unlock()
	if err := s.send(ctx, b); err != nil {
		s.mu.Lock()
		s.points = slices.DeleteFunc(s.points, func(o *Breakpoint) bool { return o == b })
		if before != nil {
			s.points = append(s.points, before)
		}
		s.mu.Unlock()
		return Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := s.shown(b)
	return Answer{Breakpoint: &shown}, nil
}

// remove removes a breakpoint. It fails with invalid_params for a position without a breakpoint.
func (s *session) remove(ctx context.Context, d Do) (Answer, error) {
	d.Condition, d.HitCount, d.LogMessage = "", 0, ""
	b, err := s.wanted(d)
	if err != nil {
		return Answer{}, err
	}
	s.mu.Lock()
	i := slices.IndexFunc(s.points, func(o *Breakpoint) bool { return o.at().same(b) })
	if i < 0 {
		s.mu.Unlock()
		return Answer{}, fault.New(fault.InvalidParams, "There is no breakpoint there; list_breakpoints shows all.")
	}
	removed := s.points[i]
	s.points = slices.Delete(s.points, i, i+1)
	s.mu.Unlock()
	if err := s.send(ctx, removed); err != nil {
		s.mu.Lock()
		s.points = append(s.points, removed)
		s.mu.Unlock()
		return Answer{}, err
	}
	shown := s.shown(removed)
	return Answer{Breakpoint: &shown}, nil
}

// send sends the set to which a breakpoint belongs.
func (s *session) send(ctx context.Context, b *Breakpoint) error {
	switch b.Kind {
	case kindFunction:
		return s.sendFunctions(ctx)
	case kindInstruction:
		return s.sendInstructions(ctx)
	case kindData:
		return s.sendData(ctx)
	}
	return s.sendLines(ctx, b.Path)
}

// setOf returns the breakpoints that match selects.
func (s *session) setOf(match func(*Breakpoint) bool) []*Breakpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*Breakpoint
	for _, b := range s.points {
		if match(b) {
			list = append(list, b)
		}
	}
	return list
}

// apply sends a set and applies the adapter's answer to it, which has the set's order.
func (s *session) apply(ctx context.Context, command string, list []*Breakpoint, arguments any) error {
	var body godap.SetBreakpointsResponseBody
	if err := s.call(ctx, command, arguments, &body); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range list {
		if i < len(body.Breakpoints) {
			b.take(body.Breakpoints[i])
		}
	}
	return nil
}

func (s *session) sendLines(ctx context.Context, path string) error {
	list := s.setOf(func(b *Breakpoint) bool { return b.Kind == kindLine && b.Path == path })
	points := []godap.SourceBreakpoint{}
	for _, b := range list {
		points = append(points, godap.SourceBreakpoint{
			Line: b.Line, Condition: b.Condition, HitCondition: s.counted(b), LogMessage: s.logged(b),
		})
	}
	// go-dap omits an empty list, which makes debugpy fail.
	return s.apply(ctx, "setBreakpoints", list, struct {
		Source      godap.Source             `json:"source"`
		Breakpoints []godap.SourceBreakpoint `json:"breakpoints"`
	}{godap.Source{Path: path}, points})
}

func (s *session) sendFunctions(ctx context.Context) error {
	list := s.setOf(func(b *Breakpoint) bool { return b.Kind == kindFunction })
	points := []godap.FunctionBreakpoint{}
	for _, b := range list {
		points = append(points, godap.FunctionBreakpoint{
			Name: b.Function, Condition: b.Condition, HitCondition: s.counted(b),
		})
	}
	return s.apply(ctx, "setFunctionBreakpoints", list, &godap.SetFunctionBreakpointsArguments{Breakpoints: points})
}

func (s *session) sendInstructions(ctx context.Context) error {
	list := s.setOf(func(b *Breakpoint) bool { return b.Kind == kindInstruction })
	points := []godap.InstructionBreakpoint{}
	for _, b := range list {
		points = append(points, godap.InstructionBreakpoint{
			InstructionReference: b.Reference, Offset: b.Offset, Condition: b.Condition,
			HitCondition: s.counted(b),
		})
	}
	return s.apply(ctx, "setInstructionBreakpoints", list, &godap.SetInstructionBreakpointsArguments{Breakpoints: points})
}

func (s *session) sendData(ctx context.Context) error {
	list := s.setOf(func(b *Breakpoint) bool { return b.Kind == kindData })
	points := []godap.DataBreakpoint{}
	for _, b := range list {
		points = append(points, godap.DataBreakpoint{
			DataId: b.Reference, AccessType: godap.DataBreakpointAccessType(b.Access), Condition: b.Condition,
			HitCondition: s.counted(b),
		})
	}
	return s.apply(ctx, "setDataBreakpoints", list, &godap.SetDataBreakpointsArguments{Breakpoints: points})
}

// sendExceptions sends the filters of exceptions.
func (s *session) sendExceptions(ctx context.Context) error {
	s.mu.Lock()
	filters := append([]string{}, s.exceptions...)
	s.mu.Unlock()
	return s.call(ctx, "setExceptionBreakpoints", &godap.SetExceptionBreakpointsArguments{Filters: filters}, nil)
}

// setExceptions selects the exceptions at which the program stops.
func (s *session) setExceptions(ctx context.Context, d Do) (Answer, error) {
	var known []string
	for _, f := range s.caps.ExceptionBreakpointFilters {
		known = append(known, f.Filter)
	}
	for _, name := range d.Exceptions {
		if !slices.Contains(known, name) {
			return Answer{}, fault.New(fault.InvalidParams, "The debug adapter has no exceptions %.80q.", name).
				With("field", "exceptions").With("known", known)
		}
	}
	s.mu.Lock()
	before := s.exceptions
	s.exceptions = d.Exceptions
	s.mu.Unlock()
	if err := s.sendExceptions(ctx); err != nil {
		s.mu.Lock()
		s.exceptions = before
		s.mu.Unlock()
		return Answer{}, err
	}
	return Answer{Breakpoints: s.listed()}, nil
}

// rebind sends all sets again, to an adapter that has lost them.
func (s *session) rebind(ctx context.Context) {
	s.changing.Lock()
	defer s.changing.Unlock()
	sent := map[string]bool{}
	for _, b := range s.setOf(func(*Breakpoint) bool { return true }) {
		of := b.Kind
		if of == kindLine {
			of += b.Path
		}
		if !sent[of] {
			sent[of] = true
			_ = s.send(ctx, b) // a breakpoint that is refused keeps its present state in the list
		}
	}
}
