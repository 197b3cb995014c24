// Package toolrunner calls the tool runners of workspaces over gRPC, for their catalogues and tools.
package toolrunner

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
	"kaged.dev/services/harness/internal/core/loop"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Workspaces reaches the tool runners of all workspaces. It is safe for concurrent use.
//
// Goroutines: one for each workspace that it holds, until Close.
type Workspaces struct {
	dial func(workspace string) (toolrunnerv1.ToolRunnerServiceClient, error)
	ttl  time.Duration

	life    context.Context // ended by Close
	close   context.CancelFunc
	holding sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	known map[string]catalogueAt
	held  map[string]bool
}

type catalogueAt struct {
	tools catalogue.Tools
	at    time.Time
}

// New returns workspaces that are reached through dial. The empty name stands for the only workspace. A catalogue is
// cached for ttl.
func New(dial func(workspace string) (toolrunnerv1.ToolRunnerServiceClient, error), ttl time.Duration) *Workspaces {
	life, end := context.WithCancel(context.Background())
	return &Workspaces{
		dial: dial, ttl: ttl, life: life, close: end, known: map[string]catalogueAt{}, held: map[string]bool{},
	}
}

// Open returns the tool runner of a workspace. It fails with unavailable if dial fails.
func (w *Workspaces) Open(workspace string) (loop.Tools, error) {
	client, err := w.dial(workspace)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The workspace %q cannot be reached.", workspace).
			With("subsystem", "tool-runner")
	}
	return &Runner{workspaces: w, name: workspace, client: client}, nil
}

// Runner is the tool runner of one workspace.
type Runner struct {
	workspaces *Workspaces
	name       string
	client     toolrunnerv1.ToolRunnerServiceClient
}

// Catalogue returns all tools. The answer is at most the time to live old.
func (r *Runner) Catalogue(ctx context.Context) (catalogue.Tools, error) {
	w := r.workspaces
	w.mu.Lock()
	known, ok := w.known[r.name]
	w.mu.Unlock()
	if ok && time.Since(known.at) < w.ttl {
		return known.tools, nil
	}
	resp, err := r.client.ListTools(ctx, &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		return nil, fault.From(err).With("subsystem", "tool-runner")
	}
	tools, err := toolwire.FromTools(resp.GetTools())
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.known[r.name] = catalogueAt{tools, time.Now()}
	w.mu.Unlock()
	return tools, nil
}

// patience is the time that a cancelled call has to end before its records are given up.
const patience = 5 * time.Second

// Run runs one call. See [loop.Tools].
func (r *Runner) Run(
	ctx context.Context, call loop.ToolRequest, output func(stream, text string),
) (loop.ToolOutcome, error) {
	if err := ctx.Err(); err != nil {
		return loop.ToolOutcome{}, err
	}
	lasting, stop := rpc.Lasting(ctx, patience, func(ctx context.Context) error {
		_, err := r.client.CancelTool(ctx, &toolrunnerv1.CancelToolRequest{
			SessionId: call.Context.SessionID, InvocationId: call.Context.InvocationID, CallId: call.CallID,
		})
		return err
	})
	defer stop()
	req := requestToProto(call)
	type events = grpc.ServerStreamingClient[toolrunnerv1.RunToolEvent]
	stream, err := rpc.Reach(lasting, func(ctx context.Context, opts ...grpc.CallOption) (events, error) {
		return r.client.RunTool(ctx, req, opts...)
	})
	if err != nil {
		return loop.ToolOutcome{}, err
	}
	wrote := false
	for {
		ev, err := stream.Recv()
		if err != nil {
			return loop.ToolOutcome{}, brokenOff(err, wrote)
		}
		switch {
		case ev.GetOutput() != nil:
			wrote = true
			output(ev.GetOutput().GetStream(), ev.GetOutput().GetText())
		case ev.GetResult() != nil || ev.GetApproval() != nil:
			// The end of the stream follows at once. Reading it keeps traces from showing the call as broken off.
			_, _ = stream.Recv()
			if ev.GetApproval() != nil {
				question, records := toolwire.FromQuestion(ev.GetApproval())
				return loop.ToolOutcome{Question: &question, Audit: records}, nil
			}
			return outcomeFromProto(ev.GetResult())
		}
	}
}

// brokenOff returns the error of a call without a result. The call is interrupted if its stream ended, or if it was
// lost after output. Otherwise the error is the RPC's, and the call's effects are unknown.
func brokenOff(err error, wrote bool) error {
	f := fault.From(err)
	if errors.Is(err, io.EOF) || wrote && f.Code == fault.Unavailable {
		return fault.Wrap(err, fault.Interrupted, "The tool runner broke off the call.")
	}
	return f
}

//convert:import toolwire "kaged.dev/pkg/contract/toolwire"
//convert:import loop "kaged.dev/services/harness/internal/core/loop"
//convert:import toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
//convert:one requestToProto loop.ToolRequest *toolrunnerv1.RunToolRequest >Context=toolwire.Caller(in.Context)
//convert:with >Grant=grant(in.Grant)

func grant(fingerprint string) *toolrunnerv1.ToolGrant {
	if fingerprint == "" {
		return nil
	}
	return &toolrunnerv1.ToolGrant{Fingerprint: fingerprint}
}

// outcomeFromProto returns the outcome of a call. A cancelled call has no outcome but its records.
func outcomeFromProto(p *toolrunnerv1.ToolResult) (loop.ToolOutcome, error) {
	out := loop.ToolOutcome{
		Content: p.GetContent(), Err: fault.FromProto(p.GetError()),
		Duration: time.Duration(p.GetDurationMs()) * time.Millisecond, CageOver: p.GetCageOver(),
		Audit: contract.RecordsFromProto(p.GetAudit()),
	}
	if out.Err != nil && out.Err.Code == fault.Cancelled {
		return loop.ToolOutcome{Audit: out.Audit, CageOver: out.CageOver}, out.Err
	}
	return out, nil
}
