package loop

import (
	"context"
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// fitter removes thinking that the request's target would refuse, so that the record holds the request as sent.
type fitter struct {
	target string // the target of past
	past   past
}

// ProcessInput is [fitter.ProcessInputStep], because the record of the whole request follows it.
func (f *fitter) ProcessInput(ctx context.Context, call *Call) error {
	return f.ProcessInputStep(ctx, call)
}

// ProcessInputStep removes foreign thinking. Messages that are then empty are removed, and their neighbours are
// joined.
func (f *fitter) ProcessInputStep(_ context.Context, call *Call) error {
	keeper, ok := call.driver.(llm.Keeper)
	if !ok {
		return nil
	}
	if target := call.Target.Driver + " " + targetKey(call.Target); target != f.target {
		f.target, f.past = target, past{}
	}
	foreign := func(b llm.Block) bool { return b.Thinking != nil && !keeper.Keeps(call.Target.Model, b.Thinking) }
	messages := f.past.changed(call.Request.Messages, func(m llm.Message) llm.Message {
		if slices.ContainsFunc(m.Blocks, foreign) {
			m.Blocks = slices.DeleteFunc(slices.Clone(m.Blocks), foreign)
		}
		return m
	})
	if f.past.empty > 0 {
		messages = llm.Normalize(messages)
	}
	call.Request.Messages = messages
	return nil
}

// ProcessOutputChunk does nothing: a target accepts its own thinking.
func (f *fitter) ProcessOutputChunk(context.Context, contract.Delta) error { return nil }
