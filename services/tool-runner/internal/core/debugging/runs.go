package debugging

import (
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/late"
	"kaged.dev/pkg/retry"
)

// Runs are [Debuggers] that know the runs that have debugged, and put the records of their sessions' ends into a log.
type Runs struct {
	Debuggers
	records *late.Log

	mu   sync.Mutex                  // guards runs
	runs map[[2]string]chan struct{} // by session and run; closed at its first debug session
}

// NewRuns returns runs of debuggers.
func NewRuns(debuggers Debuggers, records *late.Log) *Runs {
	return &Runs{Debuggers: debuggers, records: records, runs: map[[2]string]chan struct{}{}}
}

// Start implements Debuggers.
func (r *Runs) Start(ctx context.Context, s Start) (Answer, error) {
	r.debugs(s.Agent)
	return r.Debuggers.Start(ctx, s)
}

// Act implements [Debuggers]. The session may have begun before this process did.
func (r *Runs) Act(ctx context.Context, d Do) (Answer, error) {
	r.debugs(d.Agent)
	return r.Debuggers.Act(ctx, d)
}

// debugs records that an agent's run debugs.
func (r *Runs) debugs(a Agent) {
	begun := r.begun(a.Owner.SessionID, a.Owner.RunID)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isClosed(begun) {
		close(begun)
	}
}

// begun returns a channel that is closed at the first debug session of a run.
func (r *Runs) begun(session, run string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := [2]string{session, run}
	if r.runs[k] == nil {
		r.runs[k] = make(chan struct{})
	}
	return r.runs[k]
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// watching are the pauses after a loss of the pool.
var watching = retry.Pauses{First: 50 * time.Millisecond, Last: 5 * time.Second, Spread: true}

// Tell reports changes in the debug sessions of a run, from its first one on, until ctx ends. If the pool is lost, its
// sessions are lost too, and Tell reports that. It fails if tell fails.
func (r *Runs) Tell(
	ctx context.Context, session, run string, tell func(e contract.DebugEvent, root string) error,
) error {
	select {
	case <-r.begun(session, run):
	case <-ctx.Done():
		return nil
	}
	open := map[string]contract.DebugEvent{} // the last event of each session
	for range watching.Each(ctx) {
		var failed error
		_ = r.Watch(ctx, session, run, func(e contract.DebugEvent, root string) error {
			if open[e.ID] = e; e.End != nil {
				delete(open, e.ID)
			}
			failed = tell(e, root)
			return failed
		}) // the pool is watched again after any error
		if failed != nil || ctx.Err() != nil {
			return failed
		}
		for id, e := range open {
			delete(open, id)
			lost := contract.DebugEvent{
				ID: id, Invocation: e.Invocation, Agent: e.Agent, At: time.Now().UnixMilli(),
				End: &contract.DebugEnd{Reason: contract.DebugCrash},
			}
			if err := tell(lost, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// End ends the debug sessions of a run, of all runs of a session for "", and logs their records.
func (r *Runs) End(ctx context.Context, session, run string) error {
	r.mu.Lock()
	debugged := false
	for k, begun := range r.runs {
		if k[0] == session && (run == "" || k[1] == run) {
			debugged = debugged || isClosed(begun)
			delete(r.runs, k)
		}
	}
	r.mu.Unlock()
	if !debugged {
		return nil
	}
	records, err := r.EndRun(ctx, session, run)
	list := make([]late.Record, len(records))
	for i, record := range records {
		list[i] = late.Record{Session: session, Run: run, Record: record}
	}
	r.records.Add(list...)
	return err
}
