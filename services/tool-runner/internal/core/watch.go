package core

import (
	"context"
	"slices"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/late"
	"kaged.dev/pkg/retry"
)

// Watch reports, until ctx ends, each process and debug session that ended while no run of its session was held, and
// each record of language servers that no answer has returned, once each. The id of a process's record is that of the
// process. Another Watch repeats a record that [Runner.Told] has not acknowledged. First, and at the begin of
// [Runner.Drain], it reports the state of the workspace. Watch returns the errors of state and tell, and unavailable
// when the runner stops.
//
// The end of the last watch means that the sessions have ended, perhaps by a crash. It ends the language servers.
func (r *Runner) Watch(ctx context.Context, state func(draining bool) error, tell func(late.Record) error) error {
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
	ctx context.Context, leaving <-chan struct{}, state func(draining bool) error, tell func(late.Record) error,
) error {
	told := map[string]bool{}
	tick := time.NewTicker(r.lateEvery)
	defer tick.Stop()
	for {
		changed := r.records.Changed()
		for _, l := range r.lateRecords(ctx) {
			if told[l.ID] {
				continue
			}
			told[l.ID] = true
			if err := tell(l); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-changed:
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

// lateRecords returns the records without a result to return them. A result of a held run may return those of its
// session's processes and debug sessions.
func (r *Runner) lateRecords(ctx context.Context) []late.Record {
	ended, err := r.processes.Late(ctx, r.runs.Active)
	if err != nil && ctx.Err() == nil {
		r.log.DebugContext(ctx, "processes cannot be asked about", "error", err)
	}
	list := slices.DeleteFunc(r.records.List(), func(l late.Record) bool {
		return l.Project == "" && r.runs.Active(l.Session)
	})
	for _, p := range ended {
		list = append(list, late.Record{ID: p.ID, Session: p.Session, Run: p.Run, Record: r.shell.EndRecord(p)})
	}
	return list
}

// Told acknowledges a late record.
func (r *Runner) Told(session, id string) {
	r.processes.Told(session, id)
	r.records.Told(id)
}

// RelayRecords receives the late records of language servers until ctx ends. It calls watch again after a loss of the
// pool. A record counts as stored when it is in the log of this process.
func (r *Runner) RelayRecords(
	ctx context.Context, watch func(ctx context.Context, store func(late.Record) (stored bool, err error)) error,
) {
	for range relaying.Each(ctx) {
		err := watch(ctx, func(l late.Record) (bool, error) {
			r.records.Add(l)
			return true, nil
		})
		if ctx.Err() == nil {
			r.log.DebugContext(ctx, "watching the language servers ended; retrying", "error", err)
		}
	}
}

// relaying are the pauses after a loss of the pool.
var relaying = retry.Pauses{First: 100 * time.Millisecond, Last: 5 * time.Second, Spread: true}

// Drain reports to the watchers that the workspace drains, and waits until its runs are handed over or ctx ends. Then
// it ends the streams that hold runs, and leaves the runs' calls running. Without a watcher it waits for no run.
func (r *Runner) Drain(ctx context.Context) {
	r.announce()
	if r.watchers.Load() > 0 {
		r.runs.AwaitHandedOver(ctx)
	}
	r.drain()
}
