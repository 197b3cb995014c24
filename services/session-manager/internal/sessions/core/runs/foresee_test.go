package runs_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// firstRequest are the events of a harness that comes to its first model call.
var firstRequest = []any{
	contract.Record{Type: "agent.pre_generation"},
	contract.AuditMoved{Head: contract.AuditHead{Hash: "h", Items: 4}},
	contract.CallWanted{Call: 1, Audit: []contract.Record{{Type: "agent.request"}}},
}

// The records of a run's first request are stored with the run's row, and the request is granted only after that. A
// request that is late, and one behind an event that clients are shown, has a commit of its own.
func TestForesee(t *testing.T) {
	for name, tt := range map[string]struct {
		late    time.Duration
		events  []any
		patient bool
		joins   bool
	}{
		"at once":       {0, firstRequest, true, true},
		"late":          {time.Second, firstRequest, true, false},
		"not waited":    {time.Millisecond, firstRequest, false, false},
		"behind a word": {0, append([]any{contract.MessageStart{Provider: "p"}}, firstRequest...), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness()
				r := ready(t, h, false)
				go func() {
					<-time.After(tt.late)
					for _, e := range tt.events {
						h.events <- e
					}
				}()
				var c record.Change
				r.Foresee(t.Context(), &c, tt.patient)
				var audit []string
				for _, a := range c.Audit {
					audit = append(audit, a.EventType)
				}
				joins := slices.Equal(audit, []string{"agent.pre_generation", "agent.request"}) && len(c.Reserved) == 1 &&
					c.Session.AuditHead != nil && c.Session.AuditHead.Items == 4
				if joins != tt.joins || !joins && (len(audit) > 0 || len(c.Reserved) > 0) {
					t.Fatalf("the change has %q, %+v", audit, c.Reserved)
				}
				if len(h.granted) > 0 {
					t.Fatal("the call was granted before the commit")
				}
				r.Dispatch()
				if len(h.granted) > 0 != tt.joins {
					t.Fatal("Dispatch grants a call if and only if it is stored")
				}
				d := &writer{begun: time.Now()}
				r.Begin(d, func(*runs.Run) {})
				if g := <-h.granted; g.Call != 1 || g.Err != nil {
					t.Errorf("granted %+v", g)
				}
				h.events <- turn(1, false)
				h.events <- contract.Finished{Outcome: contract.Completed, Stop: llm.StopEnd}
				<-r.Done()
				alone := 0
				for _, c := range d.changes {
					alone += len(c.Reserved)
				}
				if alone > 0 == tt.joins {
					t.Errorf("%d calls were committed alone: %q", alone, d.said())
				}
			})
		})
	}
}

// Drop withdraws a run from the harness, also after its first events were read.
func TestDropAfterForesee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r := ready(t, h, false)
		go func() { h.events <- firstRequest[2] }()
		r.Foresee(t.Context(), &record.Change{}, true)
		r.Drop()
		if h.taken.Err() == nil || len(h.granted) > 0 {
			t.Errorf("the harness still has the run; %d grants", len(h.granted))
		}
	})
}

// A stored request that the harness was not allowed to send costs nothing.
func TestForeseenAndNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.deaf = errors.New("the harness does not hear")
		r := ready(t, h, false)
		go func() { h.events <- firstRequest[2] }()
		r.Foresee(t.Context(), &record.Change{}, true)
		r.Dispatch()
		d := &writer{begun: time.Now()}
		r.Begin(d, func(*runs.Run) {})
		<-r.Done()
		settled := d.last().Settled
		if len(settled) != 1 || settled[0].Call != 1 || settled[0].Used != (contract.Amount{}) || settled[0].Estimated {
			t.Errorf("settled %+v", settled)
		}
		if len(h.granted) > 0 {
			t.Error("the call was granted")
		}
	})
}
