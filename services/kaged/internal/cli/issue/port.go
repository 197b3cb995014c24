package issue

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

func export(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	cmd := &cobra.Command{
		Use: "export", Short: "Print all issues as JSON lines", Args: kit.Nothing,
		Long:    "Prints every issue of the project with its todos and all its updates, one JSON object in a line.",
		Example: "  kaged issue export > issues.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				out := json.NewEncoder(a.Stdout)
				out.SetEscapeHTML(false)
				return pages(ctx, c, path+"?status=all&limit=200", func(listed issueView) error {
					here := path + "/" + strconv.FormatInt(listed.Number, 10)
					i, err := whole(ctx, c, here)
					if err != nil {
						return err
					}
					i.Updates = nil
					err = pages(ctx, c, here+"/updates?limit=200", func(u updateView) error {
						i.Updates = append(i.Updates, u)
						return nil
					})
					if err != nil {
						return err
					}
					return out.Encode(i)
				})
			})
		},
	}
	at.flags(cmd)
	return cmd
}

func importing(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	cmd := &cobra.Command{
		Use: "import", Short: "File the issues of an export again, from standard input", Args: kit.Nothing,
		Long: "Files each issue of an export, read from standard input, under a new number, with its todos, its\n" +
			"comments and its end. An issue that was imported before is left as it is, so that an import can be repeated.",
		Example: "  kaged issue import --project-id other < issues.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				lines := bufio.NewScanner(a.Stdin)
				lines.Buffer(nil, 64<<20)
				for n := 1; lines.Scan(); n++ {
					var i issueView
					if err := json.Unmarshal(lines.Bytes(), &i); err != nil || i.ID == "" {
						return fault.Wrap(err, fault.BadRequest, "Line %d is not an issue of `kaged issue export`.", n)
					}
					number, known, err := take(ctx, c, path, i)
					if err != nil {
						return fault.Wrap(err, fault.CodeOf(err), "Line %d, issue #%d: %s", n, i.Number, fault.From(err).Msg)
					}
					state := "imported"
					if known {
						state = "imported before"
					}
					fmt.Fprintf(a.Stdout, "issue #%d: %s from #%d\n", number, state, i.Number)
				}
				return lines.Err()
			})
		},
	}
	at.flags(cmd)
	return cmd
}

// take files an issue of an export and returns its new number, and whether it was there already.
func take(ctx context.Context, c *client.Client, path string, i issueView) (number int64, known bool, err error) {
	body := i.Body
	if i.OriginalBody != nil {
		body = *i.OriginalBody
	}
	var filed issueView
	err = c.Do(ctx, http.MethodPost, path, map[string]any{
		"title": i.Title, "body": body, "client_id": "import:" + i.ID, "imported_from": fmt.Sprintf("%s#%d", i.ProjectID,
			i.Number),
	}, &filed)
	if err != nil {
		return 0, false, err
	}
	here := path + "/" + strconv.FormatInt(filed.Number, 10)
	there, err := whole(ctx, c, here)
	if err != nil || len(there.Todos) > 0 || len(there.Updates) > 0 || there.Version > 1 {
		return filed.Number, true, err
	}
	if err := takeTodos(ctx, c, here, i.Todos); err != nil {
		return 0, false, err
	}
	for _, u := range i.Updates {
		if u.Kind != "comment" {
			continue
		}
		at := time.UnixMilli(u.CreatedAt).UTC().Format(time.RFC3339)
		text := fmt.Sprintf("%s, %s:\n\n%s", u.Author, at, u.Body)
		if len(text) > maxComment {
			text = u.Body
		}
		in := map[string]any{"body": text, "visibility": u.Visibility}
		if err := c.Do(ctx, http.MethodPost, here+"/updates", in, nil); err != nil {
			return 0, false, err
		}
	}
	change := map[string]any{}
	if body != i.Body {
		change["body"] = i.Body
	}
	switch i.Status {
	case "open", "reopened":
	default:
		change["status"], change["comment"] = i.Status, fmt.Sprintf("Imported as %s from %s#%d.", i.Status, i.ProjectID,
			i.Number)
	}
	if len(change) == 0 {
		return filed.Number, false, nil
	}
	return filed.Number, false, c.Do(ctx, http.MethodPatch, here, change, nil)
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
