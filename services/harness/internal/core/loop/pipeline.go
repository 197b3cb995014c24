package loop

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// Call is a model call on its way through the pipeline. Processors may change Request. The model gets the pipeline's
// result, byte for byte.
type Call struct {
	// Step is the step, from 1. Again marks a further call in the same step: with a shortened conversation, or to
	// another target.
	Step  int
	Again bool
	// Alias is the model's alias; Target is the model that is asked.
	Alias  string
	Target llm.Target
	driver llm.Driver // of the target
	// Request is the request. Its Model is set per target, after the pipeline.
	Request llm.Request
	// Hash is the hash of the request's items after the last processor.
	Hash string
}

// Processor sees every model call of a run, and may change or stop it. An error ends the run.
type Processor interface {
	// ProcessInput is called once per run, before the first call.
	ProcessInput(ctx context.Context, call *Call) error
	// ProcessInputStep is called before every call.
	ProcessInputStep(ctx context.Context, call *Call) error
	// ProcessOutputChunk is called with each piece that the model writes, before it is sent on.
	ProcessOutputChunk(ctx context.Context, d contract.Delta) error
}

// pipeline is the list of processors in their order.
type pipeline []Processor

// input runs the processors on a call.
func (p pipeline) input(ctx context.Context, call *Call) error {
	if call.Step == 1 && !call.Again {
		for _, proc := range p {
			if err := proc.ProcessInput(ctx, call); err != nil {
				return err
			}
		}
	}
	for _, proc := range p {
		if err := proc.ProcessInputStep(ctx, call); err != nil {
			return err
		}
	}
	return nil
}

func (p pipeline) output(ctx context.Context, d contract.Delta) error {
	for _, proc := range p {
		if err := proc.ProcessOutputChunk(ctx, d); err != nil {
			return err
		}
	}
	return nil
}
