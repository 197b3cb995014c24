package loop

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// Watch sees the work of runs, for traces and measures. Its methods and the functions they return come back at once
// and cannot fail: watching costs a run neither time nor its outcome. Each returns the context of the work, and a
// function to be called once at its end. It is safe for concurrent use. Its arguments belong to the run and are not
// kept.
type Watch interface {
	// Agent begins an invocation.
	Agent(ctx context.Context, a AgentSeen) (context.Context, func(contract.Finished))
	// Step begins a step of an invocation.
	Step(ctx context.Context, step int) (context.Context, func(error))
	// Request is a request as it leaves the processors.
	Request(ctx context.Context, r RequestSeen)
	// Call begins one request to a model.
	Call(ctx context.Context, c CallSeen) (context.Context, func(CallEnd))
	// Tool begins a call of a tool or of a child.
	Tool(ctx context.Context, t ToolSeen) (context.Context, func(ToolOutcome))
}

// AgentSeen is an invocation as it begins.
type AgentSeen struct {
	RunID, SessionID, ProjectID, OperatorID string
	// InvocationID is empty for the root agent's.
	InvocationID string
	// Key and Path name the agent, Alias its model.
	Key, Path, Alias string
}

// RequestSeen is a request as it leaves the processors.
type RequestSeen struct {
	Agent   AgentSeen
	Step    int
	Request *llm.Request
}

// CallSeen is a request to a model.
type CallSeen struct {
	Target  llm.Target
	Request *llm.Request
}

// CallEnd is how a request to a model went.
type CallEnd struct {
	// Err is nil for a whole answer.
	Err error
	// Done is the answer, nil unless it is whole. Used is its usage, estimated for one that broke off, nil for one that
	// was not accepted.
	Done *llm.Done
	Used *llm.Usage
	// Cost is nil where the price is not known.
	Cost *llm.Cost
	// TTFT is nil if no piece of the answer came.
	TTFT *time.Duration
	// Took is the time of the call.
	Took time.Duration
}

// ToolSeen is a call of a tool.
type ToolSeen struct {
	// Name is canonical, empty for a tool that the agent was not offered.
	Name      string
	ID, Input string
	// Child says that an agent is called.
	Child bool
}

// unwatched is an empty Watch.
type unwatched struct{}

func (unwatched) Agent(ctx context.Context, _ AgentSeen) (context.Context, func(contract.Finished)) {
	return ctx, func(contract.Finished) {}
}

func (unwatched) Step(ctx context.Context, _ int) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (unwatched) Request(context.Context, RequestSeen) {}

func (unwatched) Call(ctx context.Context, _ CallSeen) (context.Context, func(CallEnd)) {
	return ctx, func(CallEnd) {}
}

func (unwatched) Tool(ctx context.Context, _ ToolSeen) (context.Context, func(ToolOutcome)) {
	return ctx, func(ToolOutcome) {}
}

// seen returns the invocation as it begins.
func (v *invocation) seen() AgentSeen {
	return AgentSeen{
		RunID: v.start.RunID, SessionID: v.start.SessionID, ProjectID: v.start.ProjectID, OperatorID: v.start.OperatorID,
		InvocationID: v.id, Key: v.agent.Key, Path: v.agent.Path, Alias: v.agent.Model,
	}
}

// watched makes one try of a model call while it is watched.
func (v *invocation) watched(
	ctx context.Context, driver llm.Driver, req llm.Request, target llm.Target,
) (answer, error) {
	ctx, over := v.deps.Watch.Call(ctx, CallSeen{Target: target, Request: &req})
	ans, err := v.stream(ctx, driver, req, target)
	end := CallEnd{Err: err, Done: ans.done, Used: ans.used, TTFT: ans.ttft, Took: ans.duration}
	if ans.used != nil {
		if cost, known := v.deps.Prices.Cost(target, *ans.used); known {
			end.Cost = &cost
		}
	}
	over(end)
	return ans, err
}

// toolSeen returns a call of a tool as it begins.
func (v *invocation) toolSeen(c toolCall) ToolSeen {
	return ToolSeen{
		Name: v.offers[c.call.Name].canonical, ID: c.call.ID, Input: c.call.Input, Child: c.child != nil,
	}
}
