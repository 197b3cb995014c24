package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// posted is the answer to a message.
type posted struct {
	RunID        string `json:"run_id"`
	Queued       bool
	Reason       string
	RunningCount int `json:"running_count"`
	Limit        int
}

// slots are the pauses between the requests for a slot.
var slots = retry.Pauses{First: 250 * time.Millisecond, Last: 2 * time.Second}

// awaitSlot prints that the run waits for a slot, and resumes the run in the background when there is one, until stop
// is called, which waits for the goroutine. A session that is no longer queued needs no slot.
func (p posted) awaitSlot(ctx context.Context, a kit.App, c *client.Client, session string) (stop func()) {
	where := "of the project"
	if p.Reason == "per_operator" {
		where = "of yours"
	}
	fmt.Fprintf(a.Stderr, "kaged: queued: %d of %d sessions %s are at work; waiting for one to end (Ctrl-C "+
		"withdraws the message)\n",
		p.RunningCount, p.Limit, where)
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		for range slots.Each(ctx) {
			err := c.Do(ctx, http.MethodPost, "/api/v1/sessions/"+session+"/resume", nil, nil)
			if err == nil {
				fmt.Fprintln(a.Stderr, "kaged: a slot is free; the run begins")
				return
			}
			switch reason, _ := fault.From(err).Details["reason"].(string); {
			case errors.Is(err, fault.Unavailable), reason == "per_project", reason == "per_operator":
				// another try
			default:
				return // its frames show the result
			}
		}
	})
	return func() { cancel(); asking.Wait() }
}
