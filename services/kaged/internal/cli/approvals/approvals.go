// Package approvals is `kaged approvals`.
package approvals

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// Command is the group of commands about standing approvals.
func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("approvals", "List and revoke standing approvals, which allow calls without a question")
	cmd.AddCommand(list(a, p), revoke(a, p))
	return cmd
}

// path is the API path of standing approvals.
const path = "/api/v1/standing-approvals"

// view is a standing approval in the API's form.
type view struct {
	ID         string  `json:"id"`
	ProjectID  string  `json:"project_id"`
	Scope      string  `json:"scope"`
	SessionID  *string `json:"session_id"`
	Kind       string  `json:"kind"`
	Text       string  `json:"text"`
	CreatedAt  int64   `json:"created_at"`
	CreatedBy  string  `json:"created_by"`
	RevokedAt  *int64  `json:"revoked_at"`
	RevokedBy  *string `json:"revoked_by"`
	Used       int64   `json:"used"`
	LastUsedAt *int64  `json:"last_used_at"`
}

func list(a kit.App, p *kit.Places) *cobra.Command {
	var project, session string
	var revoked, asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List standing approvals, newest first", Args: kit.Nothing,
		Long: "Lists the standing approvals that are in force. A standing approval is an answer that an " +
			"operator\n" +
			"gave, in `kaged run` or the console, for a whole session or project.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var found []view
			err := a.Api(cmd, p, "", func(ctx context.Context, c *client.Client) (err error) {
				found, err = all(ctx, c, project, session, revoked)
				return err
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, map[string]any{"standing_approvals": found})
			}
			return write(a.Stdout, found, time.Now())
		},
	}
	cmd.Flags().StringVar(&project, "project", "", "list only approvals of this project, by its id")
	cmd.Flags().StringVar(&session, "session", "", "list only approvals of this session")
	cmd.Flags().BoolVar(&revoked, "revoked", false, "also list revoked approvals")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as one JSON object")
	return cmd
}

// all reads every page.
func all(ctx context.Context, c *client.Client, project, session string, revoked bool) ([]view, error) {
	found := []view{}
	query := url.Values{
		"limit": {"200"}, "project_id": {project}, "session_id": {session},
		"revoked": {fmt.Sprint(revoked)},
	}
	for {
		var page struct {
			Items      []view
			NextCursor *string `json:"next_cursor"`
		}
		if err := c.Do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		found = append(found, page.Items...)
		if page.NextCursor == nil {
			return found, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

func write(w io.Writer, found []view, now time.Time) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "There are no standing approvals; answer a question with s1 or p1 to make one.")
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "APPROVAL\tPROJECT\tSCOPE\tUSED\tALLOWS")
	for _, v := range found {
		used := fmt.Sprint(v.Used)
		if v.LastUsedAt != nil {
			used += ", " + kit.Ago(now, *v.LastUsedAt) + " ago"
		}
		scope := v.Scope
		if v.RevokedAt != nil {
			scope += " (revoked)"
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", v.ID, kit.Brief(v.ProjectID, 80), scope, used, kit.Brief(v.Text, 400))
	}
	return tab.Flush()
}

func revoke(a kit.App, p *kit.Places) *cobra.Command {
	return &cobra.Command{
		Use: "revoke APPROVAL...", Short: "Revoke standing approvals, by their ids",
		Long: "Revokes standing approvals: kaged asks again about the calls that they allowed.",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) == 0 {
				return kit.Misused(cmd, "at least one id is needed, as `kaged approvals list` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.Api(cmd, p, "", func(ctx context.Context, c *client.Client) error {
				for _, id := range ids {
					var v view
					if err := c.Do(ctx, http.MethodDelete, path+"/"+url.PathEscape(id), nil, &v); err != nil {
						return err
					}
					if _, err := fmt.Fprintf(a.Stdout, "standing approval %s: revoked. It allowed: %s\n", v.ID, kit.Brief(v.Text,
						400)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
