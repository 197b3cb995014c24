// Package session is `kaged session` and `kaged cancel`.
package session

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
	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// Command is the group of commands about sessions.
func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("session", "List, show, attach, steer, export, cancel and end sessions; show their ledgers")
	cmd.AddCommand(sessionList(a, p), sessionShow(a, p), sessionAttach(a, p), sessionSteer(a, p), sessionExport(a, p),
		sessionLedger(a, p), CancelCommand(a, p), sessionEnd(a, p))
	return cmd
}

// sessionView is a session in a list in the API's form.
type sessionView struct {
	ID           string  `json:"id"`
	ProjectID    string  `json:"project_id"`
	Name         *string `json:"name"`
	State        string  `json:"state"`
	CreatedAt    int64   `json:"created_at"`
	UpdatedAt    int64   `json:"updated_at"`
	MessageCount int     `json:"message_count"`
	// Matched is the message with the words of a search, null if the session's name has them.
	Matched *string `json:"matched_message_id,omitempty"`
}

func sessionList(a kit.App, p *kit.Places) *cobra.Command {
	var project, search, address string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, newest first",
		Long: "Lists the sessions of a project, or of all projects, newest first; --search lists only " +
			"sessions with these words in their name or in a message.",
		Example: "  kaged session list\n  kaged session list --search 'rename view.go'\n" +
			"  kaged session list --project-id wordcount --json",
		Args: kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxSessions {
				return kit.Misused(cmd, "--limit is %d and must be from 1 to %d", limit, maxSessions)
			}
			found := []sessionView{}
			err := a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) (err error) {
				found, err = listSessions(ctx, c, project, search, limit)
				return err
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, map[string]any{"sessions": found})
			}
			if search != "" && len(found) == 0 {
				_, err = fmt.Fprintln(a.Stdout, "No session has a text with these words.")
				return err
			}
			return writeSessions(a.Stdout, found, time.Now())
		},
	}
	cmd.Flags().StringVar(&project, "project-id", "", "only the sessions of this project (default: all projects)")
	cmd.Flags().StringVar(&search, "search", "",
		"only sessions with all these words, or beginnings of words, in one text")
	cmd.Flags().IntVar(&limit, "limit", 20, "the most sessions, 1 to 200")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the sessions as one JSON object")
	kit.AddURL(cmd, &address)
	return cmd
}

// maxSessions is the maximum length of a page in the API.
const maxSessions = 200

// listSessions returns the newest sessions: of one project if project is not empty, with the words of search if search
// is not empty.
func listSessions(ctx context.Context, c *client.Client, project, search string, limit int) ([]sessionView, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if project != "" {
		query.Set("project_id", project)
	}
	if search != "" {
		query.Set("q", search)
	}
	page := struct{ Items []sessionView }{Items: []sessionView{}}
	err := c.Do(ctx, http.MethodGet, "/api/v1/sessions?"+query.Encode(), nil, &page)
	return page.Items, err
}

func writeSessions(w io.Writer, list []sessionView, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "There are no sessions.")
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "SESSION\tPROJECT\tSTATE\tMESSAGES\tLAST USED\tNAME")
	for _, s := range list {
		name := ""
		if s.Name != nil {
			name = kit.Brief(*s.Name, 80)
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%s ago\t%s\n", s.ID, s.ProjectID, s.State, s.MessageCount,
			kit.Ago(now, s.UpdatedAt), name)
	}
	return tab.Flush()
}

// sessionDetails is a complete session in the API's form.
type sessionDetails struct {
	sessionView
	EndedAt       *int64  `json:"ended_at"`
	BlockedReason *string `json:"blocked_reason"`
	CurrentRun    *string `json:"current_run"`
	CageStatus    *string `json:"cage_status"`
	Totals        struct {
		TokensIn  int64    `json:"tokens_in"`
		TokensOut int64    `json:"tokens_out"`
		CostUSD   *float64 `json:"cost_usd"`
	} `json:"totals"`
	Budget kit.Budget
	// Window is the use of the root agent's context window, nil if unknown.
	Window *kit.Window `json:"-"`
}

func sessionShow(a kit.App, p *kit.Places) *cobra.Command {
	var address string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show SESSION", Short: "Show a session: its state, its run, its use", Args: oneSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			var raw map[string]any
			var s sessionDetails
			err := a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				path := "/api/v1/sessions/" + url.PathEscape(list[0])
				if asJSON {
					return c.Do(ctx, http.MethodGet, path, nil, &raw)
				}
				if err := c.Do(ctx, http.MethodGet, path, nil, &s); err != nil {
					return err
				}
				s.Window = kit.ReadWindow(ctx, c, list[0], "primary")
				return nil
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, raw)
			}
			return writeDetails(a.Stdout, s)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the API's answer as one JSON object")
	kit.AddURL(cmd, &address)
	return cmd
}

func writeDetails(w io.Writer, s sessionDetails) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(about, format string, args ...any) {
		fmt.Fprintf(tab, "%s\t%s\n", about, fmt.Sprintf(format, args...))
	}
	line("session", "%s", s.ID)
	line("project", "%s", s.ProjectID)
	if s.Name != nil {
		line("name", "%s", kit.Brief(*s.Name, 120))
	}
	line("state", "%s", s.State)
	if s.BlockedReason != nil {
		line("blocked", "%s", *s.BlockedReason)
	}
	if s.CurrentRun != nil {
		line("run", "%s", *s.CurrentRun)
	}
	if s.CageStatus != nil {
		line("cage", "%s", *s.CageStatus)
	}
	line("messages", "%d", s.MessageCount)
	line("tokens", "%d in, %d out", s.Totals.TokensIn, s.Totals.TokensOut)
	if s.Totals.CostUSD != nil {
		line("cost", "$%.4f", *s.Totals.CostUSD)
	}
	if _, limits := s.Budget.Share(); len(limits) > 0 {
		line("budget", "%s", strings.Join(limits, ", "))
	}
	if s.Window != nil {
		line("window", "%s", s.Window)
	}
	line("created", "%s", time.UnixMilli(s.CreatedAt).Format(time.RFC3339))
	line("last used", "%s", time.UnixMilli(s.UpdatedAt).Format(time.RFC3339))
	if s.EndedAt != nil {
		line("ended", "%s", time.UnixMilli(*s.EndedAt).Format(time.RFC3339))
	}
	return tab.Flush()
}

// CancelCommand returns `kaged cancel` or `kaged session cancel`.
func CancelCommand(a kit.App, p *kit.Places) *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "cancel SESSION",
		Short: "Stop the run of a session",
		Long: "Cancels the run of a session and returns when it has ended. The session stays open for the " +
			"next message.",
		Args: oneSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				path := "/api/v1/sessions/" + url.PathEscape(list[0])
				var s sessionDetails
				if err := c.Do(ctx, http.MethodGet, path, nil, &s); err != nil {
					return err
				}
				if s.CurrentRun == nil {
					return fault.New(fault.Conflict, "No run is in progress in session %s; it is %s.", s.ID, s.State)
				}
				var over struct{ State string }
				if err := c.Do(ctx, http.MethodPost, path+"/runs/"+url.PathEscape(*s.CurrentRun)+"/cancel", map[string]any{},
					&over); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.Stdout, "run %s: %s\n", *s.CurrentRun, over.State)
				return err
			})
		},
	}
	kit.AddURL(cmd, &address)
	return cmd
}

func sessionEnd(a kit.App, p *kit.Places) *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "rm SESSION",
		Short: "End a session",
		Long: "Ends a session for good: cancels its run, and kills its commands and cages. Its messages and records stay " +
			"readable.",
		Args: oneSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				if err := c.Do(ctx, http.MethodDelete, "/api/v1/sessions/"+url.PathEscape(list[0])+"?confirm=true", nil,
					nil); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.Stdout, "session %s: ended\n", list[0])
				return err
			})
		},
	}
	kit.AddURL(cmd, &address)
	return cmd
}

func oneSession(cmd *cobra.Command, list []string) error {
	if len(list) != 1 {
		return kit.Misused(cmd, "one session id is needed, as `kaged session list` shows them")
	}
	return nil
}
