// Package notices tells the consoles of operators of changes: sessions, projects, approvals that wait, and how many
// sessions have a run at work.
//
// Notices are told after the change was committed and are kept nowhere: a console that misses some fetches again. A
// count is taken after the commit that made it necessary, by one goroutine, so that a crowd of changes costs few
// counts; of two counts the one that was taken later is right, which its version tells.
package notices

import (
	"context"
	"log/slog"
	"sync"

	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// How many sessions may have a run at work at once, in a project and of an operator, without other limits in
// local.toml.
const (
	PerProject  = 4
	PerOperator = 16
)

// Notice is something that an operator is told of.
type Notice struct {
	Owner string
	// The value is of one of the types below.
	What any
}

// Session is a session that was created or changed.
type Session struct{ record.Session }

// Project is a project that was registered or changed; Removed is one that is no longer registered.
type (
	Project struct {
		ID string
		// State is ready, pending or invalid, "" where it is not known.
		State string
	}
	Removed struct{ ID string }
)

// Waiting is an approval that waits, Over is one that no longer does, and Missed says that notices were lost.
type (
	Waiting struct {
		record.Approval
		ProjectID string
	}
	Over struct {
		ID, SessionID, ProjectID string
		State                    record.ApprovalState
	}
	Missed struct{}
)

// Count is how many sessions of an operator have a run at work.
type Count struct {
	Owner      string
	PerProject map[string]int
	// Limits are those of the operator's configuration.
	PerProjectLimit, PerOperatorLimit int
	// Version grows with time.
	Version int64
}

// Total returns the sum over all projects.
func (c Count) Total() (n int) {
	for _, of := range c.PerProject {
		n += of
	}
	return n
}

// Store counts.
type Store interface {
	// Running returns how many sessions of an operator have a run at work, by project, and a version of the count.
	Running(ctx context.Context, owner string) (perProject map[string]int, version int64, err error)
}

// Deps are the collaborators of a Sender. Every field is needed.
type Deps struct {
	Store Store
	// Limits returns how many sessions may have a run at work in a project of an operator, and of the operator.
	Limits func(ctx context.Context, owner string) (perProject, perOperator int)
	// Send sends notices to their operators.
	Send func(ctx context.Context, list []Notice) error
	Log  *slog.Logger
}

// Sender collects notices and sends them. It is safe for concurrent use.
//
// Goroutines: [Sender.Run] is one.
type Sender struct {
	Deps
	wake chan struct{} // has room for one

	mu      sync.Mutex // guards the fields below
	waiting []Notice
	lost    map[string]bool // operators of whom notices were dropped
	count   map[string]bool // operators with a changed count
}

// maxWaiting is how many notices wait for NATS; of more their operators are told that they missed some.
const maxWaiting = 4096

// New returns a Sender.
func New(deps Deps) *Sender {
	return &Sender{Deps: deps, wake: make(chan struct{}, 1), lost: map[string]bool{}, count: map[string]bool{}}
}

// Tell takes a notice. It never waits.
func (d *Sender) Tell(owner string, what any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell(owner, what)
}

func (d *Sender) tell(owner string, what any) {
	if len(d.waiting) < maxWaiting {
		d.waiting = append(d.waiting, Notice{owner, what})
	} else {
		d.lost[owner] = true
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Changed takes a committed change of a session that was another before. It never waits.
func (d *Sender) Changed(before, after record.Session, c record.Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if shown(before) != shown(after) {
		d.tell(after.Owner, Session{after})
	}
	for _, a := range c.Approvals {
		if a.State == record.ApprovalPending {
			d.tell(after.Owner, Waiting{a, after.ProjectID})
		}
	}
	over := c.Closed
	if c.Answered != nil {
		over = append(over[:len(over):len(over)], *c.Answered)
	}
	for _, a := range over {
		d.tell(after.Owner, Over{a.ID, a.SessionID, after.ProjectID, a.State})
	}
	if (before.State == record.Running) != (after.State == record.Running) {
		d.count[after.Owner] = true
	}
}

// shown has the fields of a session in notices.
func shown(s record.Session) [4]string {
	return [4]string{string(s.State), s.Label, s.Blocked(), s.CurrentRun}
}

// Run sends notices until ctx ends.
func (d *Sender) Run(ctx context.Context) {
	for {
		select {
		case <-d.wake:
			d.send(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (d *Sender) send(ctx context.Context) {
	d.mu.Lock()
	list, owners, lost := d.waiting, d.count, d.lost
	d.waiting, d.count, d.lost = nil, map[string]bool{}, map[string]bool{}
	d.mu.Unlock()
	for owner := range owners {
		c, err := d.Count(ctx, owner)
		if err != nil {
			d.Log.WarnContext(ctx, "running sessions were not counted", "error", err)
			lost[owner] = true
			continue
		}
		list = append(list, Notice{owner, c})
	}
	for owner := range lost {
		list = append(list, Notice{owner, Missed{}})
	}
	if err := d.Send(ctx, list); err != nil && ctx.Err() == nil {
		d.Log.DebugContext(ctx, "consoles were not told of changes", "notices", len(list), "error", err)
	}
}

// Count counts the sessions of an operator that have a run at work.
func (d *Sender) Count(ctx context.Context, owner string) (Count, error) {
	c := Count{Owner: owner}
	c.PerProjectLimit, c.PerOperatorLimit = d.Limits(ctx, owner)
	var err error
	c.PerProject, c.Version, err = d.Store.Running(ctx, owner)
	return c, err
}
