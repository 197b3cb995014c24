// Package issue is `kaged issue`: the issues of a project on the command line.
package issue

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// Command is the group of commands about issues.
func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("issue", "List, show, file, edit, comment and close issues of a project")
	cmd.AddCommand(list(a, p), board(a, p), show(a, p), file(a, p), edit(a, p), comment(a, p), closing(a, p),
		todo(a, p), export(a, p), importing(a, p))
	return cmd
}

// issueView is an issue in the API's form, in a list or alone.
type issueView struct {
	ID           string       `json:"id"`
	ProjectID    string       `json:"project_id"`
	Number       int64        `json:"number"`
	Title        string       `json:"title"`
	Body         string       `json:"body"`
	OriginalBody *string      `json:"original_body"`
	Status       string       `json:"status"`
	Assignment   *string      `json:"assignment"`
	CreatedBy    string       `json:"created_by"`
	CreatedAt    int64        `json:"created_at"`
	UpdatedAt    int64        `json:"updated_at"`
	ResolvedAt   *int64       `json:"resolved_at"`
	ResolvedBy   *string      `json:"resolved_by"`
	Version      int64        `json:"version"`
	Legal        []string     `json:"legal_transitions,omitempty"`
	ImportedFrom string       `json:"imported_from,omitempty"`
	Updates      []updateView `json:"updates,omitempty"`
	Todos        []todoView   `json:"todos,omitempty"`
}

// updateView is an update in the API's form.
type updateView struct {
	Author     string         `json:"author"`
	Kind       string         `json:"kind"`
	Body       string         `json:"body"`
	Metadata   map[string]any `json:"metadata"`
	Visibility string         `json:"visibility"`
	CreatedAt  int64          `json:"created_at"`
}

// todoView is a todo in the API's form.
type todoView struct {
	ID      string  `json:"id"`
	Content string  `json:"content"`
	Status  string  `json:"status"`
	Kind    string  `json:"kind"`
	Phase   *string `json:"phase"`
	// OriginAgent is the agent that proposed it. An import leaves it out.
	OriginAgent *string    `json:"origin_agent,omitempty"`
	Notes       []noteView `json:"notes,omitempty"`
	CreatedAt   int64      `json:"created_at,omitempty"`
	CompletedAt *int64     `json:"completed_at,omitempty"`
	VerifiedAt  *int64     `json:"verified_at,omitempty"`
	VerifiedBy  *string    `json:"verified_by,omitempty"`
}

// noteView is a note on a todo in the API's form.
type noteView struct {
	Text      string `json:"text"`
	Author    string `json:"author"`
	CreatedAt int64  `json:"created_at"`
}

// place is the project that the flags of a command select.
type place struct {
	dir, id, url string
}

func (w *place) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.dir, "project", ".", kit.ProjectUsage)
	cmd.Flags().StringVar(&w.id, "project-id", "", "the project's id, instead of its folder")
	kit.AddURL(cmd, &w.url)
}

// in calls use with a client and the API path of the project's issues. It fails with not_found for a folder that is not
// registered.
func (w *place) in(a kit.App, p *kit.Places, cmd *cobra.Command, use func(context.Context, *client.Client,
	string) error,
) error {
	return a.Api(cmd, p, w.url, func(ctx context.Context, c *client.Client) error {
		id := w.id
		if id == "" {
			var err error
			if id, err = kit.ProjectAt(ctx, c, a.ProjectOf(cmd, w.dir)); err != nil {
				return err
			}
		}
		return use(ctx, c, "/api/v1/projects/"+url.PathEscape(id)+"/issues")
	})
}

// maxListed is the maximum length of a page in the API.
const maxListed = 200

func list(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var status string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [QUERY]",
		Short: "List or search issues, newest first",
		Long: "Lists the issues that have not ended, newest first, or the issues that contain the words of " +
			"QUERY.",
		Example: "  kaged issue list\n  kaged issue list --status all login fails\n" +
			"  kaged issue list --status resolved --json",
		RunE: func(cmd *cobra.Command, words []string) error {
			if limit < 1 || limit > maxListed {
				return kit.Misused(cmd, "--limit is %d and must be from 1 to %d", limit, maxListed)
			}
			var page struct {
				Items []issueView `json:"items"`
				More  bool        `json:"has_more"`
			}
			err := at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				query := url.Values{"q": {strings.Join(words, " ")}, "status": {status}, "limit": {strconv.Itoa(limit)}}
				return c.Do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page)
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, map[string]any{"issues": page.Items})
			}
			if len(page.Items) == 0 {
				return writeNone(a.Stdout, len(words) > 0 || status != "")
			}
			return writeList(a.Stdout, page.Items, page.More, time.Now())
		},
	}
	cmd.Flags().StringVar(&status, "status", "",
		"statuses separated by commas, or all (default: those that have not ended)")
	cmd.Flags().IntVar(&limit, "limit", 50, "the most issues, 1 to 200")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the issues as one JSON object")
	at.flags(cmd)
	return cmd
}

// writeNone writes that a list is empty, and the command that lists or creates issues.
func writeNone(w io.Writer, filtered bool) error {
	text := "No issue is open. File one with `kaged issue new TITLE`; --status all lists ended ones."
	if filtered {
		text = "No issue matches. --status all searches ended ones too."
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func writeList(w io.Writer, issues []issueView, more bool, now time.Time) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "ISSUE\tSTATUS\tASSIGNED\tCHANGED\tTITLE")
	for _, i := range issues {
		fmt.Fprintf(tab, "#%d\t%s\t%s\t%s ago\t%s\n", i.Number, i.Status, assigned(i), kit.Ago(now, i.UpdatedAt),
			kit.Brief(i.Title, 80))
	}
	if err := tab.Flush(); err != nil || !more {
		return err
	}
	_, err := fmt.Fprintln(w, "There are more; raise --limit or add words.")
	return err
}

func assigned(i issueView) string {
	if i.Assignment == nil {
		return "-"
	}
	return kit.Brief(*i.Assignment, 40)
}

// columns are the statuses of a board in their order.
var columns = []string{"open", "reopened", "triaged", "assigned", "in_progress"}

func board(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	cmd := &cobra.Command{
		Use: "board", Short: "Show the issues that have not ended, by status", Args: kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			by := map[string][]issueView{}
			err := at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				return kit.Pages(ctx, c, path+"?limit=200", func(i issueView) error {
					by[i.Status] = append(by[i.Status], i)
					return nil
				})
			})
			if err != nil {
				return err
			}
			for _, status := range columns {
				fmt.Fprintf(a.Stdout, "%s (%d)\n", status, len(by[status]))
				for _, i := range by[status] {
					fmt.Fprintf(a.Stdout, "  #%d %s\n", i.Number, kit.Brief(i.Title, 100))
				}
			}
			return nil
		},
	}
	at.flags(cmd)
	return cmd
}

// numbered reads the number of an issue, with or without #.
func numbered(cmd *cobra.Command, text string) (string, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64)
	if err != nil || n < 1 {
		return "", kit.Misused(cmd, "%q is not the number of an issue", text)
	}
	return "/" + strconv.FormatInt(n, 10), nil
}

func show(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show NUMBER", Short: "Show an issue with its todos and updates", Args: kit.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := numbered(cmd, args[0])
			if err != nil {
				return err
			}
			var i issueView
			err = at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) (err error) {
				i, err = whole(ctx, c, path+number)
				return err
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, i)
			}
			return writeIssue(a.Stdout, i)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the issue as one JSON object")
	at.flags(cmd)
	return cmd
}

// whole returns an issue with its latest updates and its todos.
func whole(ctx context.Context, c *client.Client, path string) (issueView, error) {
	var i issueView
	if err := c.Do(ctx, http.MethodGet, path, nil, &i); err != nil {
		return i, err
	}
	var todos struct{ Items []todoView }
	err := c.Do(ctx, http.MethodGet, path+"/todos", nil, &todos)
	i.Todos = todos.Items
	return i, err
}
