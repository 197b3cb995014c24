package issues

import (
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
)

// Status is the state of an issue.
type Status string

// The statuses.
const (
	Open       Status = "open"
	Triaged    Status = "triaged"
	Assigned   Status = "assigned"
	InProgress Status = "in_progress"
	Resolved   Status = "resolved"
	Rejected   Status = "rejected"
	Reopened   Status = "reopened"
)

// State is one row of the state machine of issues.
type State struct {
	Status Status
	// To are the statuses that can follow.
	To []Status
	// Ended is true if no work is left. An ended issue can only be reopened.
	Ended bool
	// Comment is the error for a transition to this status without a comment, empty if a comment is optional.
	Comment string
	// Meaning is the description for people.
	Meaning string
}

// Machine is the state machine of issues. docs/reference/issues.md is generated from it.
var Machine = []State{
	{Status: Open, To: []Status{Triaged, Assigned, InProgress, Resolved, Rejected}, Meaning: "filed, unread"},
	{Status: Triaged, To: []Status{Assigned, InProgress, Resolved, Rejected}, Meaning: "read and understood"},
	{
		Status: Assigned, To: []Status{Triaged, InProgress, Resolved, Rejected},
		Meaning: "given to an agent, a session or a workflow",
	},
	{Status: InProgress, To: []Status{Triaged, Assigned, Resolved, Rejected}, Meaning: "at work"},
	{
		Status: Resolved, To: []Status{Reopened}, Ended: true, Meaning: "done",
		Comment: "Resolving an issue requires a comment that says what was done.",
	},
	{
		Status: Rejected, To: []Status{Reopened}, Ended: true, Meaning: "refused",
		Comment: "Rejection requires an explanatory comment.",
	},
	{
		Status: Reopened, To: []Status{Triaged, Assigned, InProgress, Resolved, Rejected},
		Meaning: "open again after it had ended",
	},
}

// stateOf returns the row of a status, nil for an unknown one.
func stateOf(s Status) *State {
	for i := range Machine {
		if Machine[i].Status == s {
			return &Machine[i]
		}
	}
	return nil
}

// Known reports whether s is a status.
func (s Status) Known() bool { return stateOf(s) != nil }

// Ended reports whether an issue with this status has no work left.
func (s Status) Ended() bool { st := stateOf(s); return st != nil && st.Ended }

// Legal returns the statuses that can follow s.
func (s Status) Legal() []Status {
	if st := stateOf(s); st != nil {
		return st.To
	}
	return nil
}

// NotEnded returns the statuses of issues with work left.
func NotEnded() []Status { return statuses(func(s State) bool { return !s.Ended }) }

// Statuses returns all statuses.
func Statuses() []Status { return statuses(func(State) bool { return true }) }

func statuses(wanted func(State) bool) (list []Status) {
	for _, s := range Machine {
		if wanted(s) {
			list = append(list, s.Status)
		}
	}
	return list
}

// transition fails with conflict (reason invalid_transition) if an issue cannot go from one status to another, and with
// validation_failed if it needs a comment and has none or a blank one.
func transition(number int64, from, to Status, comment string) error {
	if !slices.Contains(from.Legal(), to) {
		legal := Names(from.Legal())
		return fault.New(fault.Conflict, "Issue #%d is %s and cannot become %s; from there it can become %s.", number, from,
			to, strings.Join(legal, ", ")).
			With("reason", ReasonTransition).With("from", string(from)).With("to", string(to)).With("legal", legal)
	}
	if st := stateOf(to); st.Comment != "" && strings.TrimSpace(comment) == "" {
		return fault.New(fault.ValidationFailed, "%s", st.Comment).With("fields", []string{"comment"})
	}
	return nil
}

// Names returns statuses as texts.
func Names(list []Status) []string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = string(s)
	}
	return names
}
