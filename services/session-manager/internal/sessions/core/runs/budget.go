package runs

import (
	"errors"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// showEvery is the least interval at which the budgets are shown, except for refusals.
const showEvery = time.Second

// wanted handles a model call that is about to be made. The call waits until its audit record is stored, and in a
// run with a budget until the budgets allow it.
func (l *relay) wanted(invocation string, e contract.CallWanted) error {
	s := l.reservation(invocation, e)
	j := job{audit: l.abouts(e.Audit...), now: true}
	if l.spec.Metered() {
		j.claim = &record.Claim{Spend: s, Unpriced: e.Unpriced}
	} else {
		j.reserved, j.granted = []record.Spend{s}, []record.Spend{s}
	}
	l.keep(j)
	return l.settle(false)
}

// reservation returns the row of a model call that is about to be made.
func (r *Run) reservation(invocation string, e contract.CallWanted) record.Spend {
	return record.Spend{
		RunID: r.ID(), InvocationID: invocation, Call: e.Call, SessionID: r.spec.Session.ID, Owner: r.spec.Session.Owner,
		AgentPath: e.Agent, Model: e.Model, Reserved: e.Amount, At: now(),
	}
}

// settled handles the use of a model call. The use for a turn is stored with the turn.
func (l *relay) settled(a *agent, e contract.CallSettled) {
	s := record.Settlement{RunID: l.ID(), InvocationID: a.ID, Call: e.Call, Used: e.Amount, Estimated: e.Estimated}
	if e.OfTurn {
		a.settled = append(a.settled, s)
		return
	}
	l.keep(job{settled: []record.Settlement{s}})
}

// judge checks a call against the budgets and sends the verdict to the harness.
func (k *keeper) judge(c record.Claim) error {
	cfg, err := k.Config.Config(k.life, k.spec.Session.Owner)
	if err != nil {
		cfg = k.spec.Inputs.Config // it cannot be read now
	}
	c.Worked = k.worked.total()
	c.Operator, c.Since = cfg.Budget(), cfg.BudgetSince(time.Now())
	v, err := k.writer.Reserve(k.life, c)
	if err != nil {
		return err
	}
	crash.At(crash.BudgetGranted)
	k.timed(v)
	k.show(c.InvocationID, v)
	k.grant(c.Spend, v)
	return nil
}

// grant sends the verdict on a model call to the harness. A broken stream is left to the relay, which notices it
// too.
func (k *keeper) grant(s record.Spend, v record.Verdict) {
	k.mu.Lock()
	stream := k.stream
	k.mu.Unlock()
	_ = stream.Grant(s.InvocationID, contract.CallGranted{Call: s.Call, Err: v.Refused, Waits: v.Waits})
}

// timed ends the run when the working time of its session is used up.
func (k *keeper) timed(v record.Verdict) {
	if v.Walltime == 0 {
		k.worked.bound(0, nil)
		return
	}
	k.worked.bound(v.Left, func() {
		k.end(record.Overtime(v.Walltime, v.Walltime), "The session's time of work is used up.")
	})
}

// overtime returns reason if the session's working time is used up, else nil.
func overtime(reason error) *fault.Error {
	f := new(fault.Error)
	if errors.As(reason, &f) && f.Code == fault.BudgetExceeded {
		return f
	}
	return nil
}

// refused audits that a budget ends the run.
func (l *relay) refused(f *fault.Error) {
	payload := map[string]any{"run_id": l.ID(), "session_id": l.spec.Session.ID, "reason": f.Msg}
	for _, key := range []string{"scope", "resource", "limit", "spent"} {
		payload[key] = f.Details[key]
	}
	l.record(contract.NewRecord(contract.BudgetRefused, string(record.Primary), payload))
}

// show shows the budgets that a call was checked against.
func (k *keeper) show(invocation string, v record.Verdict) {
	if v.Refused == nil && time.Since(k.shown) < showEvery {
		return
	}
	k.shown = time.Now()
	for _, state := range v.States {
		f, err := frames.Render(k.Renderer, nil, frames.Told{RunID: k.ID(), InvocationID: invocation, Event: state})
		if err == nil {
			err = k.writer.Emit(k.patience, f)
		}
		if err != nil {
			return // the run is ending
		}
	}
}
