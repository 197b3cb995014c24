package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/frametype"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// Watch shows a session from the present on, run after run, until the session or ctx ends; the end of ctx does not
// affect the session. After a lost connection it resumes at the next frame. On a terminal it asks for approval of
// calls.
func Watch(ctx context.Context, a kit.App, c *client.Client, session string, takeover, asJSON bool) error {
	lost := false
	stream, err := c.Follow(ctx, session, client.FollowOptions{Takeover: takeover, State: func(s client.State) {
		switch {
		case s == client.Waiting:
			fmt.Fprintln(a.Stderr, "kaged: the connection is lost; connecting again")
		case lost:
			fmt.Fprintln(a.Stderr, "kaged: connected again")
		}
		lost = s == client.Waiting
	}})
	if err != nil {
		return busy(err, session)
	}
	defer stream.Close()
	var now struct {
		CurrentRun *struct{ ID string } `json:"current_run"`
	}
	if err := c.Do(ctx, http.MethodGet, "/api/v1/sessions/"+url.PathEscape(session), nil, &now); err != nil {
		return err
	}
	w := &watched{show: newPrinter(a.Stdout, a.Stderr, asJSON)}
	if now.CurrentRun != nil {
		w.run = now.CurrentRun.ID
	}
	if w.show.asks = a.AtTerminal(); w.show.asks {
		w.operator = attend(ctx, a, c, session, w.run, false)
		defer w.operator.leave()
	}
	fmt.Fprintf(a.Stderr, "kaged: attached to session %s; Ctrl-C detaches, and the session goes on\n", session)
	if w.operator != nil && !asJSON && kit.IsTerminal(a.Stdin) {
		w.show.step("(type a line to send it to the agent)")
		w.operator.typing()
	}
	for frame, err := range stream.Frames() {
		switch {
		case errors.Is(err, client.ErrMissed):
			w.show.step("! frames were missed; `kaged session export %s` has the whole conversation", session)
		case err != nil:
			return err
		default:
			w.frame(frame)
		}
	}
	w.show.endLine()
	if ctx.Err() == nil {
		fmt.Fprintln(a.Stderr, "kaged: the session has ended")
	}
	return nil
}

// watched is a session that is being shown.
type watched struct {
	show     *printer
	operator *attendant // nil without a terminal
	run      string     // the active run, or the last one
}

func (w *watched) frame(f client.Frame) {
	var m struct {
		RunID string `json:"run_id"`
	}
	if f.Type == frametype.RunStarted.Name && json.Unmarshal(f.Payload, &m) == nil && m.RunID != w.run {
		w.run, w.show.ended, w.show.written = m.RunID, false, false
	}
	if w.operator != nil {
		w.operator.run = w.run
		w.operator.frame(f)
	}
	if over, outcome := w.show.frame(f, w.run); over {
		w.show.ended, w.show.written = false, false
		w.show.step("run %s", outcome)
	}
}
