package runs

import (
	"context"

	"kaged.dev/pkg/contract"
)

// Harness runs agents. It has no state between runs.
type Harness interface {
	// Start gives a run to the harness, which gets it ready and asks no model before [Stream.Go]. The stream ends
	// with ctx: the provider's request and the run's tools end with it. It fails with unavailable if the harness
	// cannot be reached.
	Start(ctx context.Context, s Start) (Stream, error)
}

// Start is everything a run depends on.
type Start struct {
	Spec
	Routes map[string]contract.Route
	// Todos are the open todos of the run's issue.
	Todos contract.OpenTodos
}

// Stream is a run as the harness reports it. Recv is called by one goroutine, the others by any.
type Stream interface {
	// Go lets the run ask models.
	Go() error
	// Recv returns the next event; [contract.Finished] or an error is the last.
	Recv() (contract.Happening, error)
	// Stored tells the harness that a half of a step is on disk, with the news for it.
	Stored(half Half, news News) error
	// Decide tells the harness an operator's answer, which is on disk.
	Decide(approvalID string, d contract.Decision) error
	// Grant answers a model call that is wanted in an invocation, "" for the root agent's.
	Grant(invocation string, g contract.CallGranted) error
	// Cancel asks the harness to stop. It reports its results and finishes.
	Cancel(reason string) error
	// CancelInvocation asks an agent below the root to stop; its caller goes on.
	CancelInvocation(id, reason string) error
	// Halt asks every agent to stop at its next boundary, which is before its next request to a model, or where it waits
	// for an operator. The run then finishes as handed over.
	Halt() error
}

// Granter answers a model call that is wanted between runs, once its record is on disk.
type Granter func(context.Context, contract.CallWanted) contract.CallGranted

// News goes to a run with a half of a step that is on disk.
type News struct {
	// Routes are set if they have changed.
	Routes map[string]contract.Route
	// Todos are the open todos of the run's issue, Steers the operator's messages that follow; both with results of the
	// root agent.
	Todos  contract.OpenTodos
	Steers []contract.Steer
}

// Half names one of the two halves of a step of an agent.
type Half struct {
	// InvocationID is "" for the root agent.
	InvocationID string
	Step         int
	Results      bool
}
