package issue

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// formats are the forms of an export: JSON lines, and a folder with a Markdown file for each issue.
const (
	formatLines    = "jsonl"
	formatMarkdown = "markdown"
)

// port is an export or an import by its flags.
type port struct {
	place
	format string
}

func (p *port) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.format, "format", formatLines, "jsonl, or markdown: a folder with a file for each issue")
	p.place.flags(cmd)
}

// folder returns the folder that the arguments name, "" for JSON lines.
func (p *port) folder(cmd *cobra.Command, args []string) (string, error) {
	switch {
	case p.format != formatLines && p.format != formatMarkdown:
		return "", kit.Misused(cmd, "--format is %q and must be jsonl or markdown", p.format)
	case p.format == formatLines && len(args) > 0:
		return "", kit.Misused(cmd, "DIR %q goes with --format markdown", args[0])
	case p.format == formatMarkdown && len(args) != 1:
		return "", kit.Misused(cmd, "--format markdown takes one DIR")
	case p.format == formatMarkdown:
		return args[0], nil
	}
	return "", nil
}

func export(a kit.App, p *kit.Places) *cobra.Command {
	var how port
	cmd := &cobra.Command{
		Use: "export [DIR]", Short: "Print all issues as JSON lines, or write them as Markdown files",
		Long: "Prints every issue of the project with its todos and all its updates, one JSON object in a line. With\n" +
			"--format markdown it writes a file for each issue into DIR; `kaged issue import` reads both.",
		Example: "  kaged issue export > issues.jsonl\n  kaged issue export --format markdown issues",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := how.folder(cmd, args)
			if err != nil {
				return err
			}
			return how.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				if dir == "" {
					out := json.NewEncoder(a.Stdout)
					out.SetEscapeHTML(false)
					return everyIssue(ctx, c, path, func(i issueView) error { return out.Encode(i) })
				}
				if err := os.MkdirAll(dir, 0o700); err != nil {
					return err
				}
				written := 0
				err := everyIssue(ctx, c, path, func(i issueView) error {
					written++
					return put(dir, i)
				})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.Stdout, "%s in %s\n", kit.Count(written, "issue", "issues"), dir)
				return err
			})
		},
	}
	how.flags(cmd)
	return cmd
}

// everyIssue calls each with every issue at the path, whole.
func everyIssue(ctx context.Context, c *client.Client, path string, each func(issueView) error) error {
	return kit.Pages(ctx, c, path+"?status=all&limit=200", func(listed issueView) error {
		here := path + "/" + strconv.FormatInt(listed.Number, 10)
		i, err := whole(ctx, c, here)
		if err != nil {
			return err
		}
		i.Updates = nil
		err = kit.Pages(ctx, c, here+"/updates?limit=200", func(u updateView) error {
			i.Updates = append(i.Updates, u)
			return nil
		})
		if err != nil {
			return err
		}
		return each(i)
	})
}

func importing(a kit.App, p *kit.Places) *cobra.Command {
	var how port
	cmd := &cobra.Command{
		Use: "import [DIR]", Short: "File the issues of an export again",
		Long: "Files each issue of an export, read from standard input or, with --format markdown, from the files of DIR,\n" +
			"under a new number, with its todos, its comments and its end. An issue that was imported before is left\n" +
			"as it is, so that an import can be repeated.",
		Example: "  kaged issue import --project-id other < issues.jsonl\n" +
			"  kaged issue import --project-id other --format markdown issues",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := how.folder(cmd, args)
			if err != nil {
				return err
			}
			return how.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				each := func(name string, i issueView) error {
					number, known, err := take(ctx, c, path, i)
					if err != nil {
						return fault.Wrap(err, fault.CodeOf(err), "%s, issue #%d: %s", name, i.Number, fault.From(err).Msg)
					}
					state := "imported"
					if known {
						state = "imported before"
					}
					_, err = fmt.Fprintf(a.Stdout, "issue #%d: %s from #%d\n", number, state, i.Number)
					return err
				}
				if dir == "" {
					return fromLines(a.Stdin, each)
				}
				return fromFolder(dir, each)
			})
		},
	}
	how.flags(cmd)
	return cmd
}

// take files an issue of an export and returns its new number, and whether it was there as a whole already. An import
// that was cut off goes on where it stopped: with the todos and comments that are missing, and with the end.
func take(ctx context.Context, c *client.Client, path string, i issueView) (number int64, known bool, err error) {
	body := i.Body
	if i.OriginalBody != nil {
		body = *i.OriginalBody
	}
	from := fmt.Sprintf("%s#%d", i.ProjectID, i.Number)
	var filed issueView
	in := map[string]any{"title": i.Title, "body": body, "client_id": "import:" + i.ID, "imported_from": from}
	if err := c.Do(ctx, http.MethodPost, path, in, &filed); err != nil {
		return 0, false, err
	}
	here := path + "/" + strconv.FormatInt(filed.Number, 10)
	there, err := whole(ctx, c, here)
	if err != nil {
		return 0, false, err
	}
	known = len(there.Todos) > 0 || len(there.Updates) > 0 || there.Version > 1
	if missing := i.Todos[min(len(there.Todos), len(i.Todos)):]; len(missing) > 0 {
		known = false
		if err := takeTodos(ctx, c, here, missing); err != nil {
			return 0, false, err
		}
	}
	took, err := takeComments(ctx, c, here, i.Updates)
	if err != nil {
		return 0, false, err
	}
	change := map[string]any{}
	if body != i.Body {
		change["body"] = i.Body
	}
	if i.Status != "open" && i.Status != "reopened" {
		change["status"], change["comment"] = i.Status, fmt.Sprintf("Imported as %s from %s.", i.Status, from)
	}
	if there.Version > 1 || len(change) == 0 {
		return filed.Number, known && !took, nil
	}
	return filed.Number, false, c.Do(ctx, http.MethodPatch, here, change, nil)
}

// takeComments adds the comments among updates that are missing, and reports whether there were any.
func takeComments(ctx context.Context, c *client.Client, here string, updates []updateView) (took bool, err error) {
	comments := slices.DeleteFunc(slices.Clone(updates), func(u updateView) bool { return u.Kind != "comment" })
	if len(comments) == 0 {
		return false, nil
	}
	there := 0
	err = kit.Pages(ctx, c, here+"/updates?limit=200", func(u updateView) error {
		if u.Kind == "comment" {
			there++
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, u := range comments[min(there, len(comments)):] {
		at := time.UnixMilli(u.CreatedAt).UTC().Format(time.RFC3339)
		text := fmt.Sprintf("%s, %s:\n\n%s", u.Author, at, u.Body)
		if len(text) > maxComment {
			text = u.Body
		}
		in := map[string]any{"body": text, "visibility": u.Visibility}
		if err := c.Do(ctx, http.MethodPost, here+"/updates", in, nil); err != nil {
			return took, err
		}
		took = true
	}
	return took, nil
}

// maxComment is the longest comment in bytes.
const maxComment = 16 << 10

func takeTodos(ctx context.Context, c *client.Client, here string, todos []todoView) error {
	for _, t := range todos {
		var added struct{ Items []todoView }
		in := map[string]any{"items": []string{t.Content}, "kind": t.Kind}
		if t.Phase != nil {
			in["phase"] = *t.Phase
		}
		if err := c.Do(ctx, http.MethodPost, here+"/todos", in, &added); err != nil {
			return err
		}
		if t.Status == "pending" || len(added.Items) != 1 {
			continue
		}
		if err := c.Do(ctx, http.MethodPatch, here+"/todos/"+added.Items[0].ID, map[string]any{"status": t.Status},
			nil); err != nil {
			return err
		}
	}
	return nil
}
