package loop

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// Watch observes runs, for traces and metrics. Its methods, and the functions they return, must return at once and
// cannot fail. A method that returns a function returns the context of the observed work; the function is called once
// at its end. A Watch is safe for concurrent use. It must not keep its arguments, which belong to the run.
type Watch interface {
	// Agent is called at the start of an invocation.
	Agent(ctx context.Context, a AgentSeen) (context.Context, func(contract.Finished))
	// Step is called at the start of a step.
	Step(ctx context.Context, step int) (context.Context, func(error))
	// Request is called with each request after the processors.
	Request(ctx context.Context, r RequestSeen)
	// Call is called at the start of one request to a model.
	Call(ctx context.Context, c CallSeen) (context.Context, func(CallEnd))
	// Tool is called at the start of a tool call or a child's call.
	Tool(ctx context.Context, t ToolSeen) (context.Context, func(ToolOutcome))
}

// AgentSeen describes a starting invocation.
type AgentSeen struct {
	RunID, SessionID, ProjectID, OperatorID string
	// InvocationID is empty for the root agent.
	InvocationID string
	// Key and Path name the agent; Alias names its model.
	Key, Path, Alias string
}

// RequestSeen is a request after the processors.
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

// CallEnd is the outcome of a request to a model.
type CallEnd struct {
	// Err is nil for a complete answer.
	Err error
	// Done is the answer; nil unless it is complete. Used is its usage: an estimate for an answer that broke off, nil
	// for an unaccepted call.
	Done *llm.Done
	Used *llm.Usage
	// Cost is nil if the price is unknown.
	Cost *llm.Cost
	// TTFT is the time to the first piece of the answer; nil without a piece.
	TTFT *time.Duration
	// Took is the time of the call.
	Took time.Duration
}

// ToolSeen is a starting tool call.
type ToolSeen struct {
	// Name is the tool's canonical name, empty for a tool that the agent was not offered.
	Name      string
	ID, Input string
	// Child is true for a call of a child.
	Child bool
}

// unwatched is a Watch that does nothing.
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

// seen describes the invocation for [Watch].
func (v *invocation) seen() AgentSeen {
	return AgentSeen{
		RunID: v.start.RunID, SessionID: v.start.SessionID, ProjectID: v.start.ProjectID, OperatorID: v.start.OperatorID,
		InvocationID: v.id, Key: v.agent.Key, Path: v.agent.Path, Alias: v.agent.Model,
	}
}

// watched makes one attempt at a model call and reports it to [Watch].
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

// toolSeen describes a tool call for [Watch].
func (v *invocation) toolSeen(c toolCall) ToolSeen {
	return ToolSeen{
		Name: v.offers[c.call.Name].canonical, ID: c.call.ID, Input: c.call.Input, Child: c.child != nil,
	}
}
