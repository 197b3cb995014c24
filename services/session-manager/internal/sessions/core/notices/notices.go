// Package notices informs the consoles of operators about changes: of sessions, projects, pending approvals, and
// the number of sessions with an active run.
//
// Notices are sent after the commit of the change and are not stored: a console that misses some fetches the state
// again. One goroutine takes the counts, each after the commit that caused it, so that many changes share one
// count. Of two counts the one with the higher version is the later.
package notices

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"kaged.dev/pkg/retry"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Default limits of the number of sessions with an active run, per project and per operator; local.toml may set
// others.
const (
	PerProject  = 4
	PerOperator = 16
)

// Notice is a change for an operator's consoles.
type Notice struct {
	Owner string
	// What is a value of one of the types below.
	What any
}

// Session is a session that was created or changed.
type Session struct{ record.Session }

// Project is a project that was registered or changed; Removed is an unregistered one.
type (
	Project struct {
		ID string
		// State is ready, pending or invalid, "" if it is unknown.
		State string
	}
	Removed struct{ ID string }
)

// Waiting is a pending approval, Over is one that is no longer pending, and Missed says that notices were dropped.
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

// Count is the number of an operator's sessions with an active run, by project.
type Count struct {
	Owner      string
	PerProject map[string]int
	// Limits come from the operator's configuration.
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
	// Running returns the number of an operator's sessions with an active run, by project, and a version of the count.
	Running(ctx context.Context, owner string) (perProject map[string]int, version int64, err error)
}

// Deps are the dependencies of a Sender. Every field is required.
type Deps struct {
	Store Store
	// Limits returns the limits of sessions with an active run, per project and per operator.
	Limits func(ctx context.Context, owner string) (perProject, perOperator int)
	// Send delivers notices to the consoles of their operators.
	Send func(ctx context.Context, list []Notice) error
	Log  *slog.Logger
}

// Sender collects notices and sends them. It is safe for concurrent use.
//
// Goroutines: [Sender.Run] is one.
type Sender struct {
	Deps
	wake chan struct{} // capacity 1

	mu      sync.Mutex // guards the fields below
	waiting []Notice
	lost    map[string]bool // operators with dropped notices
	count   map[string]bool // operators with a possibly changed count
}

// maxWaiting bounds the queued notices. Beyond it notices are dropped and their operators get Missed.
const maxWaiting = 4096

// New returns a Sender.
func New(deps Deps) *Sender {
	return &Sender{Deps: deps, wake: make(chan struct{}, 1), lost: map[string]bool{}, count: map[string]bool{}}
}

// Tell queues a notice. It never waits.
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

// Changed queues the notices for a committed change of a session. before is the session without the change. It
// never waits.
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

// shown returns the fields of a session that its notices contain.
func shown(s record.Session) [4]string {
	return [4]string{string(s.State), s.Label, s.Blocked(), s.CurrentRun}
}

// gather is the time for which notices wait for others.
const gather = 10 * time.Millisecond

// Run sends notices until ctx ends.
func (d *Sender) Run(ctx context.Context) {
	for {
		select {
		case <-d.wake:
			if retry.Wait(ctx, gather) {
				d.send(ctx)
			}
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

// Count returns the number of an operator's sessions with an active run, by project, and the limits.
func (d *Sender) Count(ctx context.Context, owner string) (Count, error) {
	c := Count{Owner: owner}
	c.PerProjectLimit, c.PerOperatorLimit = d.Limits(ctx, owner)
	var err error
	c.PerProject, c.Version, err = d.Store.Running(ctx, owner)
	return c, err
}
