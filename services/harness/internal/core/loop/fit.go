package loop

import (
	"context"
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// fitter leaves out the thinking that the target of a request would refuse, so that the record shows the sent one
// alone.
type fitter struct {
	target string // the target of the past
	past   past
}

// ProcessInput does as [fitter.ProcessInputStep]: the record of the whole request follows it.
func (f *fitter) ProcessInput(ctx context.Context, call *Call) error {
	return f.ProcessInputStep(ctx, call)
}

// ProcessInputStep leaves out foreign thinking. Messages that hold no more are gone, and their neighbours joined.
func (f *fitter) ProcessInputStep(_ context.Context, call *Call) error {
	keeper, ok := call.driver.(llm.Keeper)
	if !ok {
		return nil
	}
	if target := targetKey(call.Target); target != f.target {
		f.target, f.past = target, past{}
	}
	foreign := func(b llm.Block) bool { return b.Thinking != nil && !keeper.Keeps(call.Target.Model, b.Thinking) }
	messages := f.past.changed(call.Request.Messages, func(m llm.Message) llm.Message {
		if slices.ContainsFunc(m.Blocks, foreign) {
			m.Blocks = slices.DeleteFunc(slices.Clone(m.Blocks), foreign)
		}
		return m
	})
	if slices.ContainsFunc(messages, func(m llm.Message) bool { return len(m.Blocks) == 0 }) {
		messages = llm.Normalize(messages)
	}
	call.Request.Messages = messages
	return nil
}

// ProcessOutputChunk is empty: a target is given back its own thinking.
func (f *fitter) ProcessOutputChunk(context.Context, contract.Delta) error { return nil }
