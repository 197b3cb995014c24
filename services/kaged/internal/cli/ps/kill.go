package ps

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// KillCommand returns `kaged kill`.
func KillCommand(a kit.App, p *kit.Places) *cobra.Command {
	var signal, address string
	cmd := &cobra.Command{
		Use:   "kill PID",
		Short: "Send a signal to a command that an agent has started",
		Long: "Sends a signal to a command and everything in its process group. PID is as `kaged ps` shows " +
			"it, or\n" +
			"the process's id. The agent's run continues and reads how the command ended. `kaged cancel\n" +
			"SESSION` stops a run. The signals are TERM, INT, KILL, HUP, QUIT, ABRT, STOP, CONT, USR1 and USR2.",
		Example: "  kaged kill 4711\n  kaged kill --signal INT 4711",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) != 1 {
				return kit.Misused(cmd, "one PID is needed, as `kaged ps` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				return kill(ctx, a, c, list[0], signalName(signal))
			})
		},
	}
	cmd.Flags().StringVar(&signal, "signal", "TERM", "the signal's name")
	kit.AddURL(cmd, &address)
	return cmd
}

// signalName returns a signal's full name: people write term, TERM and SIGTERM.
func signalName(given string) string {
	return "SIG" + strings.TrimPrefix(strings.ToUpper(given), "SIG")
}

// kill sends a signal to the command with this PID or id.
func kill(ctx context.Context, a kit.App, c *client.Client, which, signal string) error {
	var now running
	if err := c.Do(ctx, http.MethodGet, "/api/v1/processes", nil, &now); err != nil {
		return err
	}
	for _, process := range now.Processes {
		if process.ID != which && strconv.FormatInt(process.PID, 10) != which {
			continue
		}
		path := fmt.Sprintf("/api/v1/sessions/%s/processes/%s/signal",
			url.PathEscape(process.SessionID), url.PathEscape(process.ID))
		if err := c.Do(ctx, http.MethodPost, path, map[string]any{"signal": signal}, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.Stdout, "%s to %d: %s\n", signal, process.PID, kit.Brief(process.Command, 100))
		return err
	}
	return fault.New(fault.ProcessNotFound,
		"No command of your sessions has the PID %.40q; `kaged ps` lists the running ones.", which)
}
