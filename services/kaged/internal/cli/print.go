package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/client"
)

// printer shows a run's frames: the model's text on stdout and what it does on stderr, or everything as JSON lines.
type printer struct {
	out, progress io.Writer
	json          bool
	asks          bool              // whether the operator is asked about approvals, who then needs no line about them
	midLine       bool              // whether out stands inside a line
	calls         map[string]string // what each call does, by its id
	written       bool              // the message is complete
	ended         bool              // the run is over
	outcome       string            // how it ended
}

// newPrinter returns a printer of a run. Prose on a terminal loses what the terminal would obey; anything else that out may be,
// such as a pipe, gets the model's exact text.
func newPrinter(out, progress io.Writer, asJSON bool) *printer {
	if !asJSON {
		out = prose(out)
	}
	return &printer{out: out, progress: progress, json: asJSON, calls: map[string]string{}}
}

// frame shows one frame and says whether that was all of the run: its end and the end of its message come on channels of
// their own, in either order.
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
		fmt.Fprintf(p.out, "%s\n", f.Raw)
	}
	var m struct {
		RunID        string `json:"run_id"`
		Provider     string
		Model        string
		Rehearsal    bool
		Delta, Kind  string
		ID           string
		ToolCallID   string `json:"tool_call_id"`
		Name         string
		Input        json.RawMessage
		Output, Text string
		IsError      bool `json:"is_error"`
		Outcome      string
		Error        *struct{ Code, Message string }
		Attempt      int
		DelayMS      int64  `json:"delay_ms"`
		StopReason   string `json:"stop_reason"`
		Usage        *usageView
		Stats        *statsView
		Reason       string
	}
	if json.Unmarshal(f.Payload, &m) != nil {
		return
	}
	p.written = p.written || f.Type == "message.end"
	if f.Type == "run.ended" && m.RunID == run {
		p.ended, p.outcome = true, m.Outcome
		if m.Error != nil {
			p.step("failed: %s (%s)", termtext.Line(m.Error.Message), termtext.Line(m.Error.Code))
		}
	}
	if p.json {
		return
	}
	switch f.Type {
	case "message.start":
		label := m.Provider + ":" + m.Model
		if m.Rehearsal {
			label += " (rehearsal: a script plays the model)"
		}
		p.step("model %s", termtext.Line(label))
	case "message.delta":
		p.delta(m.Kind, m.Delta)
	case "message.tool_call":
		p.calls[m.ID] = m.Name
		p.step("→ %s %s", termtext.Line(m.Name), outline(string(m.Input), 160))
	case "message.tool_result":
		p.result(m.Name, m.Output, m.IsError)
	case "message.end":
		p.end(m.StopReason, m.Usage, m.Stats)
	case "approval.requested", "approval.resolved":
		p.approval(f, run)
	case "run.cage", "net.attempt":
		p.cage(f, run)
	case "prompt.held":
		p.held(f, run)
	case "run.retry":
		if m.Error != nil {
			p.step("retrying in %.1f s: %s (%s)", float64(m.DelayMS)/1000, termtext.Line(m.Error.Message), m.Error.Code)
		}
	case "closing":
		p.step("the daemon closes the connection: %s", termtext.Line(m.Reason))
	}
}

// approval shows that a call waits for an operator, or waits no longer.
func (p *printer) approval(f client.Frame, run string) {
	var r request
	switch {
	case json.Unmarshal(f.Payload, &r) != nil || r.RunID != run:
	case f.Type == "approval.requested" && p.asks:
	case f.Type == "approval.requested":
		p.step("%s", r.waits())
	default:
		p.step("%s", r.ended())
	}
}

// held shows that a prompt's file is not what the run goes on with.
func (p *printer) held(f client.Frame, run string) {
	var m struct {
		RunID string `json:"run_id"`
		Path  string
	}
	if json.Unmarshal(f.Payload, &m) == nil && m.RunID == run {
		p.step("! the prompt %s changed, and agents can write it: the accepted text is used; `kaged project approve` accepts the new one", termtext.Line(m.Path))
	}
}

// cage shows in which cage the run's agent is, that it has ended, and what it refused.
func (p *printer) cage(f client.Frame, run string) {
	var m struct {
		RunID      string   `json:"run_id"`
		CageStatus string   `json:"cage_status"`
		BestEffort []string `json:"best_effort"`
		Notes      []string
		Found      []struct{ Kind, Path, Text string }
		Tier, Policy, Ended,
		Target, Rule string
		Allowed bool
		Count   int64
	}
	if json.Unmarshal(f.Payload, &m) != nil || m.RunID != run {
		return
	}
	switch {
	case f.Type == "net.attempt":
		if !m.Allowed {
			p.step("! %s", refusedLine(m.Target, m.Rule, m.Count))
		}
	case len(m.Found) > 0:
		for _, f := range m.Found {
			p.step("! left in the cage's folders: %s", brief(f.Text, 400))
		}
	case m.Ended != "":
		p.step("! the cage ended: %s", brief(m.Ended, 40))
	case m.CageStatus == "uncaged":
		p.step("! no cage: kaged runs with --no-sandbox, so the agent's commands may do what you may do")
	default:
		p.step("caged (%s): %s", m.Tier, brief(m.Policy, 200))
		for _, held := range m.BestEffort {
			p.step("  best effort: %s", brief(held, 200))
		}
		for _, note := range m.Notes {
			p.step("  ! %s", brief(note, 400))
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
	p.step("%s %s %s", mark, termtext.Line(name), outline(output, 160))
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

// prose returns w itself, or if w is a terminal, a writer to it that removes what the terminal would obey or not show.
func prose(w io.Writer) io.Writer {
	if isTerminal(w) {
		return termtext.NewWriter(w)
	}
	return w
}

// step writes a line of progress, on a line of its own also where both streams are one terminal.
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
