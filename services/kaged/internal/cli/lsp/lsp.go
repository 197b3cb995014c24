// Package lsp is `kaged lsp`: the language servers of a project on the command line.
package lsp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// Server is a language server in the API's form.
type Server struct {
	ID           string   `json:"id"`
	Lang         string   `json:"lang"`
	Command      []string `json:"command"`
	State        string   `json:"state"`
	PID          int64    `json:"pid"`
	RestartCount int      `json:"restart_count"`
	OpenFiles    int      `json:"open_files"`
	ProjectID    string   `json:"project_id"`
	Root         string   `json:"root"`
	Caged        bool     `json:"caged"`
	StartedAt    int64    `json:"started_at"`
	Log          string   `json:"log"`
}

type servers struct {
	Servers []Server `json:"servers"`
}

// Command returns `kaged lsp`.
func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("lsp", "Show and restart the language servers of a project")
	cmd.AddCommand(status(a, p), restart(a, p), logs(a, p))
	return cmd
}

// place is the project that the flags of a command select.
type place struct{ dir, id, url string }

func (w *place) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.dir, "project", ".", kit.ProjectUsage)
	cmd.Flags().StringVar(&w.id, "project-id", "", "the project's id, instead of its folder")
	kit.AddURL(cmd, &w.url)
}

// in calls use with a client and the project's id, "" for all projects.
func (w *place) in(
	a kit.App, p *kit.Places, cmd *cobra.Command, all bool, use func(context.Context, *client.Client, string) error,
) error {
	return a.Api(cmd, p, w.url, func(ctx context.Context, c *client.Client) error {
		id := w.id
		if id == "" && !all {
			var err error
			if id, err = kit.ProjectAt(ctx, c, a.ProjectOf(cmd, w.dir)); err != nil {
				return err
			}
		}
		return use(ctx, c, id)
	})
}

// List returns the language servers of a project, or of all projects for "".
func List(ctx context.Context, c *client.Client, project string) ([]Server, error) {
	var list servers
	path := "/api/v1/language-servers"
	if project != "" {
		path += "?project_id=" + url.QueryEscape(project)
	}
	return list.Servers, c.Do(ctx, http.MethodGet, path, nil, &list)
}

func status(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the language servers of the project",
		Long: "Lists the language servers that agents' questions have started, with state, process id and\n" +
			"restarts after a crash. Servers start with the first question and end after a time without\n" +
			"questions.",
		Example: "  kaged lsp status\n  kaged lsp status --all --json",
		Args:    kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.in(a, p, cmd, all, func(ctx context.Context, c *client.Client, id string) error {
				list, err := List(ctx, c, id)
				if err != nil {
					return err
				}
				return write(a.Stdout, list, asJSON, time.Now())
			})
		},
	}
	at.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "list the servers of all projects")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the API's answer as one JSON object")
	return cmd
}

func restart(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "restart [LANG]",
		Short: "End the project's language servers, of one language or all",
		Long: "Ends language servers. Each starts again with the next question and reads the project again, " +
			"also\n" +
			"a server that has crashed too often.",
		Example: "  kaged lsp restart\n  kaged lsp restart go",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.in(a, p, cmd, false, func(ctx context.Context, c *client.Client, id string) error {
				var list servers
				lang := strings.Join(args, "")
				body := map[string]string{"lang": lang}
				path := "/api/v1/projects/" + url.PathEscape(id) + "/language-servers/restart"
				if err := c.Do(ctx, http.MethodPost, path, body, &list); err != nil {
					return err
				}
				if lang != "" && len(list.Servers) == 0 {
					return notStarted(lang)
				}
				return write(a.Stdout, list.Servers, asJSON, time.Now())
			})
		},
	}
	at.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the API's answer as one JSON object")
	return cmd
}

func logs(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "logs [LANG]",
		Short:   "Print the end of the standard error of the project's language servers",
		Long:    "Prints the last 8 KiB of standard error of each language server, of the last run if it has ended.",
		Example: "  kaged lsp logs go\n  kaged lsp logs --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.in(a, p, cmd, false, func(ctx context.Context, c *client.Client, id string) error {
				list, err := List(ctx, c, id)
				if err != nil {
					return err
				}
				return writeLogs(a.Stdout, list, strings.Join(args, ""), asJSON)
			})
		},
	}
	at.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the servers in the API's form as one JSON object")
	return cmd
}

// write writes servers as a table, or in the API's form.
func write(w io.Writer, list []Server, asJSON bool, now time.Time) error {
	if asJSON {
		return kit.WriteJSON(w, servers{append([]Server{}, list...)})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "No language server was started.")
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "PROJECT\tLANG\tSTATE\tCAGE\tPID\tSINCE\tRESTARTS\tOPEN\tCOMMAND")
	for _, s := range list {
		pid, since := "-", "-"
		if s.PID != 0 {
			pid, since = fmt.Sprint(s.PID), kit.Ago(now, s.StartedAt)
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", termtext.Line(s.ProjectID), termtext.Line(s.Lang), s.State,
			Caged(s), pid, since, s.RestartCount, s.OpenFiles, kit.Brief(strings.Join(s.Command, " "), 100))
	}
	return tab.Flush()
}

// Caged returns a word for whether a server has a cage.
func Caged(s Server) string {
	if s.Caged {
		return "caged"
	}
	return "uncaged"
}

// writeLogs writes the logs of servers, of one language or all, or these servers in the API's form.
func writeLogs(w io.Writer, list []Server, lang string, asJSON bool) error {
	if lang != "" {
		list = slices.DeleteFunc(slices.Clone(list), func(s Server) bool { return s.Lang != lang })
	}
	switch {
	case len(list) == 0 && lang != "":
		return notStarted(lang)
	case len(list) == 0 || asJSON:
		return write(w, list, asJSON, time.Time{})
	}
	for _, s := range list {
		fmt.Fprintf(w, "%s (%s, %s):\n", termtext.Line(s.Lang), s.State, Caged(s))
		if strings.TrimSpace(s.Log) == "" {
			fmt.Fprintln(w, "  It has written nothing.")
		}
		for line := range strings.SplitSeq(strings.TrimRight(s.Log, "\n"), "\n") {
			if line != "" {
				fmt.Fprintln(w, "  "+termtext.Line(line))
			}
		}
	}
	return nil
}

func notStarted(lang string) error {
	return fault.New(fault.NotFound, "No language server for %s was started.", lang)
}
