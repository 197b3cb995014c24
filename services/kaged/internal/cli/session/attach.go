package session

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/cli/run"
)

func sessionAttach(a kit.App, p *kit.Places) *cobra.Command {
	var process, escape, address string
	var takeover, asJSON bool
	cmd := &cobra.Command{
		Use:   "attach [--pty PROCESS] [SESSION]",
		Short: "Watch a session, or attach this terminal to a background process of an agent",
		Long: "Shows a session from now on, as `kaged run` does, and asks about calls that need approval. It\n" +
			"reconnects after a loss and misses no frame. A typed line is sent to the agent: a working run\n" +
			"reads it at its next step; without a run it starts one. Ctrl-C detaches, and the session\n" +
			"continues.\n\n" +
			"With --pty it shows the terminal of a background process that an agent has started, with its kept\n" +
			"output, and sends your input to it. PROCESS is its PID or id in `kaged ps`. The process's " +
			"terminal\n" +
			"gets the size of this one. Several terminals and the console may be attached to a process at " +
			"once.\n" +
			"The escape key detaches, and the process continues. Input is recorded in the audit log, except\n" +
			"hidden lines such as passwords. Commands of the process for the title, clipboard and window are\n" +
			"removed.",
		Example: "  kaged session attach SESSION\n  kaged ps\n" +
			"  kaged session attach --pty 4711\n  kaged session attach --pty 4711 --escape ctrl-a",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) > 1 {
				return kit.Misused(cmd, "at most one session id is taken")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			if process == "" && len(list) == 0 {
				return kit.Misused(cmd, "a session is needed, as `kaged session list` shows it, or --pty with the PID of a "+
					"background process, as `kaged ps` shows it")
			}
			if process == "" {
				return a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
					return run.Watch(ctx, a, c, list[0], takeover, asJSON)
				})
			}
			key, ok := keyOf(escape)
			if !ok {
				return kit.Misused(cmd,
					"--escape is %q and must be ctrl-a to ctrl-z, ctrl-], ctrl-\\, ctrl-^, ctrl-_ or none", escape)
			}
			if _, isFile := a.Stdin.(*os.File); !isFile || !kit.IsTerminal(a.Stdin) || !kit.IsTerminal(a.Stdout) {
				return kit.Misused(cmd, "--pty needs a terminal on stdin and stdout")
			}
			session := ""
			if len(list) == 1 {
				session = list[0]
			}
			return a.Api(cmd, p, address, func(ctx context.Context, c *client.Client) error {
				found, err := findProcess(ctx, c, session, process)
				if err != nil {
					return err
				}
				return showProcess(ctx, a, c, found, key)
			})
		},
	}
	cmd.Flags().StringVar(&process, "pty", "", "the background process: its PID or id")
	cmd.Flags().BoolVar(&takeover, "takeover", false,
		"attach to the session even if another client is attached; its connection ends")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session's frames as JSON lines instead of text")
	cmd.Flags().StringVar(&escape, "escape", "ctrl-]", "the key that detaches, or none")
	kit.AddURL(cmd, &address)
	return cmd
}

// keyOf returns the byte of a control key; none is 0.
func keyOf(name string) (key byte, ok bool) {
	if name == "none" {
		return 0, true
	}
	const prefix = "ctrl-"
	if len(name) != len(prefix)+1 || name[:len(prefix)] != prefix {
		return 0, false
	}
	switch c := name[len(prefix)]; {
	case c >= 'a' && c <= 'z':
		return c - 'a' + 1, true
	case c >= '\\' && c <= '_':
		return c - '@', true
	}
	return 0, false
}

// keyName returns the name of a control key.
func keyName(key byte) string {
	switch {
	case key == 0:
		return "its end"
	case key <= 26:
		return fmt.Sprintf("Ctrl-%c", key+'A'-1)
	}
	return fmt.Sprintf("Ctrl-%c", key+'@')
}
