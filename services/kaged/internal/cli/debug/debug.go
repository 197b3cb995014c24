// Package debug is `kaged debug`: it shows and controls a program that an agent debugs.
package debug

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// maxWait is the maximum time to wait for a stop that the API allows.
const maxWait = 30 * time.Second

// api accesses the debug sessions of a session.
type api struct {
	client *client.Client
	path   string
	id     string // the id of the debug session, "" for the last active one
}

// look returns the view of a frame, with output from an offset.
func (d api) look(ctx context.Context, frame int, from int64) (seen seen, err error) {
	query := url.Values{}
	query.Set("frame_id", strconv.Itoa(frame))
	query.Set("output_from", strconv.FormatInt(from, 10))
	if d.id != "" {
		query.Set("debug_session_id", d.id)
	}
	return seen, d.client.Do(ctx, http.MethodGet, d.path+"?"+query.Encode(), nil, &seen)
}

// move moves the program, or evaluates an expression in a frame.
func (d api) move(ctx context.Context, action, expression string, frame int, wait time.Duration) (m moved, err error) {
	request := map[string]any{"action": action, "timeout": wait.Milliseconds()}
	if d.id != "" {
		request["debug_session_id"] = d.id
	}
	if action == evaluate {
		request["expression"], request["frame_id"] = expression, frame
	}
	return m, d.client.Do(ctx, http.MethodPost, d.path, request, &m)
}

// evaluate is the action with an expression.
const evaluate = "evaluate"

// wanted has the flags of the command.
type wanted struct {
	id, address, expression                       string
	frame                                         int
	from                                          int64
	wait                                          time.Duration
	pause, goOn, over, into, out, asJSON, onlyNow bool
}

// action returns the action that the flags select, "" without a flag. It fails for more than one.
func (w *wanted) action(cmd *cobra.Command) (string, error) {
	action := ""
	for _, a := range []struct {
		name string
		set  bool
	}{
		{"pause", w.pause},
		{"continue", w.goOn},
		{"step_over", w.over},
		{"step_into", w.into},
		{"step_out", w.out},
		{evaluate, w.expression != ""},
	} {
		switch {
		case a.set && action != "":
			return "", kit.Misused(cmd, "give only one move, such as --pause")
		case a.set:
			action = a.name
		}
	}
	switch {
	case w.wait < time.Millisecond || w.wait > maxWait:
		return "", kit.Misused(cmd, "--wait is %s and must be from 1ms to %s", w.wait, maxWait)
	case w.frame < 0 || w.from < 0:
		return "", kit.Misused(cmd, "--frame and --output-from must not be negative")
	}
	return action, nil
}

// Command returns `kaged debug`.
func Command(a kit.App, p *kit.Places) *cobra.Command {
	var w wanted
	cmd := &cobra.Command{
		Use:   "debug SESSION",
		Short: "Watch and step a program that an agent debugs",
		Long: "Shows the program that an agent of the session debugs: source line, stack, variables, " +
			"breakpoints\n" +
			"and output. On a terminal it follows the program, and keys control it; ? lists the keys. Without " +
			"a\n" +
			"terminal, or with a flag that moves the program, it shows the state once. The agent's next result\n" +
			"names the operator that moved its program.",
		Example: "  kaged debug 01K0000000000000000000000A\n  kaged debug 01K0000000000000000000000A --once --json\n" +
			"  kaged debug 01K0000000000000000000000A --pause\n  kaged debug 01K0000000000000000000000A --evaluate 'len(list)'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action, err := w.action(cmd)
			if err != nil {
				return err
			}
			return a.Api(cmd, p, w.address, func(ctx context.Context, c *client.Client) error {
				at := api{c, "/api/v1/sessions/" + url.PathEscape(args[0]) + "/debug", w.id}
				if action == "" && !w.asJSON && !w.onlyNow && kit.IsTerminal(a.Stdin) && kit.IsTerminal(a.Stdout) {
					return onTerminal(ctx, a, at, w.frame)
				}
				return once(ctx, a, at, action, w)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.id, "debug-session", "", "the debug session (default: the last active one)")
	f.IntVar(&w.frame, "frame", 0, "the frame to show, with source and variables, from 0, the top")
	f.Int64Var(&w.from, "output-from", 0, "the first byte of output to show: \"next\" of an earlier answer")
	f.BoolVar(&w.pause, "pause", false, "pause the program")
	f.BoolVar(&w.goOn, "continue", false, "continue the program")
	f.BoolVar(&w.over, "step-over", false, "step to the next line")
	f.BoolVar(&w.into, "step-into", false, "step into a call")
	f.BoolVar(&w.out, "step-out", false, "step out of the function")
	f.StringVar(&w.expression, "evaluate", "", "evaluate an expression in the frame")
	f.DurationVar(&w.wait, "wait", time.Second, "how long to wait for the next stop after a move")
	f.BoolVar(&w.onlyNow, "once", false, "show the state once, also on a terminal")
	f.BoolVar(&w.asJSON, "json", false, "print the answer of the API as one JSON object")
	kit.AddURL(cmd, &w.address)
	return cmd
}

// once makes the move of the flags, if there is one, and prints the state.
func once(ctx context.Context, a kit.App, at api, action string, w wanted) error {
	if action != "" {
		m, err := at.move(ctx, action, w.expression, w.frame, w.wait)
		switch {
		case err != nil:
			return err
		case w.asJSON:
			return kit.WriteJSON(a.Stdout, m)
		case m.Result != nil:
			return write(a.Stdout, []string{value(*m.Result)})
		}
	}
	seen, err := at.look(ctx, w.frame, w.from)
	if err != nil {
		return err
	}
	if w.asJSON {
		return kit.WriteJSON(a.Stdout, seen)
	}
	return write(a.Stdout, page(seen, tail(seen, ""), maxOutput))
}

// onTerminal follows the program until the operator leaves.
func onTerminal(ctx context.Context, a kit.App, at api, frame int) error {
	in := a.Stdin.(*os.File)
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(in.Fd()), state) }() // the terminal may be gone
	s := &screen{
		at: at, out: kit.Raw(a.Stdout), frame: frame, every: time.NewTicker(refresh).C,
		size: func() (int, int) {
			columns, rows, err := term.GetSize(int(in.Fd()))
			if err != nil || columns < 20 || rows < 5 {
				return 80, 24
			}
			return columns, rows
		},
	}
	return s.follow(ctx, in)
}
