package debug

import (
	"fmt"
	"io"
	"strings"

	"kaged.dev/pkg/termtext"
)

// seen is a view of debug sessions in the API's form.
type seen struct {
	Sessions []session `json:"sessions"`
	Debug    *view     `json:"debug"`
}

type session struct {
	ID           string `json:"debug_session_id"`
	SessionID    string `json:"session_id"`
	RunID        string `json:"run_id"`
	InvocationID string `json:"invocation_id,omitempty"`
	AgentPath    string `json:"agent_path"`
	Runtime      string `json:"runtime"`
	Program      string `json:"program"`
	Status       string `json:"status"`
	PID          int64  `json:"pid"`
	Caged        bool   `json:"caged"`
	StartedAt    int64  `json:"started_at"`
}

type view struct {
	Session        session      `json:"session"`
	State          *state       `json:"state"`
	Moved          *move        `json:"moved"`
	Frames         []frame      `json:"frames"`
	TotalFrames    int          `json:"total_frames"`
	FrameID        int          `json:"frame_id"`
	Variables      []variable   `json:"variables"`
	TotalVariables int          `json:"total_variables"`
	Breakpoints    []breakpoint `json:"breakpoints"`
	Source         []sourceLine `json:"source"`
}

type state struct {
	ID           string   `json:"debug_session_id"`
	Status       string   `json:"status"`
	Reason       string   `json:"stopped_reason,omitempty"`
	Text         string   `json:"text,omitempty"`
	ExitCode     *int     `json:"exit_code,omitempty"`
	ThreadID     int64    `json:"thread_id,omitempty"`
	Threads      []thread `json:"threads"`
	Location     *frame   `json:"location"`
	BreakpointID int      `json:"breakpoint_id,omitempty"`
	Output       *output  `json:"output"`
}

type thread struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

type move struct {
	Action     string `json:"action"`
	OperatorID string `json:"operator_id,omitempty"`
	At         int64  `json:"at"`
}

type output struct {
	Text    string `json:"text"`
	From    int64  `json:"from"`
	Next    int64  `json:"next"`
	Omitted int64  `json:"omitted,omitempty"`
}

type frame struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

type variable struct {
	Name               string `json:"name"`
	Value              string `json:"value"`
	Type               string `json:"type"`
	VariablesReference int64  `json:"variables_reference,omitempty"`
}

type breakpoint struct {
	ID         int    `json:"id"`
	Kind       string `json:"kind"`
	Path       string `json:"path,omitempty"`
	Line       int    `json:"line,omitempty"`
	ActualLine int    `json:"actual_line,omitempty"`
	Function   string `json:"function,omitempty"`
	Condition  string `json:"condition,omitempty"`
	HitCount   int    `json:"hit_count,omitempty"`
	LogMessage string `json:"log_message,omitempty"`
	Verified   bool   `json:"verified"`
	Message    string `json:"message,omitempty"`
	Reference  string `json:"reference,omitempty"`
}

type sourceLine struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

// moved is the answer to a move.
type moved struct {
	State  *state    `json:"state,omitempty"`
	Result *variable `json:"result,omitempty"`
}

// The limits of a page.
const (
	maxFrames    = 20
	maxVariables = 50
	maxOutput    = 20
	// keptOutput is the number of bytes that a screen keeps from the end of the output.
	keptOutput = 8 << 10
)

// line escapes text of a program for one line of a terminal.
func line(text string) string {
	return termtext.Line(strings.ReplaceAll(text, "\t", "    "))
}

// tail adds the output of a view to the output so, and returns the end of both.
func tail(s seen, so string) string {
	if s.Debug == nil || s.Debug.State == nil || s.Debug.State.Output == nil {
		return so
	}
	so += s.Debug.State.Output.Text
	if over := len(so) - keptOutput; over > 0 {
		so = strings.ToValidUTF8(so[over:], "")
	}
	return so
}

// page returns a view as lines, with the last lines of the output.
func page(s seen, written string, outputLines int) []string {
	if s.Debug == nil {
		return []string{"No agent of the session debugs a program."}
	}
	v := s.Debug
	lines := []string{title(v)}
	if more := len(s.Sessions) - 1; more > 0 {
		lines = append(lines, fmt.Sprintf("%d more debug sessions; --debug-session picks one.", more))
	}
	at := 0
	if v.FrameID < len(v.Frames) {
		at = v.Frames[v.FrameID].Line
	}
	for _, l := range v.Source {
		mark := " "
		if l.Line == at {
			mark = ">"
		}
		lines = append(lines, fmt.Sprintf("%s %5d  %s", mark, l.Line, line(l.Text)))
	}
	lines = append(lines, stack(v)...)
	lines = append(lines, variables(v)...)
	if len(v.Breakpoints) > 0 {
		lines = append(lines, "breakpoints")
		for _, b := range v.Breakpoints {
			lines = append(lines, "  "+b.String())
		}
	}
	if written != "" {
		lines = append(lines, "output")
		list := strings.Split(strings.TrimRight(written, "\n"), "\n")
		for _, text := range list[max(0, len(list)-outputLines):] {
			lines = append(lines, "  "+line(text))
		}
	}
	return lines
}

// title returns the program and its state.
func title(v *view) string {
	program := v.Session.Program
	if program == "" {
		program = "attached"
	}
	s := v.Session
	head := fmt.Sprintf("%s %s, %s: %s", line(s.Runtime), line(program), line(s.AgentPath), line(s.Status))
	if st := v.State; st != nil {
		if st.Reason != "" {
			head += " (" + line(st.Reason)
			if st.BreakpointID != 0 {
				head += fmt.Sprintf(" %d", st.BreakpointID)
			}
			head += ")"
		}
		if st.Text != "" {
			head += " " + line(st.Text)
		}
		if st.ExitCode != nil {
			head += fmt.Sprintf(", exit code %d", *st.ExitCode)
		}
	}
	if m := v.Moved; m != nil {
		by := m.OperatorID
		if by == "" {
			by = "the agent"
		}
		head += fmt.Sprintf(", %s by %s", line(m.Action), line(by))
	}
	return head
}

func stack(v *view) (lines []string) {
	if len(v.Frames) == 0 {
		return nil
	}
	lines = append(lines, "stack")
	for _, f := range v.Frames[:min(len(v.Frames), maxFrames)] {
		mark := " "
		if f.ID == v.FrameID {
			mark = ">"
		}
		lines = append(lines, fmt.Sprintf("%s %2d  %s  %s:%d", mark, f.ID, line(f.Name), line(f.Path), f.Line))
	}
	if more := v.TotalFrames - min(len(v.Frames), maxFrames); more > 0 {
		lines = append(lines, fmt.Sprintf("      %d more", more))
	}
	return lines
}

func variables(v *view) (lines []string) {
	if len(v.Variables) == 0 {
		return nil
	}
	lines = append(lines, "variables")
	for _, x := range v.Variables[:min(len(v.Variables), maxVariables)] {
		lines = append(lines, "  "+value(x))
	}
	if more := v.TotalVariables - min(len(v.Variables), maxVariables); more > 0 {
		lines = append(lines, fmt.Sprintf("      %d more", more))
	}
	return lines
}

func value(x variable) string {
	text := line(x.Value)
	if x.Type != "" {
		text = line(x.Type) + " " + text
	}
	if x.Name != "" {
		text = line(x.Name) + " = " + text
	}
	return text
}

// String returns the breakpoint as one line.
func (b breakpoint) String() string {
	at := line(b.Function)
	switch {
	case b.Path != "":
		n := b.ActualLine
		if n == 0 {
			n = b.Line
		}
		at = fmt.Sprintf("%s:%d", line(b.Path), n)
	case at == "":
		at = line(b.Reference)
	}
	text := fmt.Sprintf("%d  %s", b.ID, at)
	if b.Condition != "" {
		text += " if " + line(b.Condition)
	}
	if b.HitCount > 0 {
		text += fmt.Sprintf(" from pass %d on", b.HitCount)
	}
	if b.LogMessage != "" {
		text += " logs " + line(b.LogMessage)
	}
	if !b.Verified {
		text += " (not verified)"
	}
	return text
}

// write writes lines.
func write(w io.Writer, lines []string) error {
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
