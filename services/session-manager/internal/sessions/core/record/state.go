package record

import "kaged.dev/pkg/fault"

// State is the state of a session.
type State string

// The states of a session.
const (
	// Idle: it accepts a message.
	Idle State = "idle"
	// Queued: a message waits for a slot.
	Queued State = "queued"
	// Running: a run is active.
	Running State = "running"
	// Paused: its run stopped at a checkpoint.
	Paused State = "paused"
	// Failed: its state could not be repaired after a crash. It accepts a message.
	Failed State = "failed"
	// Ended: it is over.
	Ended State = "ended"
)

// Event is a cause of a change of a session's state.
type Event string

// The events.
const (
	// Posted: a message came and its run begins.
	Posted Event = "posted"
	// Throttled: a message came and no slot is free for its run.
	Throttled Event = "throttled"
	// Resumed: the waiting message got a slot.
	Resumed Event = "resumed"
	// Discarded: the waiting message was withdrawn.
	Discarded Event = "discarded"
	// Finished: the run ended with any outcome.
	Finished Event = "finished"
	// Followed: the run completed before it received a steering message; that message now waits for the next run.
	Followed Event = "followed"
	// Checkpointed: the run stopped at a checkpoint.
	Checkpointed Event = "checkpointed"
	// Continued: the checkpoint was left and work continues.
	Continued Event = "continued"
	// Settled: a checkpoint was left and no work is pending.
	Settled Event = "settled"
	// Unrestorable: the state after a crash could not be repaired.
	Unrestorable Event = "unrestorable"
	// Closed: the operator ended the session.
	Closed Event = "closed"
)

// transitions lists all transitions: state, event, next state. Others are refused.
var transitions = map[State]map[Event]State{
	Idle:    {Posted: Running, Throttled: Queued, Closed: Ended},
	Queued:  {Resumed: Running, Discarded: Idle, Closed: Ended},
	Running: {Finished: Idle, Followed: Queued, Checkpointed: Paused, Unrestorable: Failed, Closed: Ended},
	Paused:  {Continued: Running, Settled: Idle, Closed: Ended},
	Failed:  {Posted: Running, Throttled: Queued, Closed: Ended},
	Ended:   {},
}

// On returns the state after event e. If the event is not allowed in s it fails with gone for an ended session, and
// with conflict (details.current_state) otherwise.
func (s State) On(e Event) (State, error) {
	if next, ok := transitions[s][e]; ok {
		return next, nil
	}
	if s == Ended {
		return s, Gone()
	}
	return s, fault.New(fault.Conflict, "The session is %s, which does not allow this now.", s).
		With("current_state", string(s))
}

// Gone is the error for a change of an ended session.
func Gone() *fault.Error {
	return fault.New(fault.Gone, "The session has ended; create a new one.").With("current_state", string(Ended))
}

// RunState is the state of a run.
type RunState string

// The states of a run; from RunCompleted on they are outcomes.
const (
	RunPending   RunState = "pending"
	RunRunning   RunState = "running"
	RunCompleted RunState = "completed"
	RunPaused    RunState = "paused"
	RunFailed    RunState = "failed"
	RunCancelled RunState = "cancelled"
)

// Over reports whether the run has ended.
func (s RunState) Over() bool { return s != RunPending && s != RunRunning }
