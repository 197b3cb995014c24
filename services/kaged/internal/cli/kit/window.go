package kit

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/contract"
)

// Window is the use of the context window of an agent's model, in the API's form.
type Window struct {
	Input    int64    `json:"input_tokens"`
	Reserved int64    `json:"reserved_output_tokens"`
	Window   *int64   `json:"context_window"`
	Fraction float64  `json:"fraction"`
	Error    *float64 `json:"error_fraction"`
}

// ReadWindow returns the use of the context window of an agent of a session, by the agent's tree path. It returns nil
// if the use is unknown, because this is no reason to fail.
func ReadWindow(ctx context.Context, c *client.Client, session, agent string) *Window {
	w := new(Window)
	path := "/api/v1/sessions/" + url.PathEscape(session) + "/context-estimate?agent_path=" + url.QueryEscape(agent)
	if err := c.Do(ctx, http.MethodGet, path, nil, w); err != nil || w.Input == 0 {
		return nil
	}
	return w
}

// Name returns the window in words. An unknown one is named by the assumed size, of which kaged gives shares.
func (w *Window) Name() string {
	if w != nil && w.Window == nil {
		return fmt.Sprintf("%d assumed tokens (the window is unknown; set context_window of the model in local.toml)",
			contract.AssumedWindow)
	}
	return "the window"
}

// String returns the use in words.
func (w *Window) String() string {
	if w.Window == nil {
		share := float64(w.Input+w.Reserved) / contract.AssumedWindow
		return fmt.Sprintf("about %d tokens, %.0f %% of %s with the room for an answer", w.Input, 100*share, w.Name())
	}
	text := fmt.Sprintf("about %d of %d tokens, %.0f %% with the room for an answer", w.Input, *w.Window, 100*w.Fraction)
	if w.Error != nil {
		text += fmt.Sprintf(" (estimates were off by %.0f %%)", 100**w.Error)
	}
	return text
}
