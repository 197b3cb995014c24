// Package logs is `kaged logs`.
package logs

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// Command is `kaged logs`.
func Command(a kit.App, p *kit.Places) *cobra.Command {
	var address string
	var follow, asJSON bool
	var since time.Duration
	var o client.LogOptions
	cmd := &cobra.Command{
		Use:   "logs [PROJECT]",
		Short: "Show the log of a project",
		Long: "Shows the log of a project, oldest first: runs and their ends, approvals, refusals of cages " +
			"and\n" +
			"budgets, agents, and warnings of the daemon about its sessions. PROJECT is an id, as `kaged\n" +
			"project list` shows it (default: the project of this folder). --follow shows new lines as they\n" +
			"come, until Ctrl-C; it reconnects after a loss and misses no line. The permanent record is the\n" +
			"audit log.",
		Example: "  kaged logs --follow\n  kaged logs my-project --level warn --since 24h\n" +
			"  kaged logs --session SESSION --json",
		Args: kit.Takes(0, 1),
		RunE: func(cmd *cobra.Command, list []string) error {
			if o.Last < 0 {
				return kit.Misused(cmd, "--last is %d and must be at least 0", o.Last)
			}
			if since < 0 {
				return kit.Misused(cmd, "--since is %s and must not be negative", since)
			}
			if since > 0 {
				o.Since = time.Now().Add(-since).UnixMilli()
			}
			return a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				project := ""
				if len(list) == 1 {
					project = list[0]
				} else {
					id, err := kit.ProjectAt(ctx, c, a.ProjectOf(cmd, "."))
					if err != nil {
						return err
					}
					project = id
				}
				return show(ctx, a, c, project, o, follow, writer(a, asJSON))
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show new lines as they come")
	cmd.Flags().StringVar(&o.Level, "level", "", "only this level and above: debug, info, warn or error")
	cmd.Flags().StringVar(&o.Source, "source", "", "only this source: daemon, plugin, session or subagent")
	cmd.Flags().StringVar(&o.Session, "session", "", "only lines about this session")
	cmd.Flags().DurationVar(&since, "since", 0, "only lines that are not older than this, such as 24h")
	cmd.Flags().IntVarP(&o.Last, "last", "n", 100, "the number of stored lines to show")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each line as a JSON object")
	kit.AddURL(cmd, &address)
	return cmd
}

func show(
	ctx context.Context, a kit.App, c *client.Client, project string, o client.LogOptions, follow bool,
	write func(*apiv1.LogEntry) error,
) error {
	if follow {
		for entry, err := range c.FollowLogs(ctx, project, o) {
			if err == nil {
				err = write(entry)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	list, err := c.Logs(ctx, project, o)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(a.Stderr, "kaged: no line of the log matches")
	}
	for _, entry := range list {
		if err := write(entry); err != nil {
			return err
		}
	}
	return nil
}

// writer returns a function that writes an entry.
func writer(a kit.App, asJSON bool) func(*apiv1.LogEntry) error {
	if !asJSON {
		return func(e *apiv1.LogEntry) error { return line(a.Stdout, e) }
	}
	return func(e *apiv1.LogEntry) error {
		text, err := wirejson.Marshal(e)
		if err == nil {
			_, err = fmt.Fprintf(kit.JSON(a.Stdout), "%s\n", text)
		}
		return err
	}
}

// maxLine is the maximum number of characters of a message.
const maxLine = 400

func line(w io.Writer, e *apiv1.LogEntry) error {
	about := ""
	if e.GetSessionId() != "" {
		about = "  (session " + e.GetSessionId() + ")"
	}
	_, err := fmt.Fprintf(w, "%s  %-5s  %-8s  %s%s\n", time.UnixMilli(e.GetTs()).Format("2006-01-02 15:04:05"),
		e.GetLevel(), e.GetSource(), kit.Brief(e.GetMessage(), maxLine), about)
	return err
}
