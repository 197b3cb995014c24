package runs

import (
	"strings"

	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// The states of a steering message in frames.
const (
	SteerQueued    = "queued"
	SteerDelivered = "delivered"
	SteerNext      = "next"
	SteerKept      = "kept"
)

// Deliver adds the waiting messages of a session to a change that is a step boundary of its run or the end of the
// run. The caller holds the session's change lock, so that each message joins exactly one change. After a completed
// run a pending run follows that answers the messages; after any other end they only join the conversation.
func Deliver(render frames.Renderer, c *record.Change, s record.Session) error {
	switch {
	case len(s.Steers) == 0:
		return nil
	case c.EndRun != nil:
		return follow(render, c, s)
	case c.Boundary != nil && c.Boundary.RunID == s.CurrentRun:
		if c.Boundary.Told {
			s.Steers = c.Boundary.Steers
		}
		c.Boundary.Steers = s.Steers
		return hand(render, c, s, steering{SteerDelivered, c.Boundary.RunID, c.Boundary.Step})
	}
	return nil
}

// steering is the delivery of waiting messages: their state, the run that receives them, which may be "", and the
// step after which it does.
type steering struct {
	state, run string
	after      int
}

// hand adds the waiting messages to the conversation.
func hand(render frames.Renderer, c *record.Change, s record.Session, how steering) error {
	for _, w := range s.Steers {
		m := record.Message{
			ID: w.ID, SessionID: s.ID, Role: record.Operator, Content: w.Content, RunID: how.run, CreatedAt: w.CreatedAt,
		}
		if how.after > 0 {
			m.Metadata = &transcript.Metadata{Kind: transcript.KindSteer, AfterStep: how.after}
		}
		c.Messages = append(c.Messages, m)
		c.Steered = append(c.Steered, w.ID)
		d, err := frames.RenderDurable(render, w.ID+"."+how.state, frames.MessageSteer{
			MessageID: w.ID, RunID: how.run, State: how.state, Content: w.Content, AfterStep: how.after, At: c.At,
		})
		if err != nil {
			return err
		}
		c.Outbox = append(c.Outbox, d)
	}
	return nil
}

// follow delivers the waiting messages after the run that ends.
func follow(render frames.Renderer, c *record.Change, s record.Session) error {
	how := steering{state: SteerKept}
	ends := c.EndRun.State == record.RunCompleted && c.Session.State == record.Idle
	if ends {
		how = steering{state: SteerNext, run: ident.New()}
	}
	// Clients learn of the next run before the end of this one.
	told := c.Outbox
	c.Outbox = nil
	if err := hand(render, c, s, how); err != nil {
		return err
	}
	if !ends {
		c.Outbox = append(c.Outbox, told...)
		return nil
	}
	next, err := s.State.On(record.Followed)
	if err != nil {
		return err
	}
	c.Session.State = next
	c.NewRun = &record.Run{
		ID: how.run, SessionID: s.ID, Owner: s.Owner, ProjectID: s.ProjectID, MessageID: ident.New(),
		TriggerMessageID: s.Steers[len(s.Steers)-1].ID, State: record.RunPending, CompiledHash: s.CompiledHash,
		PromptHashes: s.PromptHashes, CreatedAt: c.At, Issue: s.Issue,
	}
	idle := "." + frames.SessionState{}.Kind().Name + "." + string(record.Idle)
	for _, d := range told {
		if !strings.HasSuffix(d.ID, idle) {
			c.Outbox = append(c.Outbox, d)
		}
	}
	d, err := frames.RenderDurable(render, how.run+".queued", frames.SessionState{State: string(next)})
	c.Outbox = append(c.Outbox, d)
	return err
}

//convert:one steer record.Steer contract.Steer ID=MessageID Content=Text
//convert:one steersOf []record.Steer []contract.Steer >list
