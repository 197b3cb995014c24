package runs

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

const (
	// joinWait is how long a message waits for the first request of its run.
	joinWait = 4 * time.Millisecond
	// joinMessages is the longest conversation whose first request is waited for: that of a longer one takes too long.
	joinMessages = 200
)

// received is an event of a run, or why none comes any more.
type received struct {
	contract.Happening
	err error
}

// readAhead reads the events of a run that has not begun. The first one after [Run.Begin] is its last.
func (r *Run) readAhead() {
	defer close(r.ahead)
	if r.unready != nil {
		return
	}
	for {
		h, err := r.opened.Recv()
		select {
		case r.ahead <- received{h, err}:
		case <-r.life.Done():
			return
		}
		if _, over := h.Event.(contract.Finished); over || err != nil {
			return
		}
		select {
		case <-r.begun:
			return
		default:
		}
	}
}

// next returns the next event of a run that has begun. It is for the relay.
func (r *Run) next() (contract.Happening, error) {
	if len(r.pending) > 0 {
		e := r.pending[0]
		r.pending = r.pending[1:]
		return e.Happening, e.err
	}
	if e, ok := <-r.ahead; ok {
		return e.Happening, e.err
	}
	return r.opened.Recv()
}

// Join adds the first request of the run to the change that stores its row, if the harness comes to it within a few
// milliseconds: its record is then committed with the run. It is left out where a budget has to allow the request, and
// where the run's cage is made before. It is called once, between [Ready] and [Run.Begin].
func (r *Run) Join(ctx context.Context, c *record.Change) {
	if r.spec.Metered() || r.spec.Run.Cage == contract.CagePending || len(r.spec.Stored) > joinMessages {
		return
	}
	timer := time.NewTimer(joinWait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case e, ok := <-r.ahead:
			if !ok {
				return
			}
			r.pending = append(r.pending, e)
			if e.err != nil || e.InvocationID != "" {
				return
			}
			switch e.Event.(type) {
			case contract.Record, contract.AuditMoved, contract.SessionStarted:
			case contract.CallWanted:
				r.join(c)
				return
			default:
				return
			}
		}
	}
}

// join moves the events that were read, up to and with a model call that is wanted, into a change.
func (r *Run) join(c *record.Change) {
	l := relay{Run: r}
	for _, p := range r.pending {
		switch e := p.Event.(type) {
		case contract.Record:
			c.Audit = append(c.Audit, l.about(e))
		case contract.AuditMoved:
			c.Session.AuditHead = &e.Head
		case contract.SessionStarted:
			c.Session.Injections = &e.Injections
		case contract.CallWanted:
			c.Audit = append(c.Audit, l.abouts(e.Audit...)...)
			c.Reserved = append(c.Reserved, r.spend("", e))
			r.joined = e.Call
		}
	}
	r.pending = nil
}
