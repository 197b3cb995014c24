package session

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

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

// exporter writes a session and then its messages, all JSON in the API's form. end writes messages held back so far.
type exporter interface {
	session(raw json.RawMessage) error
	message(raw json.RawMessage) error
	end() error
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
			return w.end()
		}
		cursor = *page.NextCursor
	}
}

// jsonWriter writes JSON lines: {"session": ...}, then {"message": ...} for each.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) session(raw json.RawMessage) error { return j.line("session", raw) }

func (j jsonWriter) message(raw json.RawMessage) error { return j.line("message", raw) }

func (j jsonWriter) end() error { return nil }

func (j jsonWriter) line(key string, raw json.RawMessage) error {
	enc := json.NewEncoder(j.w)
	enc.SetEscapeHTML(false)
	return enc.Encode(map[string]json.RawMessage{key: raw})
}
