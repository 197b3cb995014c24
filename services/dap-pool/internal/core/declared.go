package core

import (
	"cmp"
	"maps"
	"slices"
)

// Declared is a debug adapter that the operator or a project declares.
type Declared struct {
	Runtime string
	// Command is the command line. Announces is the text that the adapter prints before the address it listens at,
	// "" for one that speaks over its standard files.
	Command   []string
	Announces string
	// Type is the type that the adapter wants to be told, "" for the runtime's name.
	Type string
	// Traces says whether the adapter traces processes, nil for unknown.
	Traces *bool
	// Launch and Attach are further arguments of the requests.
	Launch, Attach map[string]any
	// By is the place of the declaration, as people call it.
	By string
}

// With returns a catalogue in which d is the adapter of its runtime. Where kaged knows the runtime's adapter, d
// replaces its command line and keeps the knowledge of it.
func (d Declared) With(list []*Adapter) []*Adapter {
	a := Adapter{Arguments: d.arguments, Counts: ">= ", Traces: []Request{Launch, Attach}}
	before := find(list, d.Runtime)
	if before != nil && before.Inspector == nil {
		a = *before
		known := a.Arguments
		a.Arguments = func(s *Start) map[string]any { return d.further(s, known(s)) }
		a.Outdated = ""
	} else if before != nil {
		a.Traces = nil
	}
	a.Runtimes, a.Commands, a.Listens = []string{d.Runtime}, [][]string{d.Command}, d.Announces
	a.Program, a.Install, a.By = d.Command[0], "", d.By
	if d.Traces != nil {
		a.Traces = nil
		if *d.Traces {
			a.Traces = []Request{Launch, Attach}
		}
	}
	return append([]*Adapter{&a}, list...)
}

// arguments are those that adapters agree on, and those that were declared.
func (d Declared) arguments(s *Start) map[string]any {
	arguments := map[string]any{
		"name": "kaged", "type": cmp.Or(d.Type, d.Runtime), "request": string(s.Request), "cwd": s.Dir,
	}
	switch {
	case s.Request == Launch:
		arguments["program"], arguments["args"], arguments["env"] = s.Program, s.Args, s.Env
		arguments["stopOnEntry"], arguments["console"] = s.StopOnEntry, "internalConsole"
	case s.Port != 0:
		arguments["port"], arguments["host"] = s.Port, "127.0.0.1"
	default:
		arguments["processId"], arguments["pid"] = s.ProcessID, s.ProcessID
	}
	return d.further(s, arguments)
}

// further adds the arguments that were declared, which win.
func (d Declared) further(s *Start, arguments map[string]any) map[string]any {
	arguments = maps.Clone(arguments)
	if d.Type != "" {
		arguments["type"] = d.Type
	}
	more := d.Launch
	if s.Request == Attach {
		more = d.Attach
	}
	maps.Copy(arguments, more)
	return arguments
}

// catalogue returns the adapters of the pool with those that a project declares, which come first.
func (p *Pool) catalogue(s *Start) []*Adapter {
	list := p.opts.Adapters
	for _, d := range slices.Backward(s.Adapters) {
		list = d.With(list)
	}
	return list
}
