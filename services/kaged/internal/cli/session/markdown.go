package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kaged.dev/services/kaged/internal/cli/kit"
)

// markdownWriter writes a document. Inputs and outputs of tools are in fences that their text cannot close. A result
// follows its call, and a message that steered a run follows the step after which the agent read it.
type markdownWriter struct {
	w io.Writer
	// steers are messages to the run with id steered. The run's own message is stored after them.
	steers  []messageView
	steered string
}

func (m *markdownWriter) session(raw json.RawMessage) error {
	var s sessionDetails
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	title := "Session " + s.ID
	if s.Name != nil {
		title = kit.Brief(*s.Name, 120)
	}
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"# %s\n\n- session: %s\n- project: %s\n- created: %s\n- state: %s\n- tokens: %d in, %d out\n",
		title,
		s.ID,
		s.ProjectID,
		moment(s.CreatedAt),
		s.State,
		s.Totals.TokensIn,
		s.Totals.TokensOut,
	)
	if s.Totals.CostUSD != nil {
		fmt.Fprintf(&b, "- cost: $%.4f\n", *s.Totals.CostUSD)
	}
	_, err := io.WriteString(m.w, b.String())
	return err
}

// messageView is a message in the API's form.
type messageView struct {
	Role         string
	Content      string
	Parts        []partView
	CreatedAt    int64  `json:"created_at"`
	RunID        string `json:"run_id"`
	AfterStep    int    `json:"after_step"`
	Superseded   bool
	InvocationID string `json:"subagent_invocation_id"`
	Metadata     struct {
		Model        string
		ErrorMessage string `json:"error_message"`
	}
}

type partView struct {
	Type, Text, Name, Output string
	ID                       string
	ToolCallID               string `json:"tool_call_id"`
	Input                    json.RawMessage
	IsError                  bool `json:"is_error"`
}

const toolResult = "tool_result"

func (m *markdownWriter) message(raw json.RawMessage) error {
	var v messageView
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	var b strings.Builder
	if v.InvocationID != "" {
		v.write(&b, nil)
		_, err := io.WriteString(m.w, b.String())
		return err
	}
	if len(m.steers) > 0 && v.RunID != m.steered {
		if err := m.end(); err != nil {
			return err
		}
	}
	if v.AfterStep > 0 {
		m.steers, m.steered = append(m.steers, v), v.RunID
		return nil
	}
	v.write(&b, m.steers)
	m.steers = nil
	_, err := io.WriteString(m.w, b.String())
	return err
}

// end writes the messages to a run that has no message of its own, because it is still at work or was lost.
func (m *markdownWriter) end() error {
	var b strings.Builder
	for _, v := range m.steers {
		v.write(&b, nil)
	}
	m.steers = nil
	_, err := io.WriteString(m.w, b.String())
	return err
}

// write appends the message with those that steered its run, which are in the order of their steps.
func (v *messageView) write(b *strings.Builder, steers []messageView) {
	fmt.Fprintf(b, "\n## %s, %s\n", v.title(), moment(v.CreatedAt))
	if v.Superseded {
		b.WriteString("\n_Superseded: it was taken back._\n")
	}
	if len(v.Parts) == 0 && v.Content != "" {
		fmt.Fprintf(b, "\n%s\n", v.Content)
	}
	for i, step := range steps(v.Parts) {
		for len(steers) > 0 && steers[0].AfterStep <= i {
			steers[0].write(b, nil)
			steers = steers[1:]
			fmt.Fprintf(b, "\n## %s goes on\n", v.title())
		}
		for _, p := range step {
			p.write(b)
		}
	}
	if v.Metadata.ErrorMessage != "" {
		fmt.Fprintf(b, "\n**Failed:** %s\n", v.Metadata.ErrorMessage)
	}
	for i := range steers {
		steers[i].write(b, nil)
	}
}

// steps returns the parts of each step of a run's message: the model's text, then its calls, each with its result.
func steps(parts []partView) [][]partView {
	var list [][]partView
	for i, p := range parts {
		if i == 0 || p.Type != toolResult && parts[i-1].Type == toolResult {
			list = append(list, nil)
		}
		last := &list[len(list)-1]
		at := len(*last)
		if p.Type == toolResult {
			if call := slices.IndexFunc(*last, func(c partView) bool { return c.ID != "" && c.ID == p.ToolCallID }); call >= 0 {
				at = call + 1
			}
		}
		*last = slices.Insert(*last, at, p)
	}
	return list
}

func (v *messageView) title() string {
	role := v.Role
	if role != "" {
		role = strings.ToUpper(role[:1]) + role[1:]
	}
	if v.InvocationID != "" {
		role += " " + v.InvocationID
	}
	if v.Metadata.Model != "" {
		role += " (" + v.Metadata.Model + ")"
	}
	return role
}

func (p *partView) write(b *strings.Builder) {
	switch p.Type {
	case "thinking":
		fmt.Fprintf(b, "\n> %s\n", strings.ReplaceAll(strings.TrimSpace(p.Text), "\n", "\n> "))
	case "tool_call":
		fmt.Fprintf(b, "\n**Call of %s**\n\n", cmp.Or(p.Name, "a tool"))
		fence(b, "json", readable(p.Input))
	case toolResult:
		said := "Result"
		if p.IsError {
			said = "Failure"
		}
		fmt.Fprintf(b, "\n**%s of %s**\n\n", said, cmp.Or(p.Name, "a tool"))
		fence(b, "", p.Output)
	default:
		if p.Text != "" {
			fmt.Fprintf(b, "\n%s\n", p.Text)
		}
	}
}

// readable returns JSON indented, with characters in place of the escapes that JSON in a web page needs.
func readable(raw json.RawMessage) string {
	var indented bytes.Buffer
	if json.Indent(&indented, raw, "", "  ") != nil {
		return string(raw)
	}
	return unescape.Replace(indented.String())
}

var unescape = strings.NewReplacer(`\\`, `\\`, `\u0026`, "&", `\u003c`, "<", `\u003e`, ">")

// fence writes text as a block of code. The fence has more backticks than any run of backticks in the text.
func fence(b *strings.Builder, language, text string) {
	ticks := "```"
	for strings.Contains(text, ticks) {
		ticks += "`"
	}
	fmt.Fprintf(b, "%s%s\n%s\n%s\n", ticks, language, strings.TrimSuffix(text, "\n"), ticks)
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
