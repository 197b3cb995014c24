package run

import (
	"encoding/json"
	"fmt"
	"strings"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// child is a working agent below the root.
type child struct {
	name string
	// depth is 1 for a child of the root.
	depth int
}

// maxIndent is the maximum indentation of lines: the tree may be deeper than a terminal is wide.
const maxIndent = 8

// subagent is the content of frames of agents below the root.
type subagent struct {
	InvocationID string `json:"invocation_id"`
	ParentID     string `json:"parent_invocation_id"`
	RunID        string `json:"run_id"`
	Name         string
	AgentPath    string `json:"agent_path"`
	Input        json.RawMessage
	Output       string
	IsError      bool `json:"is_error"`
	Reason       string
	Outcome      string
	Error        *failure
	Steps        int
	Usage        *usageView
	CostUSD      *float64 `json:"cost_usd"`
	FilesChanged []string `json:"files_changed"`
}

// below prints the actions of agents below the root, one line each for their starts, their ends and their tools,
// indented by their depth in the tree. Their texts go to their callers, in the result of the call.
func (p *printer) below(f client.Frame, run string) {
	var m subagent
	if json.Unmarshal(f.Payload, &m) != nil {
		return
	}
	if f.Type == frametype.SubagentStart.Name {
		if m.RunID == run {
			p.children[m.InvocationID] = child{kit.Brief(m.Name, 80), p.children[m.ParentID].depth + 1}
			p.childStep(m.InvocationID, "starts (%s)", kit.Brief(m.AgentPath, 200))
		}
		return
	}
	if _, ok := p.children[m.InvocationID]; !ok {
		return // it belongs to another run
	}
	switch f.Type {
	case frametype.SubagentToolCall.Name:
		p.childStep(m.InvocationID, "→ %s %s", termtext.Line(m.Name), kit.Outline(string(m.Input), 160))
	case frametype.SubagentToolResult.Name:
		mark := "✓"
		if m.IsError {
			mark = "✗"
		}
		p.childStep(m.InvocationID, "%s %s %s", mark, termtext.Line(m.Name), kit.Outline(m.Output, 160))
	case frametype.SubagentRetract.Name:
		p.childStep(m.InvocationID, "! the answer broke off and is asked for again: %s", termtext.Line(m.Reason))
	case frametype.SubagentEnd.Name:
		p.childStep(m.InvocationID, "%s", m.end())
		delete(p.children, m.InvocationID)
	}
}

// end returns the end of an agent in words: outcome, work and cost.
func (m subagent) end() string {
	line := kit.Brief(m.Outcome, 20)
	if m.Error != nil {
		line += ": " + m.Error.String()
	}
	parts := []string{kit.Count(m.Steps, "step", "steps")}
	if u := m.Usage; u != nil && u.Input+u.Output+u.CacheRead > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens in, %d out", u.Input+u.CacheRead+u.CacheWrite, u.Output))
	}
	if m.CostUSD != nil {
		parts = append(parts, fmt.Sprintf("$%.4f", *m.CostUSD))
	}
	if n := len(m.FilesChanged); n > 0 {
		parts = append(parts, kit.Count(n, "file changed", "files changed"))
	}
	return line + " (" + strings.Join(parts, ", ") + ")"
}

// childStep writes a line of progress of a working agent below the root.
func (p *printer) childStep(invocation, format string, args ...any) {
	c := p.children[invocation]
	p.step(strings.Repeat("  ", min(c.depth, maxIndent))+"%s: "+format, append([]any{c.name}, args...)...)
}

// stepOf writes a line of progress of an agent: of the root if invocation is empty. An agent without a known start is
// named by its path, because the order of events and output is not defined.
func (p *printer) stepOf(invocation, path, format string, args ...any) {
	switch _, ok := p.children[invocation]; {
	case ok:
		p.childStep(invocation, format, args...)
	case invocation != "":
		p.step("  %s: "+format, append([]any{kit.Brief(path, 200)}, args...)...)
	default:
		p.step(format, args...)
	}
}
