package session

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// posted is the answer to a message.
type posted struct {
	ID      string `json:"id"`
	RunID   string `json:"run_id"`
	Steered bool   `json:"steered"`
	Queued  bool   `json:"queued"`
}

func sessionSteer(a kit.App, p *kit.Places) *cobra.Command {
	var address string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "steer SESSION MESSAGE|-", Short: "Send a message to the working run, which reads it at its next " +
			"step",
		Long: "Sends a message to a session with a working run. The root agent reads it at its next step, " +
			"after\n" +
			"the results of its tools. If the run completes before, the message starts the next run; if it\n" +
			"fails or is cancelled, the model reads the message together with your next one. In a session\n" +
			"without a run the message starts one.",
		Example: "  kaged session steer 01K9ZD6Y5C \"Use tabs, and leave the tests alone.\"",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) < 2 {
				return kit.Misused(cmd, "a session and a message are needed, such as `kaged session steer ID \"Use tabs.\"`")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			content := strings.Join(list[1:], " ")
			if content == "-" {
				text, err := io.ReadAll(a.Stdin)
				if err != nil {
					return err
				}
				content = string(text)
			}
			var sent posted
			err := a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				path := "/api/v1/sessions/" + url.PathEscape(list[0]) + "/messages"
				return c.Do(ctx, http.MethodPost, path, map[string]any{"content": content, "steer": true}, &sent)
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return kit.WriteJSON(a.Stdout, sent)
			}
			_, err = fmt.Fprintln(a.Stdout, sent.sentence())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as one JSON object")
	kit.AddURL(cmd, &address)
	return cmd
}

// sentence returns the delivery of the message in words.
func (m posted) sentence() string {
	switch {
	case m.Steered:
		return fmt.Sprintf("message %s: run %s reads it at its next step", m.ID, m.RunID)
	case m.Queued:
		return fmt.Sprintf("message %s: run %s waits for a slot", m.ID, m.RunID)
	}
	return fmt.Sprintf("message %s: run %s answers it; no run was at work", m.ID, m.RunID)
}
