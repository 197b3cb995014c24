package tools

import (
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/services/tool-runner/internal/core/debugging"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

type debugResult struct {
	DebugSessionID string         `json:"debug_session_id,omitempty"`
	Status         string         `json:"status,omitempty" enum:"running,stopped,exited"`
	StoppedReason  string         `json:"stopped_reason,omitempty"`
	Text           string         `json:"text,omitempty"`
	ExitCode       *int           `json:"exit_code,omitempty"`
	ThreadID       int            `json:"thread_id,omitempty"`
	Location       *debugFrame    `json:"location,omitempty"`
	Output         *debugOutput   `json:"output,omitempty" doc:"What the program wrote since the last state."`
	Threads        *[]debugThread `json:"threads,omitempty"`

	BreakpointID *int               `json:"breakpoint_id,omitempty"`
	Verified     *bool              `json:"verified,omitempty"`
	ActualLine   *int               `json:"actual_line,omitempty"`
	Path         string             `json:"path,omitempty"`
	Message      string             `json:"message,omitempty"`
	Breakpoints  *[]debugBreakpoint `json:"breakpoints,omitempty"`

	Frames      *[]debugFrame    `json:"frames,omitempty"`
	TotalFrames *int             `json:"total_frames,omitempty"`
	Scopes      *[]debugScope    `json:"scopes,omitempty"`
	Variables   *[]debugVariable `json:"variables,omitempty"`
	Total       *int             `json:"total,omitempty"`

	Result             *string `json:"result,omitempty"`
	Type               *string `json:"type,omitempty"`
	VariablesReference int     `json:"variables_reference,omitempty"`
	MemoryReference    string  `json:"memory_reference,omitempty"`

	DataID       *string             `json:"data_id,omitempty"`
	Description  string              `json:"description,omitempty"`
	AccessTypes  []string            `json:"access_types,omitempty"`
	Instructions *[]debugInstruction `json:"instructions,omitempty"`

	Address         string         `json:"address,omitempty"`
	Data            *string        `json:"data,omitempty"`
	UnreadableBytes int            `json:"unreadable_bytes,omitempty"`
	BytesWritten    *int           `json:"bytes_written,omitempty"`
	Modules         *[]debugModule `json:"modules,omitempty"`
	Sources         *[]string      `json:"sources,omitempty"`
	JSON            string         `json:"json,omitempty" doc:"The answer to custom_request, as JSON text."`

	Disconnected       *bool `json:"disconnected,omitempty"`
	DebuggeeTerminated *bool `json:"debuggee_terminated,omitempty"`

	MovedBy []debugMove `json:"moved_by,omitempty" doc:"How people moved the program since the last answer."`
}

type debugMove struct {
	Action string `json:"action"`
	By     string `json:"by"`
}

type debugFrame struct {
	ID                   *int    `json:"id,omitempty"`
	Name                 string  `json:"name"`
	Path                 string  `json:"path"`
	Line                 int     `json:"line"`
	Column               int     `json:"column"`
	SourcePreview        *string `json:"source_preview,omitempty"`
	InstructionReference string  `json:"instruction_reference,omitempty"`
}

type debugOutput struct {
	Text    string `json:"text"`
	From    int64  `json:"from"`
	Next    int64  `json:"next"`
	Omitted int64  `json:"omitted,omitempty" doc:"Bytes before text that are not shown."`
}

type debugThread struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

type debugBreakpoint struct {
	ID         int     `json:"id"`
	Path       string  `json:"path,omitempty"`
	Line       int     `json:"line,omitempty"`
	Function   string  `json:"function,omitempty"`
	Reference  string  `json:"reference,omitempty"`
	Condition  *string `json:"condition"`
	HitCount   int     `json:"hit_count,omitempty"`
	LogMessage string  `json:"log_message,omitempty"`
	Verified   bool    `json:"verified"`
	Message    string  `json:"message,omitempty"`
}

type debugScope struct {
	Name               string `json:"name"`
	VariablesReference int    `json:"variables_reference"`
	Expensive          bool   `json:"expensive"`
}

type debugVariable struct {
	Name               string `json:"name"`
	Value              string `json:"value"`
	Type               string `json:"type"`
	Expandable         bool   `json:"expandable,omitempty"`
	VariablesReference int    `json:"variables_reference,omitempty"`
	MemoryReference    string `json:"memory_reference,omitempty"`
}

type debugInstruction struct {
	Address     string `json:"address"`
	Instruction string `json:"instruction"`
	Symbol      string `json:"symbol,omitempty"`
	Path        string `json:"path,omitempty"`
	Line        int    `json:"line,omitempty"`
}

type debugModule struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"`
}

// debugThreads is the maximum number of threads in a state; the action threads shows all.
const debugThreads = 20

// debugView shows files of an answer to a caller, according to its rights.
type debugView struct{ lspView }

func (v *debugView) path(abs string) string {
	if abs == "" {
		return ""
	}
	return v.file(abs, false).show
}

// frame returns a frame, with its source line if the caller may read the file.
func (v *debugView) frame(f contract.DebugFrame, preview bool) debugFrame {
	out := debugFrame{Name: f.Name, Line: f.Line, Column: f.Column, InstructionReference: f.Instruction}
	if f.Path == "" {
		return out
	}
	file := v.file(f.Path, preview)
	out.Path = file.show
	if preview && f.Line >= 1 && f.Line <= len(file.lines) {
		line, _ := clip.Runes(strings.TrimSpace(file.lines[f.Line-1]), lspPreviewRunes)
		out.SourcePreview = &line
	}
	return out
}

func debugThreadsOf(list []contract.DebugThread, most int) *[]debugThread {
	out := []debugThread{}
	for _, t := range list[:min(len(list), most)] {
		out = append(out, debugThread{t.ID, t.Name})
	}
	return &out
}

// state shows the state of the program.
func (r *debugResult) state(v *debugView, s *contract.DebugState) {
	r.Status, r.StoppedReason, r.Text, r.ExitCode, r.ThreadID = s.Status, s.Reason, s.Text, s.ExitCode, s.Thread
	if s.Location != nil {
		at := v.frame(*s.Location, true)
		r.Location = &at
	}
	if s.BreakpointID != 0 {
		r.BreakpointID = &s.BreakpointID
	}
	if s.Status != "exited" {
		if len(s.Threads) > 0 {
			r.Threads = debugThreadsOf(s.Threads, debugThreads)
		}
	}
	if o := s.Output; o.Text != "" || o.Omitted > 0 {
		r.Output = &debugOutput{o.Text, o.From, o.Next, o.Omitted}
	}
}

// debugAnswer returns an answer in the form for the model.
func debugAnswer(call *tool.Call, p *debugParams, a debugging.Answer) debugResult {
	v := &debugView{lspView{call, map[string]*lspFile{}}}
	var r debugResult
	for _, m := range a.Moves {
		r.MovedBy = append(r.MovedBy, debugMove{m.Action, m.Operator})
	}
	if a.State != nil {
		if p.Action == "launch" || p.Action == "attach" {
			r.DebugSessionID = a.Session
		}
		r.state(v, a.State)
		return r
	}
	switch p.Action {
	case "set_breakpoint", "remove_breakpoint", "set_instruction_breakpoint", "remove_instruction_breakpoint",
		"set_data_breakpoint", "remove_data_breakpoint", "list_breakpoints":
		r.breakpoints(v, a)
	case "stack_trace":
		frames := []debugFrame{}
		for _, f := range a.Frames {
			frame := v.frame(f, false)
			frame.ID = &f.ID
			frames = append(frames, frame)
		}
		r.Frames, r.TotalFrames = &frames, &a.Total
	case "threads":
		r.Threads = debugThreadsOf(a.Threads, len(a.Threads))
	case "disconnect":
		yes := true
		r.Disconnected, r.DebuggeeTerminated = &yes, &a.Terminated
	case "modules":
		list := []debugModule{}
		for _, m := range a.Modules {
			list = append(list, debugModule(m))
		}
		r.Modules, r.Total = &list, &a.Total
	case "loaded_sources":
		list := []string{}
		for _, s := range a.Sources[min(int(p.Start), len(a.Sources)):] {
			if len(list) < int(p.Count) {
				list = append(list, v.path(s))
			}
		}
		r.Sources, r.Total = &list, &a.Total
	case "custom_request":
		r.JSON = a.JSON
	default:
		r.values(v, p, a)
	}
	return r
}

func (r *debugResult) breakpoints(v *debugView, a debugging.Answer) {
	if b := a.Breakpoint; b != nil {
		r.BreakpointID, r.Verified, r.Path, r.Message = &b.ID, &b.Verified, v.path(b.Path), b.Message
		if b.Actual != 0 {
			r.ActualLine = &b.Actual
		}
		return
	}
	list := []debugBreakpoint{}
	for _, b := range a.Breakpoints {
		shown := debugBreakpoint{
			ID: b.ID, Path: v.path(b.Path), Line: b.Line, Function: b.Function, Reference: b.Reference, HitCount: b.HitCount,
			LogMessage: b.LogMessage, Verified: b.Verified, Message: b.Message,
		}
		if b.Condition != "" {
			shown.Condition = &b.Condition
		}
		list = append(list, shown)
	}
	r.Breakpoints = &list
}

// values shows values, code and memory.
func (r *debugResult) values(v *debugView, p *debugParams, a debugging.Answer) {
	switch p.Action {
	case "scopes":
		list := []debugScope{}
		for _, s := range a.Scopes {
			list = append(list, debugScope{s.Name, s.Reference, s.Expensive})
		}
		r.Scopes = &list
	case "variables":
		list := []debugVariable{}
		for _, x := range a.Variables {
			list = append(list, debugVariable{x.Name, x.Value, x.Type, x.Reference != 0, x.Reference, x.Memory})
		}
		r.Variables, r.Total = &list, &a.Total
	case "evaluate":
		r.Result, r.Type = &a.Result.Value, &a.Result.Type
		r.VariablesReference, r.MemoryReference = a.Result.Reference, a.Result.Memory
	case "data_breakpoint_info":
		r.DataID, r.Description, r.AccessTypes = &a.Info.DataID, a.Info.Description, a.Info.AccessTypes
	case "disassemble":
		list := []debugInstruction{}
		for _, i := range a.Code {
			list = append(list, debugInstruction{i.Address, i.Text, i.Symbol, v.path(i.Path), i.Line})
		}
		r.Instructions = &list
	case "read_memory":
		r.Address, r.Data, r.UnreadableBytes = a.Memory.Address, &a.Memory.Data, a.Memory.Unreadable
	case "write_memory":
		r.BytesWritten = &a.Memory.Wrote
	}
}
