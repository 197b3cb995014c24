package loop

import (
	"context"

	"kaged.dev/pkg/contract"
)

// observer shows requests to the run's [Watch] as they leave the other processors. It is the last one: a refused
// request has a record, and no trace.
type observer struct{ run *invocation }

// ProcessInput is empty: each step is shown.
func (o *observer) ProcessInput(context.Context, *Call) error { return nil }

// ProcessInputStep shows a request.
func (o *observer) ProcessInputStep(ctx context.Context, call *Call) error {
	o.run.deps.Watch.Request(ctx, RequestSeen{Agent: o.run.seen(), Step: call.Step, Request: &call.Request})
	return nil
}

// ProcessOutputChunk is empty: an answer is shown with the end of its call.
func (o *observer) ProcessOutputChunk(context.Context, contract.Delta) error { return nil }
