package runs

import (
	"context"

	"kaged.dev/pkg/contract"
)

// Harness runs agents. It holds no state between runs.
type Harness interface {
	// Start gives a run to the harness, which prepares it but makes no model request before [Stream.Go]. The stream,
	// its model requests and its tools end with ctx. Start fails with unavailable if the harness cannot be reached.
	Start(ctx context.Context, s Start) (Stream, error)
}

// Start is the complete input of a run.
type Start struct {
	Spec
	Routes map[string]contract.Route
	// Todos are the open todos of the run's issue.
	Todos contract.OpenTodos
}

// Stream is a run in the harness. Recv is called by one goroutine; the other methods are safe for concurrent use.
type Stream interface {
	// Go allows the run to make model requests.
	Go() error
	// Recv returns the next event; [contract.Finished] or an error is the last.
	Recv() (contract.Happening, error)
	// Stored tells the harness that a half of a step is on disk, and gives it the news.
	Stored(half Half, news News) error
	// Decide sends the harness an operator's answer, which is on disk.
	Decide(approvalID string, d contract.Decision) error
	// Grant answers a wanted model call of an invocation, "" for the root agent.
	Grant(invocation string, g contract.CallGranted) error
	// Cancel asks the harness to stop. It then reports its results and finishes.
	Cancel(reason string) error
	// CancelInvocation asks an agent below the root to stop; its caller continues.
	CancelInvocation(id, reason string) error
	// Halt asks every agent to stop at its next safe point: before its next model request, or while it waits for an
	// operator. The run then finishes as handed over.
	Halt() error
}

// Granter answers a wanted model call between runs, once its audit record is on disk.
type Granter func(context.Context, contract.CallWanted) contract.CallGranted

// News accompanies a stored half of a step to the harness.
type News struct {
	// Routes are set if they have changed.
	Routes map[string]contract.Route
	// Todos are the open todos of the run's issue, Steers the operator's messages to deliver; both only with results
	// of the root agent.
	Todos  contract.OpenTodos
	Steers []contract.Steer
}

// Half identifies one half of an agent's step.
type Half struct {
	// InvocationID is "" for the root agent.
	InvocationID string
	Step         int
	Results      bool
}
