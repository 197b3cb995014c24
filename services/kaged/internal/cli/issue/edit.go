package issue

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// unassigned is the value of --assign that removes an assignment.
const unassigned = "none"

func edit(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var title, body, assignment, status, why string
	var version int64
	cmd := &cobra.Command{
		Use: "edit NUMBER", Short: "Change title, body, assignment or status of an issue", Args: kit.Takes(1, 1),
		Example: "  kaged issue edit 7 --assign primary --status assigned\n" +
			"  kaged issue edit 7 --status reopened --comment \"it fails again\"\n" +
			"  kaged issue edit 7 --version 3 --body - < report.md",
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := numbered(cmd, args[0])
			if err != nil {
				return err
			}
			in := map[string]any{}
			for name, value := range map[string]*string{
				"title": &title, "body": &body, "assignment": &assignment, "status": &status, "comment": &why,
			} {
				flag := name
				if name == "assignment" {
					flag = "assign"
				}
				if !cmd.Flags().Changed(flag) {
					continue
				}
				if in[name], err = textOf(cmd, a, *value); err != nil {
					return err
				}
			}
			if len(in) == 0 {
				return kit.Misused(cmd, "give at least one of --title, --body, --assign, --status and --comment")
			}
			if in["assignment"] == unassigned {
				in["assignment"] = nil
			}
			if version != 0 {
				in["version"] = version
			}
			return at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				var changed struct {
					issueView
					Fields []string `json:"updated_fields"`
				}
				if err := c.Do(ctx, http.MethodPatch, path+number, in, &changed); err != nil {
					return err
				}
				what := "unchanged"
				if len(changed.Fields) > 0 {
					what = "changed " + strings.Join(changed.Fields, ", ")
				}
				_, err := fmt.Fprintf(a.Stdout, "issue #%d: %s, version %d, %s\n", changed.Number, changed.Status,
					changed.Version, what)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&title, "title", "", "the new title")
	cmd.Flags().StringVar(&body, "body", "", "the new body, Markdown; - reads standard input")
	cmd.Flags().StringVar(&assignment, "assign", "", "primary, session:ID, workflow:NAME or none")
	cmd.Flags().StringVar(&status, "status", "", "the new status; `kaged issue show` prints the legal ones")
	cmd.Flags().StringVar(&why, "comment", "", "a comment, needed to resolve or reject")
	cmd.Flags().Int64Var(&version, "version", 0, "refuse the change unless the issue has this version")
	at.flags(cmd)
	return cmd
}
