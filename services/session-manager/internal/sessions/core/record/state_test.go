package record_test

import (
	"errors"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// A run that is cut off after an operator cancelled it is not resumed.
func TestCancelledDoesNotGoOn(t *testing.T) {
	id := "r"
	s := record.Change{NewRun: &record.Run{ID: id}}.On(record.Session{})
	end := record.Change{EndRun: &record.RunEnd{RunID: id}, Session: record.Patch{ResumeRun: &id}}
	if got := end.Given(s).On(s).ResumeRun; got != id {
		t.Errorf("the run to resume is %q", got)
	}
	if other := (record.Change{CancelRequested: "other"}).On(s); other.CancelRequested {
		t.Error("the cancellation of a run that is over counts for the next")
	}
	s = record.Change{CancelRequested: id}.On(s)
	if got := end.Given(s).On(s); got.ResumeRun != "" || got.CancelRequested {
		t.Errorf("the session is %+v", got)
	}
}

var states = []record.State{record.Idle, record.Queued, record.Running, record.Paused, record.Failed, record.Ended}

// A session accepts these transitions and no others; an ended session refuses with gone, any other with a conflict
// that names its state. A-MSG-POST-09, H-STORE-03.
func TestTransitions(t *testing.T) {
	type step struct {
		from  record.State
		event record.Event
	}
	allowed := map[step]record.State{
		{record.Idle, record.Posted}:          record.Running,
		{record.Idle, record.Throttled}:       record.Queued,
		{record.Queued, record.Resumed}:       record.Running,
		{record.Queued, record.Discarded}:     record.Idle,
		{record.Running, record.Finished}:     record.Idle,
		{record.Running, record.Checkpointed}: record.Paused,
		{record.Running, record.Unrestorable}: record.Failed,
		{record.Paused, record.Continued}:     record.Running,
		{record.Paused, record.Settled}:       record.Idle,
		{record.Failed, record.Posted}:        record.Running,
		{record.Failed, record.Throttled}:     record.Queued,
		{record.Idle, record.Closed}:          record.Ended,
		{record.Queued, record.Closed}:        record.Ended,
		{record.Running, record.Closed}:       record.Ended,
		{record.Paused, record.Closed}:        record.Ended,
		{record.Failed, record.Closed}:        record.Ended,
	}
	events := []record.Event{
		record.Posted, record.Throttled, record.Resumed, record.Discarded, record.Finished, record.Checkpointed,
		record.Continued, record.Settled, record.Unrestorable, record.Closed,
	}
	for _, from := range states {
		for _, event := range events {
			to, err := from.On(event)
			want, ok := allowed[step{from, event}]
			switch {
			case ok && (err != nil || to != want):
				t.Errorf("%s by %s: %s, %v; want %s", from, event, to, err, want)
			case !ok && from == record.Ended && !errors.Is(err, fault.Gone):
				t.Errorf("ended by %s: %v", event, err)
			case !ok && from != record.Ended && (!errors.Is(err, fault.Conflict) ||
				fault.From(err).Details["current_state"] != string(from)):
				t.Errorf("%s by %s: %v", from, event, err)
			}
		}
	}
}
