package core

import (
	"cmp"
	"maps"
	"slices"
)

// Declared is a debug adapter that the operator or a project declares.
type Declared struct {
	Runtime string
	// Command is the command line. Announces is the text that the adapter prints before the address it listens at, "" for
	// an adapter that uses its standard files.
	Command   []string
	Announces string
	// Type is the value of the argument type for the adapter, "" for the runtime's name.
	Type string
	// Traces is true if the adapter traces processes, nil if unknown.
	Traces *bool
	// Launch and Attach are further arguments of the requests.
	Launch, Attach map[string]any
	// By is the path of the declaration, as people read it.
	By string
}

// With returns a catalogue in which d is the adapter of its runtime. If the runtime has a built-in adapter, d replaces
// its command line and keeps its other properties.
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

// arguments returns the arguments that most adapters use, and the declared ones.
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

// further adds the declared arguments, which take precedence.
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

// catalogue returns the project's adapters and then the adapters of the pool.
func (p *Pool) catalogue(s *Start) []*Adapter {
	list := p.opts.Adapters
	for _, d := range slices.Backward(s.Adapters) {
		list = d.With(list)
	}
	return list
}
