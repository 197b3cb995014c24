package debugging

import (
	"context"
	"slices"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/retry"
)

// Late is a record about a debug session that no result has included.
type Late struct {
	ID, Session, Run string
	Record           contract.Record
}

// maxLate is the maximum number of kept late records.
const maxLate = 4096

// Runs are [Debuggers] that know the runs that have debugged, and keep the records of their sessions' ends until they
// are reported. They are in memory, so the end of this process loses them.
type Runs struct {
	Debuggers

	mu   sync.Mutex                  // guards the fields below
	runs map[[2]string]chan struct{} // by session and run; closed at its first debug session
	late map[string][]Late           // by session
}

// NewRuns returns runs of debuggers.
func NewRuns(debuggers Debuggers) *Runs {
	return &Runs{Debuggers: debuggers, runs: map[[2]string]chan struct{}{}, late: map[string][]Late{}}
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

// End ends the debug sessions of a run, of all runs of a session for "", and keeps their records.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range records {
		if len(r.late[session]) < maxLate {
			r.late[session] = append(r.late[session], Late{ident.New(), session, run, record})
		}
	}
	return err
}

// Late returns the late records of all sessions that skip does not exclude.
func (r *Runs) Late(skip func(session string) bool) (list []Late) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for session, late := range r.late {
		if !skip(session) {
			list = append(list, late...)
		}
	}
	slices.SortFunc(list, func(a, b Late) int { return slices.Compare([]byte(a.ID), []byte(b.ID)) })
	return list
}

// Told drops a late record.
func (r *Runs) Told(session, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := slices.DeleteFunc(r.late[session], func(l Late) bool { return l.ID == id })
	if r.late[session] = left; len(left) == 0 {
		delete(r.late, session)
	}
}

// Take returns and drops the late records of a session.
func (r *Runs) Take(session string) (records []contract.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.late[session] {
		records = append(records, l.Record)
	}
	delete(r.late, session)
	return records
}
