package issue

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// formats are the formats of an export: JSON lines, and a folder with a Markdown file for each issue.
const (
	formatLines    = "jsonl"
	formatMarkdown = "markdown"
)

// port has the flags of an export or import.
type port struct {
	place
	format string
}

func (p *port) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.format, "format", formatLines, "jsonl, or markdown: a folder with a file for each issue")
	p.place.flags(cmd)
}

// folder returns the folder of the arguments, "" for JSON lines.
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
					out := json.NewEncoder(kit.JSON(a.Stdout))
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

// everyIssue calls each with every issue at the path, with its updates and todos.
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
		Long: "Files each issue of an export, read from standard input or, with --format markdown, from the " +
			"files\n" +
			"of DIR, under a new number, with its todos, its comments and its final status. Issues that were\n" +
			"imported before are skipped, so an import can be repeated.",
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
