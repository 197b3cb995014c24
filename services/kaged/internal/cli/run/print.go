package run

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// printer prints a run's frames: the model's text to stdout and its actions to stderr, or all frames as JSON lines.
type printer struct {
	out, progress io.Writer
	json          bool
	asks          bool              // true if the operator is asked about approvals, so that no line is needed
	midLine       bool              // true if the last output to out did not end a line
	calls         map[string]string // the tool of each call, by its id
	children      map[string]child  // the working agents below the root, by their invocations
	budgets       map[string]int    // the share of each budget that was printed, in percent, by the budget's owner
	written       bool              // the message is complete
	ended         bool              // the run has ended
	outcome       string            // the run's outcome
}

// newPrinter returns a printer of a run. On a terminal it removes control characters from the model's text; other
// outputs, such as a pipe, get the exact text.
func newPrinter(out, progress io.Writer, asJSON bool) *printer {
	if !asJSON {
		out = kit.Screen(out)
	}
	return &printer{
		out: out, progress: progress, json: asJSON, calls: map[string]string{}, children: map[string]child{},
		budgets: map[string]int{},
	}
}

// payload has the fields of those frames that are printed in one line.
type payload struct {
	RunID        string `json:"run_id"`
	Provider     string
	Model        string
	Rehearsal    bool
	Delta, Kind  string
	ID           string
	Name         string
	Input        json.RawMessage
	Output       string
	IsError      bool `json:"is_error"`
	Outcome      string
	Error        *failure
	DelayMS      int64  `json:"delay_ms"`
	StopReason   string `json:"stop_reason"`
	Usage        *usageView
	Stats        *statsView
	Reason       string
	InvocationID string `json:"invocation_id"`
}

// frame prints one frame. over is true after the last frame of the run: its end and the end of its message arrive on
// separate channels, in either order.
func (p *printer) frame(f client.Frame, run string) (over bool, outcome string) {
	p.show(f, run)
	if !p.ended || !p.written {
		return false, ""
	}
	p.endLine()
	return true, p.outcome
}

func (p *printer) show(f client.Frame, run string) {
	if p.json && f.Channel != "control" {
		fmt.Fprintf(kit.JSON(p.out), "%s\n", f.Raw)
	}
	var m payload
	if json.Unmarshal(f.Payload, &m) != nil {
		return
	}
	p.written = p.written || f.Type == frametype.MessageEnd.Name
	if f.Type == frametype.RunEnded.Name && m.RunID == run {
		p.ended, p.outcome = true, m.Outcome
		if m.Error != nil {
			p.step("failed: %s", m.Error)
		}
	}
	if !p.json {
		p.inWords(f, m, run)
	}
}

// inWords prints a frame for people. Frames of other types are left out.
func (p *printer) inWords(f client.Frame, m payload, run string) {
	switch f.Type {
	case frametype.MessageStart.Name:
		label := m.Provider + ":" + m.Model
		if m.Rehearsal {
			label += " (rehearsal: a script plays the model)"
		}
		p.step("model %s", termtext.Line(label))
	case frametype.MessageDelta.Name:
		p.delta(m.Kind, m.Delta)
	case frametype.MessageRetract.Name:
		p.step("! the answer broke off, so the text above it counts no more: %s", termtext.Line(m.Reason))
	case frametype.MessageSteer.Name:
		p.steer(f)
	case frametype.MessageToolCall.Name:
		p.calls[m.ID] = m.Name
		p.step("→ %s %s", termtext.Line(m.Name), kit.Outline(string(m.Input), 160))
	case frametype.MessageToolResult.Name:
		p.result(m.Name, m.Output, m.IsError)
	case frametype.MessageEnd.Name:
		p.end(m.StopReason, m.Usage, m.Stats)
	case frametype.ApprovalRequested.Name, frametype.ApprovalResolved.Name:
		p.approval(f, run)
	case frametype.RunCage.Name, frametype.NetworkAttempted.Name:
		p.cage(f, run)
	case frametype.SubagentStart.Name, frametype.SubagentToolCall.Name, frametype.SubagentToolResult.Name,
		frametype.SubagentRetract.Name, frametype.SubagentEnd.Name:
		p.below(f, run)
	case frametype.PromptHeld.Name:
		p.held(f, run)
	case frametype.BudgetState.Name:
		p.budget(f, run)
	case frametype.CompactionCompleted.Name, frametype.CompactionFailed.Name, frametype.CompactionNoop.Name:
		p.compaction(f, run)
	case frametype.RunRetry.Name:
		if m.Error != nil {
			p.stepOf(m.InvocationID, "agent", "retrying in %.1f s: %s (%s)", float64(m.DelayMS)/1000,
				termtext.Line(m.Error.Message), m.Error.Code)
		}
	case "closing":
		p.step("the daemon closes the connection: %s", termtext.Line(m.Reason))
	}
}

// approval prints that a call waits for an operator, or that the wait is over.
func (p *printer) approval(f client.Frame, run string) {
	var r request
	switch {
	case json.Unmarshal(f.Payload, &r) != nil || r.RunID != run:
	case f.Type == frametype.ApprovalRequested.Name && p.asks:
	case f.Type == frametype.ApprovalRequested.Name:
		p.stepOf(r.InvocationID, r.Subject.Agent, "%s", r.waits())
	default:
		p.stepOf(r.InvocationID, "agent", "%s", r.ended())
	}
}

// held prints that the run uses an older text of a prompt than its file has.
func (p *printer) held(f client.Frame, run string) {
	var m struct {
		RunID string `json:"run_id"`
		Path  string

		Accepted string `json:"accepted_sha256"`
		Found    string `json:"sha256"`
	}
	switch {
	case json.Unmarshal(f.Payload, &m) != nil || m.RunID != run:
	case m.Path != dsl.InstructionsPath:
		p.step(
			"! the prompt %s changed, and agents can write it: the accepted text is used; `kaged project approve` accepts "+
				"the new one",
			termtext.Line(m.Path),
		)
	case m.Accepted == "":
		p.step("! AGENTS.md is not approved: the run goes without it; `kaged project approve` shows and accepts it")
	case m.Found == "":
		p.step("! AGENTS.md is gone: the accepted text is used; `kaged project approve` accepts that it is gone")
	default:
		p.step("! AGENTS.md changed: the accepted text is used; `kaged project approve` shows and accepts the new one")
	}
}

// cage prints the cage of the run's agent, its end, and its refusals.
func (p *printer) cage(f client.Frame, run string) {
	var m struct {
		RunID        string   `json:"run_id"`
		InvocationID string   `json:"invocation_id"`
		AgentPath    string   `json:"agent_path"`
		CageStatus   string   `json:"cage_status"`
		BestEffort   []string `json:"best_effort"`
		Notes        []string
		Found        []struct{ Kind, Path, Text string }
		Tier, Policy, Ended,
		Target, Rule string
		Allowed bool
		Count   int64
	}
	if json.Unmarshal(f.Payload, &m) != nil || m.RunID != run {
		return
	}
	step := func(format string, args ...any) { p.stepOf(m.InvocationID, m.AgentPath, format, args...) }
	switch {
	case f.Type == frametype.NetworkAttempted.Name:
		if !m.Allowed {
			step("! %s", kit.RefusedLine(m.Target, m.Rule, m.Count))
		}
	case len(m.Found) > 0:
		for _, f := range m.Found {
			step("! left in the cage's folders: %s", kit.Brief(f.Text, 400))
		}
	case m.Ended != "":
		step("! the cage ended: %s", kit.Brief(m.Ended, 40))
	case m.CageStatus == "uncaged":
		step("! no cage: kaged runs with --no-sandbox, so the agent's commands have your rights")
	default:
		step("caged (%s): %s", m.Tier, kit.Brief(m.Policy, 200))
		for _, held := range m.BestEffort {
			step("  best effort: %s", kit.Brief(held, 200))
		}
		for _, note := range m.Notes {
			step("  ! %s", kit.Brief(note, 400))
		}
	}
}

func (p *printer) delta(kind, text string) {
	if kind != "text" || text == "" {
		return
	}
	io.WriteString(p.out, text)
	p.midLine = !strings.HasSuffix(text, "\n")
}

func (p *printer) result(name, output string, failed bool) {
	mark := "✓"
	if failed {
		mark = "✗"
	}
	if text, ok := checklist(output); ok && !failed {
		p.step("%s %s %s", mark, termtext.Line(name), text)
		return
	}
	p.step("%s %s %s", mark, termtext.Line(name), kit.Outline(output, 160))
}

// maxTodos is the maximum number of lines of a checklist.
const maxTodos = 12

// checklist returns the number of completed todos in a result of kaged.todo, and the lines of its checklist. It returns
// false for the result of another tool.
func checklist(output string) (string, bool) {
	var list struct {
		Todos    []struct{ Status string }
		Markdown *string
	}
	if json.Unmarshal([]byte(output), &list) != nil || list.Markdown == nil || list.Todos == nil {
		return "", false
	}
	done, all := 0, 0
	for _, t := range list.Todos {
		if t.Status == "completed" {
			done++
		}
		if t.Status != "abandoned" {
			all++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d done", done, all)
	lines := strings.Split(*list.Markdown, "\n")
	for i, line := range lines {
		if i == maxTodos {
			fmt.Fprintf(&b, "\n  and %d lines more", len(lines)-i)
			break
		}
		if line != "" {
			indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
			fmt.Fprintf(&b, "\n  %s%s", indent, kit.Brief(strings.TrimSpace(line), 120))
		}
	}
	return b.String(), true
}

// failure is the error of a failed run.
type failure struct {
	Code, Message string
	Details       struct{ Reason string }
}

// String returns one line: the message, its cause if it is not part of the message, and the code.
func (f *failure) String() string {
	line := termtext.Line(f.Message)
	if reason := f.Details.Reason; reason != "" && !strings.Contains(f.Message, strings.TrimRight(reason, ".")) {
		line += " " + termtext.Line(f.Details.Reason)
	}
	return fmt.Sprintf("%s (%s)", line, termtext.Line(f.Code))
}

type usageView struct {
	Input, Output int64
	CacheRead     int64 `json:"cache_read"`
	CacheWrite    int64 `json:"cache_write"`
}

type statsView struct {
	Cost *struct{ Total float64 }
}

func (p *printer) end(reason string, usage *usageView, stats *statsView) {
	var parts []string
	if usage != nil && usage.Input+usage.Output+usage.CacheRead > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens in, %d out", usage.Input+usage.CacheRead+usage.CacheWrite, usage.Output))
	}
	if stats != nil && stats.Cost != nil {
		parts = append(parts, fmt.Sprintf("$%.4f", stats.Cost.Total))
	}
	if reason == "length" {
		parts = append(parts, "stopped at the output limit")
	}
	if len(parts) > 0 {
		p.step("%s", strings.Join(parts, ", "))
	}
}

// step writes a line of progress. It starts a new line even if both streams are the same terminal.
func (p *printer) step(format string, args ...any) {
	p.endLine()
	fmt.Fprintf(p.progress, format+"\n", args...)
}

func (p *printer) endLine() {
	if p.midLine && !p.json {
		io.WriteString(p.out, "\n")
		p.midLine = false
	}
}
