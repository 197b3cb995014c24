package session

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
	"kaged.dev/pkg/retry"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// ledgerItem is an entry of a ledger in the API's form.
type ledgerItem struct {
	Seq       int64  `json:"seq"`
	At        int64  `json:"at"`
	RunID     string `json:"run_id"`
	Step      int    `json:"step"`
	AgentPath string `json:"agent_path"`
	Kind      string `json:"kind"`
	Path      string `json:"path,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
	Command   string `json:"command,omitempty"`
	ExitCode  *int   `json:"exit_code,omitempty"`
	Text      string `json:"text,omitempty"`
	Done      *bool  `json:"done,omitempty"`
}

func sessionLedger(a kit.App, p *kit.Places) *cobra.Command {
	var address, agent, kind string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ledger SESSION",
		Short: "Show the work, denials and notes of the agents of a session",
		Long: "Shows the ledger of a session, oldest first: files read and changed, commands with their exit\n" +
			"codes, refusals, and the decisions, todos and failures that agents wrote down. Compactions of the\n" +
			"conversation do not change the ledger.",
		Example: "  kaged session ledger SESSION\n  kaged session ledger SESSION --kind todo\n  kaged session ledger " +
			"SESSION --json",
		Args: oneSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			items := []ledgerItem{}
			err := a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) (err error) {
				items, err = ledger(ctx, c, list[0], agent, kind)
				return err
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, map[string]any{"items": items})
			}
			return writeLedger(a.Stdout, items)
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only entries of the agent with this tree path (default: all agents)")
	cmd.Flags().StringVar(&kind, "kind", "",
		"only entries of this kind: file_read, file_changed, command, denied, decision, todo or failed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the entries as one JSON object")
	kit.AddURL(cmd, &address)
	return cmd
}

// ledger reads a ledger, a page at a time.
func ledger(ctx context.Context, c *client.Client, session, agent, kind string) ([]ledgerItem, error) {
	items := []ledgerItem{}
	query := url.Values{"limit": {"200"}, "agent_path": {agent}, "kind": {kind}}
	for {
		var page struct {
			Items      []ledgerItem `json:"items"`
			NextCursor *string      `json:"next_cursor"`
		}
		path := "/api/v1/sessions/" + url.PathEscape(session) + "/ledger?" + query.Encode()
		if err := c.Do(ctx, http.MethodGet, path, nil, &page); err != nil {
			return items, err
		}
		items = append(items, page.Items...)
		if page.NextCursor == nil {
			return items, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

func writeLedger(w io.Writer, items []ledgerItem) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(w, "The ledger is empty.")
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "NO\tSTEP\tAGENT\tKIND\tWHAT")
	for _, i := range items {
		fmt.Fprintf(tab, "%d\t%d\t%s\t%s\t%s\n", i.Seq, i.Step, i.AgentPath, i.Kind, kit.Brief(i.what(), 160))
	}
	return tab.Flush()
}

// what returns the text of an entry.
func (i ledgerItem) what() string {
	switch {
	case i.Kind == "command" && i.ExitCode != nil:
		return fmt.Sprintf("%s (exit %d)", i.Command, *i.ExitCode)
	case i.Kind == "command":
		return i.Command
	case i.Path != "" && i.Text != "":
		return i.Path + " " + i.Text
	case i.Path != "":
		return i.Path
	case i.Done != nil && *i.Done:
		return "[x] " + i.Text
	case i.Done != nil:
		return "[ ] " + i.Text
	}
	return i.Text
}

// compactAnswer is the answer of POST /compact.
type compactAnswer struct {
	CompactionID string `json:"compaction_id"`
	AgentPath    string `json:"agent_path"`
	Strategy     string `json:"strategy"`
	Proposed     *struct {
		Before   float64  `json:"threshold_estimate"`
		After    float64  `json:"after_estimate"`
		Messages []string `json:"superseded_message_ids"`
		Summary  *struct {
			Content string `json:"content"`
		} `json:"summary_message"`
		Cost *float64 `json:"compactor_cost_usd"`
	} `json:"proposed"`
}

// CompactCommand is `kaged compact`.
func CompactCommand(a kit.App, p *kit.Places) *cobra.Command {
	var address, agent, strategy, undone string
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "compact SESSION",
		Short: "Make room in the conversation of a session",
		Long: "Compacts the conversation of an idle session: it replaces the older part by a note with the\n" +
			"session's ledger. The messages stay stored. With --dry-run it prints the plan and makes no change.\n" +
			"With --undo the messages of the agent's last compaction are part of the conversation again.",
		Example: "  kaged compact SESSION --dry-run\n  kaged compact SESSION --strategy drop\n" +
			"  kaged compact SESSION --undo last\n" +
			"  kaged compact SESSION --undo cmp_01K0000000000000000000000A",
		Args: oneSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			if undone != "" {
				if dry || agent != "" || strategy != "" {
					return kit.Misused(cmd, "--undo takes no --dry-run, --agent and --strategy")
				}
				return a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
					return undo(ctx, a.Stdout, c, list[0], undone, asJSON)
				})
			}
			return a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				order := map[string]any{"dry_run": dry}
				if agent != "" {
					order["agent_path"] = agent
				}
				if strategy != "" {
					order["strategy"] = strategy
				}
				return compact(ctx, a, c, list[0], order, asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the tree path of the agent (default: primary)")
	cmd.Flags().StringVar(&strategy, "strategy", "", "drop, summarize or delegate (default: the agent's)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print the plan")
	cmd.Flags().StringVar(&undone, "undo", "",
		"undo this compaction, if it is the agent's last one; last names that of the root agent")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the API's answer as one JSON object")
	kit.AddURL(cmd, &address)
	return cmd
}

// lastCompaction is the value of --undo that names the root agent's last compaction.
const lastCompaction = "last"

// lastOf returns the id of the root agent's last compaction that is not undone.
func lastOf(ctx context.Context, c *client.Client, session string) (string, error) {
	var page struct {
		Items []struct {
			ID       string   `json:"id"`
			UndoneAt *float64 `json:"undone_at"`
		} `json:"items"`
	}
	path := "/api/v1/sessions/" + url.PathEscape(session) + "/compactions?agent_path=primary&limit=200"
	if err := c.Do(ctx, http.MethodGet, path, nil, &page); err != nil {
		return "", err
	}
	for _, i := range page.Items {
		if i.UndoneAt == nil {
			return i.ID, nil
		}
	}
	return "", fault.New(fault.NotFound, "The session has no compaction to undo.")
}

// undo takes a compaction back.
func undo(ctx context.Context, w io.Writer, c *client.Client, session, id string, asJSON bool) error {
	if id == lastCompaction {
		var err error
		if id, err = lastOf(ctx, c, session); err != nil {
			return err
		}
	}
	path := "/api/v1/sessions/" + url.PathEscape(session) + "/compactions/" + url.PathEscape(id) + "/undo"
	var raw map[string]any
	if err := c.Do(ctx, http.MethodPost, path, nil, &raw); err != nil {
		return err
	}
	if asJSON {
		return kit.WriteJSON(w, raw)
	}
	count, _ := raw["superseded_count"].(float64)
	_, err := fmt.Fprintf(w, "%s is undone; the conversation has %s again.\n", id,
		kit.Count(int(count), "message", "messages"))
	return err
}

// compact requests a compaction and, unless it is a dry run, waits for its end.
func compact(ctx context.Context, a kit.App, c *client.Client, session string, order map[string]any,
	asJSON bool,
) error {
	path := "/api/v1/sessions/" + url.PathEscape(session)
	var raw map[string]any
	if order["dry_run"] == true && asJSON {
		if err := c.Do(ctx, http.MethodPost, path+"/compact", order, &raw); err != nil {
			return err
		}
		return kit.WriteJSON(a.Stdout, raw)
	}
	var answer compactAnswer
	if order["dry_run"] == true {
		if err := c.Do(ctx, http.MethodPost, path+"/compact", order, &answer); err != nil {
			return err
		}
		return answer.write(a.Stdout, kit.ReadWindow(ctx, c, session, answer.AgentPath))
	}
	if err := c.Do(ctx, http.MethodPost, path+"/compact", order, &answer); err != nil {
		return err
	}
	return answer.follow(ctx, a, c, session, asJSON)
}

// write prints a proposal.
func (n compactAnswer) write(w io.Writer, window *kit.Window) error {
	p := n.Proposed
	if p == nil || len(p.Messages) == 0 {
		_, err := fmt.Fprintf(w, "No part of the conversation of %s can be compacted.\n", n.AgentPath)
		return err
	}
	fmt.Fprintf(w, "%s would take the conversation of %s from %s to %s of %s, and replace parts of %s.\n",
		n.Strategy, n.AgentPath, percent(p.Before), percent(p.After), window.Name(),
		kit.Count(len(p.Messages), "message", "messages"))
	if p.Cost != nil {
		fmt.Fprintf(w, "The summary would cost about $%.4f.\n", *p.Cost)
	}
	if p.Summary != nil {
		fmt.Fprintf(w, "\nIn their place:\n\n%s\n", p.Summary.Content)
	}
	return nil
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// poll is the pause between two requests about a running compaction.
const poll = 200 * time.Millisecond

// follow waits until a compaction is over. It reads the records, because another client may use the session's socket.
func (n compactAnswer) follow(ctx context.Context, a kit.App, c *client.Client, session string, asJSON bool) error {
	path := "/api/v1/sessions/" + url.PathEscape(session) + "/compactions/" + url.PathEscape(n.CompactionID)
	for {
		var raw map[string]any
		err := c.Do(ctx, http.MethodGet, path, nil, &raw)
		if err == nil && asJSON {
			return kit.WriteJSON(a.Stdout, raw)
		}
		if err == nil {
			return n.finished(a.Stdout, session, raw, kit.ReadWindow(ctx, c, session, n.AgentPath))
		}
		if fault.CodeOf(err) != fault.NotFound {
			return err
		}
		if reason, over, err := n.ended(ctx, c, session); err != nil || over {
			if err == nil {
				err = fault.New(fault.Conflict, "The conversation was not compacted: %s", reason)
			}
			return err
		}
		if !retry.Wait(ctx, poll) {
			return ctx.Err()
		}
	}
}

// finished prints the effect of a compaction.
func (n compactAnswer) finished(w io.Writer, session string, raw map[string]any, window *kit.Window) error {
	before, _ := raw["threshold_estimate"].(float64)
	after, _ := raw["after_estimate"].(float64)
	count, _ := raw["superseded_count"].(float64)
	_, err := fmt.Fprintf(w, "%s: from %s to %s of %s; %s replaced (undo: kaged compact %s --undo %s).\n",
		n.Strategy, percent(before), percent(after), window.Name(), kit.Count(int(count), "message", "messages"),
		session, n.CompactionID)
	if reason, ok := raw["fallback_reason"].(string); ok && err == nil {
		_, err = fmt.Fprintf(w, "drop was used instead of %s: %s\n", n.Strategy, reason)
	}
	return err
}

// ended returns the reason why a compaction ended without effect.
func (n compactAnswer) ended(ctx context.Context, c *client.Client, session string) (reason string, over bool,
	err error,
) {
	query := url.Values{"session": {session}, "event_type": {"compaction.failed,compaction.noop"}, "limit": {"20"}}
	var page struct {
		Items []struct {
			Payload struct {
				ID       string `json:"compaction_id"`
				Reason   string `json:"reason"`
				Fallback string `json:"fallback_strategy"`
			} `json:"payload"`
		} `json:"items"`
	}
	if err := c.Do(ctx, http.MethodGet, "/api/v1/audit?"+query.Encode(), nil, &page); err != nil {
		return "", false, err
	}
	for _, i := range page.Items {
		if i.Payload.ID == n.CompactionID && i.Payload.Fallback == "" {
			return i.Payload.Reason, true, nil
		}
	}
	return "", false, nil
}
