package ps

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// spent is the answer of GET /spend: the cost of the model calls since a time.
type spent struct {
	Since   int64      `json:"since"`
	Until   int64      `json:"until"`
	Total   spentSum   `json:"total"`
	Groups  []spentOne `json:"groups"`
	HasMore bool       `json:"has_more"`
}

type spentOne struct {
	ProjectID string   `json:"project_id"`
	Model     string   `json:"model"`
	Sum       spentSum `json:"sum"`
}

type spentSum struct {
	CostUSD   float64 `json:"cost_usd"`
	Tokens    int64   `json:"tokens"`
	Calls     int64   `json:"calls"`
	Estimated int64   `json:"estimated"`
}

// SpendCommand returns `kaged spend`.
func SpendCommand(a kit.App, p *kit.Places) *cobra.Command {
	var since time.Duration
	var address string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "spend",
		Short: "Show the cost of your agents' model calls",
		Long: "Sums up the model calls of your sessions by project and model, the most expensive first.\n" +
			"Calls in flight do not count yet, and calls to models without a known price cost 0.",
		Example: "  kaged spend\n  kaged spend --since 720h",
		Args:    kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= 0 {
				return kit.Misused(cmd, "--since is %s and must be more than 0", since)
			}
			var s spent
			path := fmt.Sprintf("/api/v1/spend?since=%d", max(time.Now().Add(-since).UnixMilli(), 0))
			err := a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				return c.Do(ctx, http.MethodGet, path, nil, &s)
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, s)
			}
			return writeSpent(a.Stdout, s, since)
		},
	}
	cmd.Flags().DurationVar(&since, "since", 24*time.Hour, "how far to look back")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the API's answer as one JSON object")
	kit.AddURL(cmd, &address)
	return cmd
}

// writeSpent writes the sums as a table with the total last.
func writeSpent(w io.Writer, s spent, since time.Duration) error {
	if s.Total.Calls == 0 {
		_, err := fmt.Fprintf(w, "No model calls in the last %s.\n", since)
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "PROJECT\tMODEL\tCALLS\tTOKENS\tUSD")
	line := func(project, model string, sum spentSum) {
		note := ""
		if sum.Estimated > 0 {
			note = fmt.Sprintf("  (%d estimated)", sum.Estimated)
		}
		fmt.Fprintf(tab, "%s\t%s\t%d\t%d\t%.4f%s\n", termtext.Line(project), termtext.Line(model), sum.Calls, sum.Tokens,
			sum.CostUSD, note)
	}
	for _, g := range s.Groups {
		line(g.ProjectID, g.Model, g.Sum)
	}
	if s.HasMore {
		fmt.Fprintln(tab, "...\t\t\t\t")
	}
	line("total", "", s.Total)
	return tab.Flush()
}
