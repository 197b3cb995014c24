// Package token is `kaged token`.
package token

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
	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// Command is the group of commands about API tokens.
func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("token", "Make, list and revoke API tokens")
	cmd.AddCommand(create(a, p), list(a, p), revoke(a, p))
	return cmd
}

// path is the API path of tokens.
const path = "/api/v1/tokens"

// view is a token in the API's form.
type view struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Scope      string `json:"scope"`
	CreatedAt  int64  `json:"created_at"`
	ExpiresAt  *int64 `json:"expires_at"`
	LastUsedAt *int64 `json:"last_used_at,omitempty"`
	Token      string `json:"token,omitempty"`
}

func create(a kit.App, p *kit.Places) *cobra.Command {
	var scope string
	var expires time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "create NAME",
		Aliases: []string{"new"},
		Short:   "Make a token and print it once",
		Long: "Makes an API token and prints it. It cannot be shown again. Send it as `Authorization: Bearer\n" +
			"TOKEN`, or set KAGED_TOKEN for kaged with --url on another machine. Scopes: read only reads; run\n" +
			"also starts, uses and ends sessions and works on issues; admin also answers approvals and changes\n" +
			"projects. No token can make, list or revoke tokens.",
		Example: "  kaged token create ci --scope run --expires 720h\n" +
			"  curl -H \"Authorization: Bearer $KAGED_TOKEN\" http://127.0.0.1:7420/api/v1/sessions",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) != 1 {
				return kit.Misused(cmd, "one name is needed, such as `kaged token create ci --scope run`")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			if scope != "read" && scope != "run" && scope != "admin" {
				return kit.Misused(cmd, "--scope is %q and must be read, run or admin", scope)
			}
			body := map[string]any{"name": names[0], "scope": scope}
			if cmd.Flags().Changed("expires") {
				if expires <= 0 {
					return kit.Misused(cmd, "--expires is %s and must be more than 0", expires)
				}
				body["expires_at"] = time.Now().Add(expires).UnixMilli()
			}
			var made view
			err := a.Api(cmd, p, "", func(ctx context.Context, c *client.Client) error {
				return c.Do(ctx, http.MethodPost, path, body, &made)
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, made)
			}
			fmt.Fprintf(a.Stderr, "kaged: token %s (%s) is shown this once; revoke it with `kaged token revoke %s`\n",
				made.Name, made.Scope, made.ID)
			_, err = fmt.Fprintln(a.Stdout, made.Token)
			return err
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "read", "its scope: read, run or admin")
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long it is valid, such as 720h (default: until it is revoked)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the token as one JSON object")
	return cmd
}

func list(a kit.App, p *kit.Places) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the tokens that are not revoked, without their secrets", Args: kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var found []view
			err := a.Api(cmd, p, "", func(ctx context.Context, c *client.Client) (err error) {
				found, err = all(ctx, c)
				return err
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, map[string]any{"tokens": found})
			}
			return write(a.Stdout, found, time.Now())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the tokens as one JSON object")
	return cmd
}

func all(ctx context.Context, c *client.Client) ([]view, error) {
	page := struct{ Items []view }{Items: []view{}}
	err := c.Do(ctx, http.MethodGet, path, nil, &page)
	return page.Items, err
}

func write(w io.Writer, found []view, now time.Time) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "There are no tokens; make one with `kaged token create NAME`.")
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "TOKEN\tNAME\tSCOPE\tLAST USED\tEXPIRES")
	for _, t := range found {
		used, expires := "never", "never"
		if t.LastUsedAt != nil {
			used = kit.Ago(now, *t.LastUsedAt) + " ago"
		}
		if t.ExpiresAt != nil {
			expires = time.UnixMilli(*t.ExpiresAt).Format(time.RFC3339)
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", t.ID, kit.Brief(t.Name, 80), t.Scope, used, expires)
	}
	return tab.Flush()
}

func revoke(a kit.App, p *kit.Places) *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN", Short: "Revoke a token, by its id or its name",
		Long: "Revokes a token: later requests with it are refused. Open sockets stay open.",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) != 1 {
				return kit.Misused(cmd, "one id or name is needed, as `kaged token list` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, named []string) error {
			return a.Api(cmd, p, "", func(ctx context.Context, c *client.Client) error {
				found, err := all(ctx, c)
				if err != nil {
					return err
				}
				for _, t := range found {
					if t.ID != named[0] && t.Name != named[0] {
						continue
					}
					if err := c.Do(ctx, http.MethodDelete, path+"/"+url.PathEscape(t.ID), nil, nil); err != nil {
						return err
					}
					_, err := fmt.Fprintf(a.Stdout, "token %s (%s): revoked\n", t.ID, kit.Brief(t.Name, 80))
					return err
				}
				return fault.New(fault.NotFound, "There is no token %q; `kaged token list` shows those there are.", named[0])
			})
		},
	}
}
