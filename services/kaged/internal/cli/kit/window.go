package kit

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"kaged.dev/pkg/client"
)

// Window is the use of the context window of an agent's model, in the API's form.
type Window struct {
	Input    int64    `json:"input_tokens"`
	Window   *int64   `json:"context_window"`
	Fraction float64  `json:"fraction"`
	Error    *float64 `json:"error_fraction"`
}

// ReadWindow returns the use of the context window of a session's root agent. It returns nil if it is unknown, because
// this is no reason to fail.
func ReadWindow(ctx context.Context, c *client.Client, session string) *Window {
	w := new(Window)
	path := "/api/v1/sessions/" + url.PathEscape(session) + "/context-estimate"
	if err := c.Do(ctx, http.MethodGet, path, nil, w); err != nil || w.Input == 0 {
		return nil
	}
	return w
}

// String returns the use in words.
func (w *Window) String() string {
	if w.Window == nil {
		return fmt.Sprintf(
			"about %d tokens; the window is unknown (set context_window of the model in local.toml)", w.Input,
		)
	}
	text := fmt.Sprintf("about %d of %d tokens, %.0f %% with the room for an answer", w.Input, *w.Window, 100*w.Fraction)
	if w.Error != nil {
		text += fmt.Sprintf(" (estimates were off by %.0f %%)", 100**w.Error)
	}
	return text
}
