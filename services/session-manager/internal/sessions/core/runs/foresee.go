package runs

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// maxAhead bounds the events that are read before the run begins. The harness then waits.
const maxAhead = 16

// foreseeFor is the longest wait of a run's change for the records of its first request. A harness with a longer
// preparation is not delayed by it: its request waits for its own commit.
const foreseeFor = 5 * time.Millisecond

// came is an event of the harness, or the end of its stream.
type came struct {
	contract.Happening
	err error
}

// readAhead reads the events up to the first wanted model call, so that the harness prepares that call while the
// run's row is being stored.
func (r *Run) readAhead() {
	for {
		e := new(came)
		e.Happening, e.err = r.opened.Recv()
		select {
		case r.ahead <- e:
		case <-r.life.Done():
			return
		}
		switch e.Event.(type) {
		case nil, contract.CallWanted, contract.Finished:
			return
		}
	}
}

// next returns the next event of the stream: first those that were read before the run began. The relay calls it.
func (r *Run) next(stream Stream) (contract.Happening, error) {
	if len(r.unread) > 0 {
		e := r.unread[0]
		r.unread = r.unread[1:]
		return e.Happening, e.err
	}
	if e, ok := <-r.ahead; ok {
		return e.Happening, e.err
	}
	return stream.Recv()
}

// Foresee waits until the harness wants the run's first model call, and adds the call's records to c, the change that
// stores the run: one commit then precedes the request. Unless patient is set it does not wait. It adds nothing for a
// run with a budget, which is judged in a transaction of its own, and for a harness that does something else first or
// needs longer than foreseeFor. It is called before Begin, at most once.
func (r *Run) Foresee(ctx context.Context, c *record.Change, patient bool) {
	if r.spec.Metered() || r.spec.Run.Cage == contract.CagePending {
		return
	}
	wait := foreseeFor
	if !patient {
		wait = 0
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	var records []audit.Record
	var head *contract.AuditHead
	for {
		var e *came
		var ok bool
		select {
		case e, ok = <-r.ahead:
		case <-late.C:
		case <-ctx.Done():
		}
		if !ok {
			return
		}
		r.unread = append(r.unread, e)
		if e.err != nil || e.InvocationID != "" {
			return
		}
		switch event := e.Event.(type) {
		case contract.Record:
			records = append(records, r.about(event))
		case contract.AuditMoved:
			head = &event.Head
		case contract.CallWanted:
			s := r.reservation("", event)
			c.Audit = append(append(c.Audit, records...), r.abouts(event.Audit...)...)
			c.Reserved = append(c.Reserved, s)
			if head != nil {
				c.Session.AuditHead = head
			}
			r.unread, r.foreseen = nil, &s
			return
		default:
			return
		}
	}
}

// Dispatch grants the request that Foresee stored, if any, so that the harness sends it. Call it after the commit and
// before Begin. It does not wait for the harness.
func (r *Run) Dispatch() {
	s := r.foreseen
	if s == nil {
		return
	}
	stream, err := r.begin(r.opened, func() error { return nil })
	r.dispatched = &dispatched{stream, err}
	if err != nil {
		return
	}
	crash.At(crash.RequestAudited)
	// The relay notices a broken stream too.
	_ = stream.Grant(s.InvocationID, contract.CallGranted{Call: s.Call})
}

// dispatched is the result of [Run.Dispatch].
type dispatched struct {
	stream Stream
	err    error
}

// unsent returns the settlement of a foreseen request that the harness may not send.
func (r *Run) unsent() []record.Settlement {
	if s := r.foreseen; s != nil && r.dispatched.err != nil {
		return []record.Settlement{{RunID: s.RunID, InvocationID: s.InvocationID, Call: s.Call}}
	}
	return nil
}
