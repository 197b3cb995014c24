package issue

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// maxInput is far above the maximum length of a text in the API, which refuses longer ones.
const maxInput = 1 << 20

// textOf returns a text of the command line; - reads standard input. It fails for a text that is not UTF-8.
func textOf(cmd *cobra.Command, a kit.App, text string) (string, error) {
	if text == "-" {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxInput))
		if err != nil {
			return "", err
		}
		text = string(data)
	}
	if !utf8.ValidString(text) {
		return "", kit.Misused(cmd, "the text is not UTF-8")
	}
	return text, nil
}

func file(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var body string
	cmd := &cobra.Command{
		Use: "new TITLE", Short: "File an issue", Args: kit.Takes(1, -1),
		Example: "  kaged issue new \"Login fails\" --body \"since Monday\"\n" +
			"  kaged issue new Login fails --body - < report.md",
		RunE: func(cmd *cobra.Command, words []string) error {
			text, err := textOf(cmd, a, body)
			if err != nil {
				return err
			}
			return at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				var i issueView
				in := map[string]any{"title": strings.Join(words, " "), "body": text}
				if err := c.Do(ctx, http.MethodPost, path, in, &i); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.Stdout, "issue #%d: %s\n", i.Number, i.Status)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&body, "body", "", "the body, Markdown; - reads standard input")
	at.flags(cmd)
	return cmd
}

func comment(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var private bool
	cmd := &cobra.Command{
		Use: "comment NUMBER TEXT|-", Short: "Comment on an issue", Args: kit.Takes(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := numbered(cmd, args[0])
			if err != nil {
				return err
			}
			text, err := textOf(cmd, a, strings.Join(args[1:], " "))
			if err != nil {
				return err
			}
			in := map[string]any{"body": text, "visibility": "all"}
			if private {
				in["visibility"] = "operator_only"
			}
			return at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				return c.Do(ctx, http.MethodPost, path+number+"/updates", in, nil)
			})
		},
	}
	cmd.Flags().BoolVar(&private, "private", false, "show it only to the operator and the root agent")
	at.flags(cmd)
	return cmd
}

func closing(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var reject bool
	cmd := &cobra.Command{
		Use: "close NUMBER COMMENT|-", Short: "Resolve or reject an issue, with a comment", Args: kit.Takes(2, -1),
		Example: "  kaged issue close 7 fixed in the last release\n  kaged issue close 8 --reject works as documented",
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := numbered(cmd, args[0])
			if err != nil {
				return err
			}
			text, err := textOf(cmd, a, strings.Join(args[1:], " "))
			if err != nil {
				return err
			}
			in := map[string]any{"status": "resolved", "comment": text}
			if reject {
				in["status"] = "rejected"
			}
			return at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				var i issueView
				if err := c.Do(ctx, http.MethodPatch, path+number, in, &i); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.Stdout, "issue #%d: %s\n", i.Number, i.Status)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&reject, "reject", false, "reject the issue instead of resolving it")
	at.flags(cmd)
	return cmd
}
