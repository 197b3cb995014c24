package debugging

import (
	"context"
	"slices"
	"sync"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
)

// Late is a record about a debug session that no result has carried.
type Late struct {
	ID, Session, Run string
	Record           contract.Record
}

// maxLate bounds the late records that are kept.
const maxLate = 4096

// Runs are [Debuggers] that know which runs have debugged, and keep the records of the ends of their sessions
// until they are told. They are kept in memory: an end of this process loses them.
type Runs struct {
	Debuggers

	mu   sync.Mutex         // guards the fields below
	runs map[[2]string]bool // by session and run
	late map[string][]Late  // by session
}

// NewRuns returns runs of debuggers.
func NewRuns(debuggers Debuggers) *Runs {
	return &Runs{Debuggers: debuggers, runs: map[[2]string]bool{}, late: map[string][]Late{}}
}

// Start implements Debuggers.
func (r *Runs) Start(ctx context.Context, s Start) (Answer, error) {
	r.mu.Lock()
	r.runs[[2]string{s.Agent.Owner.SessionID, s.Agent.Owner.RunID}] = true
	r.mu.Unlock()
	return r.Debuggers.Start(ctx, s)
}

// End ends the debug sessions of a run, of all runs of a session for "", and keeps their records.
func (r *Runs) End(ctx context.Context, session, run string) error {
	r.mu.Lock()
	debugged := false
	for k := range r.runs {
		if k[0] == session && (run == "" || k[1] == run) {
			debugged = true
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

// Late returns the late records of all sessions but those that skip names.
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

// Told forgets a late record.
func (r *Runs) Told(session, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := slices.DeleteFunc(r.late[session], func(l Late) bool { return l.ID == id })
	if r.late[session] = left; len(left) == 0 {
		delete(r.late, session)
	}
}

// Take returns the late records of a session and forgets them.
func (r *Runs) Take(session string) (records []contract.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.late[session] {
		records = append(records, l.Record)
	}
	delete(r.late, session)
	return records
}
