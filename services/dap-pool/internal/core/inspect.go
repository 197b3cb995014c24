package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	godap "github.com/google/go-dap"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
)

// cut cuts a text of the adapter to the limit.
func (s *session) cut(text string) string {
	return clip.Marked(strings.ToValidUTF8(text, "\uFFFD"), s.pool.opts.ValueBytes, "…")
}

// name cuts a name of the adapter to the limit.
func name(text string) string {
	return clip.Marked(strings.ToValidUTF8(text, "\uFFFD"), nameBytes, "…")
}

// nameBytes is the maximum size of names, pathBytes of paths.
const (
	nameBytes = 512
	pathBytes = 4096
)

// inspect executes the actions that read the state of a stopped program.
func (s *session) inspect(ctx context.Context, d Do) (Answer, error) {
	switch d.Action {
	case StackTrace:
		frames, total, err := s.frames(ctx, s.thread(d), d.First, d.Levels)
		return Answer{Frames: frames, TotalFrames: total}, err
	case Scopes:
		return s.scopes(ctx, d)
	case Variables:
		return s.variables(ctx, d)
	case Evaluate:
		return s.evaluate(ctx, d)
	case DataBreakpointInfo:
		return s.dataInfo(ctx, d)
	case Disassemble:
		return s.disassemble(ctx, d)
	case ReadMemory, WriteMemory:
		return s.memory(ctx, d)
	}
	return Answer{}, fault.New(fault.BadRequest, "The pool knows no such action.")
}

// thread returns the thread of an action: by default the stopped one.
func (s *session) thread(d Do) int {
	if d.ThreadID != 0 {
		return d.ThreadID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop.ThreadId
}

// threads returns the threads.
func (s *session) threads(ctx context.Context) ([]Thread, error) {
	var body godap.ThreadsResponseBody
	if err := s.call(ctx, "threads", nil, &body); err != nil {
		return nil, err
	}
	threads := []Thread{}
	for _, t := range body.Threads[:min(len(body.Threads), s.pool.opts.Items)] {
		threads = append(threads, Thread{ID: t.Id, Name: name(t.Name)})
	}
	return threads, nil
}

// stack returns the frames of a thread in the adapter's form, and their number.
func (s *session) stack(ctx context.Context, thread, first, levels int) ([]godap.StackFrame, int, error) {
	levels = min(levels, s.pool.opts.Items)
	if levels <= 0 {
		levels = 20
	}
	if thread == 0 {
		thread = s.firstThread(ctx)
	}
	var body godap.StackTraceResponseBody
	arguments := struct {
		ThreadID   int `json:"threadId"`
		StartFrame int `json:"startFrame"`
		Levels     int `json:"levels"`
	}{thread, first, levels}
	if err := s.call(ctx, "stackTrace", arguments, &body); err != nil {
		return nil, 0, err
	}
	frames := body.StackFrames[:min(len(body.StackFrames), levels)]
	return frames, max(body.TotalFrames, first+len(frames)), nil
}

// frames returns frames of a thread, counted from the top.
func (s *session) frames(ctx context.Context, thread, first, levels int) ([]Frame, int, error) {
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	list, total, err := s.stack(ctx, thread, first, levels)
	if err != nil {
		return nil, 0, err
	}
	if first == 0 && len(list) > 0 && thread != 0 {
		s.mu.Lock()
		s.top = topFrame{epoch: epoch, thread: thread, id: list[0].Id}
		s.mu.Unlock()
	}
	frames := []Frame{}
	for i, f := range list {
		frames = append(frames, Frame{
			ID: first + i, Name: name(f.Name), Path: path(f.Source), Line: max(f.Line, 0), Column: max(f.Column, 0),
			Instruction: name(f.InstructionPointerReference),
		})
	}
	return frames, total, nil
}

// path returns the path of a source, "" if it has none.
func path(source *godap.Source) string {
	if source == nil || source.SourceReference != 0 && source.Path == "" || len(source.Path) > pathBytes {
		return ""
	}
	return strings.ToValidUTF8(source.Path, "\uFFFD")
}

// topFrame is the adapter's id of the top frame of a thread. It is valid until the program continues.
type topFrame struct{ epoch, thread, id int }

// frame returns the adapter's id of a frame, which may be 0.
func (s *session) frame(ctx context.Context, d Do) (int, error) {
	thread := s.thread(d)
	s.mu.Lock()
	top, epoch := s.top, s.epoch
	s.mu.Unlock()
	if d.Frame == 0 && top.thread == thread && thread != 0 && top.epoch == epoch {
		return top.id, nil
	}
	list, _, err := s.stack(ctx, thread, d.Frame, 1)
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return 0, fault.New(fault.InvalidParams, "The thread has no frame %d.", d.Frame).With("field", "frame_id")
	}
	return list[0].Id, nil
}

// frameArguments are the arguments of requests about a frame; the id 0 is sent too.
type frameArguments struct {
	FrameID int `json:"frameId"`
}

// evaluateArguments are the arguments of an evaluation.
type evaluateArguments struct {
	frameArguments
	Expression string `json:"expression"`
	Context    string `json:"context"`
}

func (s *session) rawScopes(ctx context.Context, d Do) ([]godap.Scope, error) {
	frame, err := s.frame(ctx, d)
	if err != nil {
		return nil, err
	}
	if s.adapter.Globals != nil && (d.Action == Scopes || d.Scope == scopeGlobal) {
		s.globals(ctx, frame, true)
		defer s.globals(ctx, frame, false)
	}
	var body godap.ScopesResponseBody
	if err := s.call(ctx, "scopes", frameArguments{frame}, &body); err != nil {
		return nil, err
	}
	return body.Scopes[:min(len(body.Scopes), s.pool.opts.Items)], nil
}

// globals shows or hides package variables. If the adapter refuses, they stay as they are.
func (s *session) globals(ctx context.Context, frame int, show bool) {
	_ = s.call(ctx, "evaluate", evaluateArguments{frameArguments{frame}, s.adapter.Globals(show), "repl"}, nil)
}

func (s *session) scopes(ctx context.Context, d Do) (Answer, error) {
	list, err := s.rawScopes(ctx, d)
	scopes := []Scope{}
	for _, x := range list {
		scopes = append(scopes, Scope{Name: name(x.Name), Reference: x.VariablesReference, Expensive: x.Expensive})
	}
	return Answer{Scopes: scopes}, err
}

// scopeGlobal is the name of the scope of variables outside of functions.
const scopeGlobal = "global"

// scopeOf returns which of the three scopes of callers a scope is, "" for another one.
func scopeOf(x godap.Scope) string {
	text := strings.ToLower(x.Name)
	switch {
	case x.PresentationHint == "locals", x.PresentationHint == "arguments", strings.HasPrefix(text, "local"),
		strings.HasPrefix(text, "argument"):
		return "local"
	case strings.Contains(text, "closure"), strings.Contains(text, "nonlocal"), strings.HasPrefix(text, "block"):
		return "closure"
	case strings.Contains(text, "global"), strings.Contains(text, "static"):
		return scopeGlobal
	}
	return ""
}

// variables returns the variables of a frame, or the parts of one of them.
func (s *session) variables(ctx context.Context, d Do) (Answer, error) {
	scopes, err := s.rawScopes(ctx, d)
	if err != nil {
		return Answer{}, err
	}
	var list []godap.Variable
	for _, x := range scopes {
		if scopeOf(x) != d.Scope {
			continue
		}
		some, err := s.children(ctx, x.VariablesReference, 0, s.pool.opts.Items)
		if err != nil {
			return Answer{}, err
		}
		list = append(list, some...)
	}
	prefix, total := "", len(list)
	if d.Expand != "" {
		if list, total, err = s.expand(ctx, list, d); err != nil {
			return Answer{}, err
		}
		prefix = d.Expand
	} else {
		list = list[min(d.First, len(list)):]
	}
	variables := []Variable{}
	for _, v := range list {
		v.Name = joined(prefix, v.Name)
		if d.Filter != "" && !strings.Contains(v.Name, d.Filter) {
			continue
		}
		if len(variables) == d.Count {
			break
		}
		variables = append(variables, s.variable(v))
	}
	return Answer{Variables: variables, Total: total}, nil
}

// joined returns the name of a part of a value.
func joined(prefix, part string) string {
	if prefix == "" || strings.HasPrefix(part, "[") {
		return prefix + part
	}
	return prefix + "." + part
}

func (s *session) variable(v godap.Variable) Variable {
	return Variable{
		Name: name(v.Name), Value: s.cut(v.Value), Type: name(v.Type), Reference: max(v.VariablesReference, 0),
		Memory: name(v.MemoryReference),
	}
}

// children returns at most count parts of a value, from the number first.
func (s *session) children(ctx context.Context, reference, first, count int) ([]godap.Variable, error) {
	if reference <= 0 {
		return nil, nil
	}
	var body godap.VariablesResponseBody
	arguments := &godap.VariablesArguments{VariablesReference: reference}
	if first > 0 {
		arguments.Start, arguments.Count, arguments.Filter = first, count, "indexed"
	}
	if err := s.call(ctx, "variables", arguments, &body); err != nil {
		return nil, err
	}
	return body.Variables[:min(len(body.Variables), s.pool.opts.Items)], nil
}

// expand returns the parts of the value that d.Expand names, such as user.address or list[3], and their number.
func (s *session) expand(ctx context.Context, list []godap.Variable, d Do) ([]godap.Variable, int, error) {
	prefix := ""
	for range maxDepth {
		i := slices.IndexFunc(list, func(v godap.Variable) bool { return joined(prefix, v.Name) == d.Expand })
		if i >= 0 {
			v := list[i]
			parts, err := s.children(ctx, v.VariablesReference, d.First, d.Count)
			return parts, max(v.NamedVariables+v.IndexedVariables, d.First+len(parts)), err
		}
		i = slices.IndexFunc(list, func(v godap.Variable) bool { return leads(joined(prefix, v.Name), d.Expand) })
		if i < 0 {
			break
		}
		prefix = joined(prefix, list[i].Name)
		parts, err := s.children(ctx, list[i].VariablesReference, 0, s.pool.opts.Items)
		if err != nil {
			return nil, 0, err
		}
		list = parts
	}
	return nil, 0, fault.New(fault.InvalidParams, "There is no variable %.200q; variables without expand shows the names.",
		d.Expand).With("field", "expand")
}

// maxDepth is the maximum number of parts in an expanded name.
const maxDepth = 32

// leads reports whether a longer name starts with a value's name.
func leads(prefix, whole string) bool {
	rest, ok := strings.CutPrefix(whole, prefix)
	return ok && prefix != "" && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// evaluate evaluates an expression in a frame.
func (s *session) evaluate(ctx context.Context, d Do) (Answer, error) {
	calls, text := s.adapter.Calls, strings.TrimSpace(d.Expression)
	if calls != "" && d.Context != "repl" && strings.HasPrefix(text, calls) {
		return Answer{}, fault.New(fault.InvalidParams, "The expression calls a function, which the context repl is for.").
			With("field", "context")
	}
	frame, err := s.frame(ctx, d)
	if err != nil {
		return Answer{}, err
	}
	var body godap.EvaluateResponseBody
	arguments := evaluateArguments{frameArguments{frame}, d.Expression, d.Context}
	if err := s.call(ctx, "evaluate", arguments, &body); err != nil {
		return Answer{}, err
	}
	v := s.variable(godap.Variable{
		Value: body.Result, Type: body.Type, VariablesReference: body.VariablesReference,
		MemoryReference: body.MemoryReference,
	})
	return Answer{Result: &v}, nil
}

// dataInfo returns the ways in which a variable can be watched.
func (s *session) dataInfo(ctx context.Context, d Do) (Answer, error) {
	if !s.caps.SupportsDataBreakpoints {
		return Answer{}, s.unable("data breakpoints")
	}
	arguments := map[string]any{"name": d.Name}
	if d.VariablesReference != 0 {
		arguments["variablesReference"] = d.VariablesReference
	} else {
		frame, err := s.frame(ctx, d)
		if err != nil {
			return Answer{}, err
		}
		arguments["frameId"] = frame
	}
	var body godap.DataBreakpointInfoResponseBody
	if err := s.call(ctx, "dataBreakpointInfo", arguments, &body); err != nil {
		return Answer{}, err
	}
	info := &DataInfo{Description: s.cut(body.Description)}
	if body.DataId != nil {
		info.DataID = name(fmt.Sprint(body.DataId))
	}
	for _, t := range body.AccessTypes[:min(len(body.AccessTypes), 8)] {
		info.AccessTypes = append(info.AccessTypes, name(string(t)))
	}
	return Answer{Info: info}, nil
}

func (s *session) disassemble(ctx context.Context, d Do) (Answer, error) {
	if !s.caps.SupportsDisassembleRequest {
		return Answer{}, s.unable("disassembly")
	}
	var body godap.DisassembleResponseBody
	err := s.call(ctx, "disassemble", &godap.DisassembleArguments{
		MemoryReference: d.Memory, Offset: d.Offset, InstructionOffset: d.InstructionOffset,
		InstructionCount: min(d.Count, s.pool.opts.Items), ResolveSymbols: d.ResolveSymbols,
	}, &body)
	code := []Instruction{}
	for _, i := range body.Instructions[:min(len(body.Instructions), s.pool.opts.Items)] {
		code = append(code, Instruction{
			Address: name(i.Address), Text: name(i.Instruction), Symbol: name(i.Symbol), Path: path(i.Location),
			Line: max(i.Line, 0),
		})
	}
	return Answer{Code: code}, err
}

// memory reads or writes memory.
func (s *session) memory(ctx context.Context, d Do) (Answer, error) {
	if d.Action == WriteMemory {
		if !s.caps.SupportsWriteMemoryRequest {
			return Answer{}, s.unable("writing memory")
		}
		var body godap.WriteMemoryResponseBody
		err := s.call(ctx, "writeMemory", &godap.WriteMemoryArguments{
			MemoryReference: d.Memory, Offset: d.Offset, AllowPartial: d.AllowPartial, Data: d.Data,
		}, &body)
		return Answer{Memory: &Memory{Wrote: body.BytesWritten}}, err
	}
	if !s.caps.SupportsReadMemoryRequest {
		return Answer{}, s.unable("reading memory")
	}
	var body godap.ReadMemoryResponseBody
	err := s.call(ctx, "readMemory", &godap.ReadMemoryArguments{
		MemoryReference: d.Memory, Offset: d.Offset, Count: d.Count,
	}, &body)
	if err == nil && len(body.Data) > 2*d.Count+8 {
		return Answer{}, fault.New(fault.DapRequestFailed, "The debug adapter answers with more memory than was asked for.")
	}
	return Answer{Memory: &Memory{Address: name(body.Address), Data: body.Data, Unreadable: body.UnreadableBytes}}, err
}

// parts lists modules or sources.
func (s *session) parts(ctx context.Context, d Do) (Answer, error) {
	if d.Action == LoadedSources {
		if !s.caps.SupportsLoadedSourcesRequest {
			return Answer{}, s.unable("lists of sources")
		}
		var body godap.LoadedSourcesResponseBody
		err := s.call(ctx, "loadedSources", nil, &body)
		sources := []string{}
		for _, source := range body.Sources {
			if p := path(&source); p != "" && len(sources) < s.pool.opts.Items {
				sources = append(sources, p)
			}
		}
		return Answer{Sources: sources, Total: len(body.Sources)}, err
	}
	if !s.caps.SupportsModulesRequest {
		return Answer{}, s.unable("lists of modules")
	}
	var body godap.ModulesResponseBody
	err := s.call(ctx, "modules", &godap.ModulesArguments{StartModule: d.First, ModuleCount: d.Count}, &body)
	modules := []Module{}
	for _, m := range body.Modules[:min(len(body.Modules), d.Count, s.pool.opts.Items)] {
		modules = append(modules, Module{
			ID: name(fmt.Sprint(m.Id)), Name: name(m.Name), Path: name(m.Path), Version: name(m.Version),
		})
	}
	return Answer{Modules: modules, Total: max(body.TotalModules, len(modules))}, err
}
