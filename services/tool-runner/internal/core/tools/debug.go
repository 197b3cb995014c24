package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/sandbox/env"
	"kaged.dev/pkg/toolcall"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/debugging"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed debug.md
var debugText string

type debugParams struct {
	Action        string            `json:"action" enum:"launch,attach,set_breakpoint,remove_breakpoint,list_breakpoints,set_instruction_breakpoint,remove_instruction_breakpoint,data_breakpoint_info,set_data_breakpoint,remove_data_breakpoint,step_into,step_over,step_out,continue,pause,stack_trace,threads,scopes,variables,evaluate,disassemble,read_memory,write_memory,modules,loaded_sources,custom_request,disconnect" doc:"What to do."`
	Runtime       string            `json:"runtime,omitempty" doc:"go, python, c, cpp, rust, node, bun, or another."`
	Script        string            `json:"script,omitempty" doc:"Program to launch."`
	Configuration string            `json:"configuration,omitempty" doc:"Instead: an entry of .vscode/launch.json."`
	Mode          string            `json:"mode,omitempty" enum:"debug,test,exec" doc:"For go. Default: debug."`
	Args          []string          `json:"args,omitempty" doc:"Its arguments."`
	Env           map[string]string `json:"env,omitempty" doc:"Additional variables, at most 64."`
	Cwd           string            `json:"cwd,omitempty" doc:"Default: the project root, or the tested package."`
	StopOnEntry   bool              `json:"stop_on_entry,omitempty" default:"true" doc:"Stop before its first line."`
	Port          *schema.Int       `json:"port,omitempty" min:"1" max:"65535" doc:"Port where a program waits."`
	ProcessID     *schema.Int       `json:"process_id,omitempty" min:"1" doc:"Process to attach to (go, c, cpp, rust)."`
	Timeout       *schema.Int       `json:"timeout,omitempty" doc:"Milliseconds to wait for a stop. Default: 30000."`

	Path       string     `json:"path,omitempty" doc:"File of a breakpoint."`
	Line       schema.Int `json:"line,omitempty" min:"1" doc:"Its line, from 1."`
	Function   string     `json:"function,omitempty" doc:"Instead: function to stop in, such as main.run."`
	Exceptions *[]string  `json:"exceptions,omitempty" doc:"Instead: the adapter's names of exceptions."`
	Condition  string     `json:"condition,omitempty" doc:"Stop only where this is true."`
	HitCount   schema.Int `json:"hit_count,omitempty" min:"1" doc:"Stop from this pass on."`
	LogMessage string     `json:"log_message,omitempty" doc:"Print this instead of stopping; {expressions} are evaluated."`

	ThreadID   schema.Int `json:"thread_id,omitempty" doc:"Default: the thread that stopped."`
	Levels     schema.Int `json:"levels,omitempty" default:"20" min:"1" max:"1000" doc:"How many frames."`
	FrameID    schema.Int `json:"frame_id,omitempty" min:"0" doc:"Frame of stack_trace. Default: 0, the top."`
	Scope      string     `json:"scope,omitempty" enum:"local,closure,global" default:"local" doc:"Which variables."`
	Filter     string     `json:"filter,omitempty" doc:"Only names with this in them."`
	Expand     string     `json:"expand,omitempty" doc:"Variable whose parts to show, such as user.name or list[2]."`
	Start      schema.Int `json:"start,omitempty" min:"0" doc:"First entry of a list, from 0."`
	Count      schema.Int `json:"count,omitempty" default:"100" min:"1" max:"1000" doc:"How many."`
	Expression string     `json:"expression,omitempty" doc:"Expression of the program's language."`
	Context    string     `json:"context,omitempty" enum:"watch,repl" default:"watch" doc:"repl may change the program."`

	InstructionReference string     `json:"instruction_reference,omitempty" doc:"Of a frame."`
	Name                 string     `json:"name,omitempty" doc:"Variable to watch."`
	VariableRef          schema.Int `json:"variable_ref,omitempty" doc:"variables_reference that it is a part of."`
	DataID               string     `json:"data_id,omitempty" doc:"Of data_breakpoint_info."`
	AccessType           string     `json:"access_type,omitempty" enum:"read,write,readWrite" doc:"Default: the adapter's."`
	MemoryReference      string     `json:"memory_reference,omitempty" doc:"Of a variable, or an address."`
	Offset               schema.Int `json:"offset,omitempty" doc:"Bytes from there."`
	InstructionOffset    schema.Int `json:"instruction_offset,omitempty" doc:"Instructions from there."`
	ResolveSymbols       bool       `json:"resolve_symbols,omitempty" doc:"Name symbols."`
	Data                 string     `json:"data,omitempty" doc:"Bytes to write, in base64."`
	AllowPartial         bool       `json:"allow_partial,omitempty" doc:"Writing a part is enough."`
	Command              string     `json:"command,omitempty" doc:"Name of the request."`
	Arguments            string     `json:"arguments,omitempty" doc:"Its arguments as JSON text."`
	TerminateDebuggee    bool       `json:"terminate_debuggee,omitempty" default:"true" doc:"End a program that was attached to."`
	DebugSessionID       string     `json:"debug_session_id,omitempty" doc:"Default: the only one."`
}

// DebugLimits are the limits of debug.
type DebugLimits struct {
	// DefaultTimeout and MaxTimeout are the times to wait for a stop.
	DefaultTimeout, MaxTimeout time.Duration
}

// debugLooks are the actions that change neither the program nor its breakpoints.
var debugLooks = []string{
	"list_breakpoints", "data_breakpoint_info", "stack_trace", "threads", "scopes", "variables", "disassemble",
	"read_memory", "modules", "loaded_sources",
}

// debugRuns are the actions that continue the program, or stop it.
var debugRuns = []string{"step_into", "step_over", "step_out", "continue", "pause"}

// debugAdmin are the actions that need an operator's approval.
var debugAdmin = []string{"write_memory", "custom_request"}

func debug(d Deps) *tool.Entry {
	limits := d.Limits.Debug
	return tool.Define(tool.Spec[debugParams, debugResult]{
		Name: "debug", Description: debugText, Category: tool.Write, OwnTimeout: true,
		ReadWhen: toolcall.When{{{Parameter: "action", Values: debugLooks}}},
		WaitWhen: toolcall.When{{{Parameter: "action", Values: debugRuns}}},
		Requires: []tool.Requirement{tool.Can("exec"), tool.ReadPath("path", tool.CallerPath)},
		Needs:    debugNeeds,
		Commands: func(p *debugParams) []tool.Command {
			if p.Action != "launch" || p.Configuration != "" {
				return nil
			}
			return []tool.Command{{Argv: append([]string{p.Script}, p.Args...), Env: p.Env}}
		},
		Named: func(call *tool.Call, p *debugParams) []tool.Command { return p.launched(call) },
		Effect: func(p *debugParams) tool.Effect {
			switch {
			case slices.Contains(debugLooks, p.Action):
				return tool.Effect{Category: tool.Read}
			case slices.Contains(debugAdmin, p.Action):
				return tool.Effect{Category: tool.Admin}
			}
			return tool.Effect{Category: tool.Write}
		},
		Limits: []tool.Limit{
			tool.InTime("debug_timeout", limits.DefaultTimeout, "that a stop is waited for if the caller does not say"),
			tool.InTime("debug_max_timeout", limits.MaxTimeout, "that a caller can ask for at most"),
			tool.InNumber("shell_env_entries", d.Limits.Shell.EnvEntries, "variables of a call"),
		},
		Run: d.runDebug,
	})
}

// debugNeeds returns the requirements of one call. Every given path is checked against the cage, even a path that the
// action does not use.
func debugNeeds(p *debugParams) []tool.Requirement {
	needs := []tool.Requirement{tool.Can("exec")}
	if p.Script != "" {
		needs = append(needs, tool.ReadPath("script", p.Script))
	}
	if p.Cwd != "" {
		needs = append(needs, tool.SearchPath("cwd", p.Cwd))
	}
	if p.Path != "" {
		needs = append(needs, tool.ReadPath("path", p.Path))
	}
	return needs
}

// debugPath returns the resolved path of a parameter, and false for a missing parameter.
func debugPath(call *tool.Call, field string) (paths.Path, bool) {
	i := 0
	for _, need := range call.Needs {
		if need.Kind != tool.FS {
			continue
		}
		if need.Field == field {
			return call.Paths[i], true
		}
		i++
	}
	return paths.Path{}, false
}

// missing returns the error of a call that lacks a required parameter.
func (p *debugParams) missing() error {
	need := map[string]map[string]bool{
		"launch":                        {"runtime": p.Runtime != "", "script": p.Script != ""},
		"attach":                        {"runtime": p.Runtime != "", "port": p.Port != nil || p.ProcessID != nil},
		"set_instruction_breakpoint":    {"instruction_reference": p.InstructionReference != ""},
		"remove_instruction_breakpoint": {"instruction_reference": p.InstructionReference != ""},
		"data_breakpoint_info":          {"name": p.Name != ""},
		"set_data_breakpoint":           {"data_id": p.DataID != ""},
		"remove_data_breakpoint":        {"data_id": p.DataID != ""},
		"evaluate":                      {"expression": p.Expression != ""},
		"disassemble":                   {"memory_reference": p.MemoryReference != ""},
		"read_memory":                   {"memory_reference": p.MemoryReference != ""},
		"write_memory":                  {"memory_reference": p.MemoryReference != "", "data": p.Data != ""},
		"custom_request":                {"command": p.Command != ""},
	}[p.Action]
	if p.Configuration != "" && (p.Action == "launch" || p.Action == "attach") {
		need = nil
	}
	if p.Action == "set_breakpoint" || p.Action == "remove_breakpoint" {
		elsewhere := p.Function != "" || p.Exceptions != nil && p.Action == "set_breakpoint"
		need = map[string]bool{"path": elsewhere || p.Path != "", "line": elsewhere || p.Line != 0}
	}
	for _, field := range []string{
		"runtime", "script", "port", "path", "line", "instruction_reference", "name", "data_id", "expression",
		"memory_reference", "data", "command",
	} {
		if given, required := need[field]; required && !given {
			return fault.New(fault.InvalidParams, "%s is required for the action %s.", field, p.Action).With("field", field)
		}
	}
	if p.Arguments != "" && !json.Valid([]byte(p.Arguments)) {
		return fault.New(fault.InvalidParams, "arguments is no JSON text.").With("field", "arguments")
	}
	return nil
}

// runDebug executes an action.
func (d Deps) runDebug(ctx context.Context, call *tool.Call, p *debugParams) (debugResult, error) {
	if err := p.missing(); err != nil {
		return debugResult{}, err
	}
	var a debugging.Answer
	var err error
	if p.Action == "launch" || p.Action == "attach" {
		var s debugging.Start
		if s, err = d.debugStart(call, p); err != nil {
			return debugResult{}, err
		}
		a, err = d.Debuggers.Start(ctx, s)
	} else {
		a, err = d.Debuggers.Act(ctx, d.debugDo(call, p))
	}
	for _, r := range a.Records {
		call.Records = append(call.Records, call.From.Record(r.Type, r.Payload))
	}
	if err != nil {
		return debugResult{}, debugFailure(ctx, err)
	}
	return debugAnswer(call, p, a), nil
}

// debugFailure returns the error of the call for a failed action.
func debugFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	f := fault.From(err)
	switch f.Code {
	case fault.Internal, fault.BadRequest:
		return tool.Infrastructure(err)
	case fault.Unavailable:
		return fault.Wrap(err, fault.DapSessionEnded, "The debug adapters cannot be reached; debug sessions have ended.")
	}
	return f
}

func debugAgent(call *tool.Call) debugging.Agent {
	return debugging.Agent{Owner: call.Owner(), Invocation: call.From.InvocationID}
}

// debugStart returns the session that a call starts.
func (d Deps) debugStart(call *tool.Call, p *debugParams) (debugging.Start, error) {
	environment := env.Build
	s := debugging.Start{
		Agent: debugAgent(call), Root: call.Space.Root(), Runtime: p.Runtime, Mode: p.Mode, Attach: p.Action == "attach",
		Args: p.Args, Dir: call.Space.Root(), StopOnEntry: p.StopOnEntry, Timeout: d.debugTimeout(p),
		Adapters: call.From.Debugging.Adapters,
	}
	if call.From.Cage != nil && !d.NoSandbox {
		environment = env.Caged
		s.Cage, s.CageID = call.From.Cage, call.From.CageID
	}
	variables := p.Env
	if p.Configuration != "" {
		var err error
		if variables, err = p.configure(call, &s); err != nil {
			return s, err
		}
	}
	if err := env.Check("env", variables, d.Limits.Shell.EnvEntries); err != nil {
		return s, err
	}
	s.Env = environment(d.LookupEnv, variables)
	switch {
	case p.Configuration != "":
		return s, p.workIn(call, &s)
	case s.Attach:
		return s, p.target(&s)
	}
	program, _ := debugPath(call, "script")
	if !program.Exists {
		return s, notThere(program)
	}
	s.Program, s.Folder = program.Abs(), program.Mode.IsDir()
	if p.Mode == "test" {
		s.Dir = s.Program
		if !s.Folder {
			s.Dir = filepath.Dir(s.Program)
		}
	}
	return s, p.workIn(call, &s)
}

// workIn sets the working folder that a call names.
func (p *debugParams) workIn(call *tool.Call, s *debugging.Start) error {
	cwd, ok := debugPath(call, "cwd")
	if !ok {
		return nil
	}
	if !cwd.Exists || !cwd.Mode.IsDir() {
		return fault.New(fault.InvalidParams, "The working folder %s is not a folder.", cwd.Show).With("field", "cwd")
	}
	s.Dir = cwd.Abs()
	return nil
}

// attachedBy has, by runtime, the parameter that names the program to attach to. For other runtimes both parameters are
// valid.
var attachedBy = map[string]string{
	"python": "port", "node": "port", "bun": "port", "go": "process_id", "c": "process_id", "cpp": "process_id",
	"rust": "process_id",
}

// target sets the program to attach to.
func (p *debugParams) target(s *debugging.Start) error {
	field, given := attachedBy[p.Runtime], p.ProcessID
	if field == "" && p.Port != nil {
		field = "port"
	}
	if field == "port" {
		given = p.Port
	}
	if given == nil {
		return fault.New(fault.InvalidParams, "A program of the runtime %s is attached to by %s.", p.Runtime, field).
			With("field", field)
	}
	if field == "port" {
		s.Port = int(*given)
	} else {
		s.ProcessID = int(*given)
	}
	return nil
}

func (d Deps) debugTimeout(p *debugParams) time.Duration {
	return clamp(p.Timeout, d.Limits.Debug.DefaultTimeout, 0, d.Limits.Debug.MaxTimeout)
}

// debugDo returns the action of a call.
func (d Deps) debugDo(call *tool.Call, p *debugParams) debugging.Do {
	do := debugging.Do{
		Agent: debugAgent(call), Action: p.Action, Session: p.DebugSessionID, Timeout: d.debugTimeout(p), Line: int(p.Line),
		Function: p.Function, Exceptions: p.Exceptions, Condition: p.Condition, HitCount: int(p.HitCount),
		LogMessage: p.LogMessage, Instruction: p.InstructionReference, Offset: int(p.Offset), DataID: p.DataID,
		AccessType: p.AccessType, Name: p.Name, Reference: int(p.VariableRef), ThreadID: int(p.ThreadID),
		Levels: int(p.Levels), First: int(p.Start), Frame: int(p.FrameID), Scope: p.Scope, Filter: p.Filter, Expand: p.Expand,
		Expression: p.Expression, Context: p.Context, Memory: p.MemoryReference, Count: int(p.Count),
		InstructionOffset: int(p.InstructionOffset), ResolveSymbols: p.ResolveSymbols, Data: p.Data,
		AllowPartial: p.AllowPartial, Command: p.Command, Arguments: p.Arguments, Terminate: p.TerminateDebuggee,
	}
	if path, ok := debugPath(call, "path"); ok {
		do.Path = path.Abs()
	}
	return do
}
