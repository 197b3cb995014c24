package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// The formats of an export.
const (
	markdown  = "markdown"
	jsonLines = "jsonl"
)

func sessionExport(a kit.App, p *kit.Places) *cobra.Command {
	var address, format string
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Write a session with all its messages, as Markdown or JSON lines",
		Long: "Writes a session and all its messages, calls of tools and results included, to the standard output.\n" +
			"Markdown is for people. JSON lines are the API's answers: the session first, then a message a line.",
		Example: "  kaged session export SESSION >session.md\n" +
			"  kaged session export SESSION --format jsonl | jq .message.content",
		Args: oneSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			var w exporter
			switch format {
			case markdown:
				w = &markdownWriter{w: a.Stdout}
			case jsonLines:
				w = jsonWriter{kit.JSON(a.Stdout)}
			default:
				return kit.Misused(cmd, "--format is %q and must be %s or %s", format, markdown, jsonLines)
			}
			return a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				return export(ctx, c, list[0], w)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", markdown, "markdown or jsonl")
	kit.AddURL(cmd, &address)
	return cmd
}

// exporter writes a session and then its messages. Both are JSON in the API's form.
type exporter interface {
	session(raw json.RawMessage) error
	message(raw json.RawMessage) error
}

// export reads a session, and its messages page by page.
func export(ctx context.Context, c *client.Client, id string, w exporter) error {
	path := "/api/v1/sessions/" + url.PathEscape(id)
	var raw json.RawMessage
	if err := c.Do(ctx, http.MethodGet, path, nil, &raw); err != nil {
		return err
	}
	if err := w.session(raw); err != nil {
		return err
	}
	for cursor := ""; ; {
		var page struct {
			Items      []json.RawMessage `json:"items"`
			NextCursor *string           `json:"next_cursor"`
		}
		next := path + "/messages?limit=200&cursor=" + url.QueryEscape(cursor)
		if err := c.Do(ctx, http.MethodGet, next, nil, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := w.message(item); err != nil {
				return err
			}
		}
		if page.NextCursor == nil {
			return nil
		}
		cursor = *page.NextCursor
	}
}

// jsonWriter writes JSON lines: {"session": ...}, then {"message": ...} for each.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) session(raw json.RawMessage) error { return j.line("session", raw) }

func (j jsonWriter) message(raw json.RawMessage) error { return j.line("message", raw) }

func (j jsonWriter) line(key string, raw json.RawMessage) error {
	enc := json.NewEncoder(j.w)
	enc.SetEscapeHTML(false)
	return enc.Encode(map[string]json.RawMessage{key: raw})
}

// markdownWriter writes a document. Inputs and outputs of tools are in fences that their text cannot close.
type markdownWriter struct{ w io.Writer }

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
	CreatedAt    int64 `json:"created_at"`
	Superseded   bool
	InvocationID string `json:"subagent_invocation_id"`
	Metadata     struct {
		Model        string
		ErrorMessage string `json:"error_message"`
	}
}

type partView struct {
	Type, Text, Name, Output string
	Input                    json.RawMessage
	IsError                  bool `json:"is_error"`
}

func (m *markdownWriter) message(raw json.RawMessage) error {
	var v messageView
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s, %s\n", v.title(), moment(v.CreatedAt))
	if v.Superseded {
		b.WriteString("\n_Superseded: it was taken back._\n")
	}
	if len(v.Parts) == 0 && v.Content != "" {
		fmt.Fprintf(&b, "\n%s\n", v.Content)
	}
	for _, p := range v.Parts {
		p.write(&b)
	}
	if v.Metadata.ErrorMessage != "" {
		fmt.Fprintf(&b, "\n**Failed:** %s\n", v.Metadata.ErrorMessage)
	}
	_, err := io.WriteString(m.w, b.String())
	return err
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
	case "tool_result":
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
