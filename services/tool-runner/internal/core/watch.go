package core

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Late is the record of a process or a debug session that ended between calls. Its id is the process's id.
type Late struct {
	ID, Session, Run string
	Record           contract.Record
}

// Watch reports, until ctx ends, each process and debug session that ended while no run of its session was held, once
// each. Another Watch repeats a record that [Runner.Told] has not acknowledged. First, and at the begin of
// [Runner.Drain], it reports the state of the workspace. Watch returns the errors of state and tell, and unavailable
// when the runner stops.
//
// The end of the last watch means that the sessions have ended, perhaps by a crash. It ends the language servers.
func (r *Runner) Watch(ctx context.Context, state func(draining bool) error, tell func(Late) error) error {
	r.watchers.Add(1)
	defer r.leave(ctx, &r.watchers)
	leaving := r.leaving
	select {
	case <-leaving:
		leaving = nil
	default:
	}
	if err := state(leaving == nil); err != nil {
		return err
	}
	return r.watch(ctx, leaving, state, tell)
}

func (r *Runner) watch(
	ctx context.Context, leaving <-chan struct{}, state func(draining bool) error, tell func(Late) error,
) error {
	told := map[string]bool{}
	tick := time.NewTicker(r.lateEvery)
	defer tick.Stop()
	for {
		list, err := r.processes.Late(ctx, r.runs.Active)
		if err != nil && ctx.Err() == nil {
			r.log.DebugContext(ctx, "processes cannot be asked about", "error", err)
		}
		for _, p := range list {
			if told[p.ID] {
				continue
			}
			told[p.ID] = true
			if err := tell(Late{ID: p.ID, Session: p.Session, Run: p.Run, Record: r.shell.EndRecord(p)}); err != nil {
				return err
			}
		}
		for _, l := range r.debuggers.Late(r.runs.Active) {
			if told[l.ID] {
				continue
			}
			told[l.ID] = true
			if err := tell(Late{ID: l.ID, Session: l.Session, Run: l.Run, Record: l.Record}); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-r.runEnded:
		case <-leaving:
			leaving = nil
			if err := state(true); err != nil {
				return err
			}
		case <-r.draining:
			return fault.New(fault.Unavailable, "The tool runner is stopping.").With("subsystem", "tool-runner")
		case <-ctx.Done():
			return nil
		}
	}
}

// Told acknowledges a late record.
func (r *Runner) Told(session, id string) {
	r.processes.Told(session, id)
	r.debuggers.Told(session, id)
}

// Drain reports to the watchers that the workspace drains, and waits until its runs are handed over or ctx ends. Then
// it ends the streams that hold runs, and leaves the runs' calls running. Without a watcher it waits for no run.
func (r *Runner) Drain(ctx context.Context) {
	r.announce()
	if r.watchers.Load() > 0 {
		r.runs.AwaitHandedOver(ctx)
	}
	r.drain()
}
