package loop

import (
	"context"

	"kaged.dev/pkg/contract"
)

// observer reports requests to the run's [Watch] after all other processors. So a refused request has a record, but
// no trace.
type observer struct{ run *invocation }

// ProcessInput does nothing: ProcessInputStep reports every request.
func (o *observer) ProcessInput(context.Context, *Call) error { return nil }

// ProcessInputStep reports a request.
func (o *observer) ProcessInputStep(ctx context.Context, call *Call) error {
	o.run.deps.Watch.Request(ctx, RequestSeen{Agent: o.run.seen(), Step: call.Step, Request: &call.Request})
	return nil
}

// ProcessOutputChunk does nothing: the answer is reported at the end of its call.
func (o *observer) ProcessOutputChunk(context.Context, contract.Delta) error { return nil }
