// Package harness carries out runs through the harness: it implements [runs.Harness] over kaged.harness.v1.
package harness

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/optional"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/telemetry"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// chunk bounds a piece of the conversation in bytes, unless one message alone is larger.
const chunk = 1 << 20

// Harness implements [runs.Harness] and compacts conversations. It is safe for concurrent use.
type Harness struct {
	client harnessv1.HarnessServiceClient
	// patience bounds the wait for an unreachable harness.
	patience time.Duration
	// noSandbox says that cages are switched off in this process.
	noSandbox bool
	tracer    trace.Tracer
	// check fails if an operator's runs may not start in a workspace.
	check func(ctx context.Context, operator, workspace string) error

	mu       sync.Mutex // guards the map
	compiled map[string]*harnessv1.CompiledProject
}

// New returns a Harness that uses conn.
func New(
	conn grpc.ClientConnInterface, patience time.Duration, noSandbox bool, kit *telemetry.Kit,
	check func(ctx context.Context, operator, workspace string) error,
) *Harness {
	return &Harness{
		client: harnessv1.NewHarnessServiceClient(conn), patience: patience, noSandbox: noSandbox,
		tracer: kit.Tracer(runScope), check: check,
		compiled: map[string]*harnessv1.CompiledProject{},
	}
}

// runScope is the instrumentation scope of the spans of runs.
const runScope = "kaged.dev/session-manager"

// cached bounds the cached snapshots.
const cached = 256

// snapshot returns a decoded snapshot, which must not be changed.
func (h *Harness) snapshot(s *projects.Snapshot) (*harnessv1.CompiledProject, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.compiled[s.Hash]; c != nil {
		return c, nil
	}
	c := new(harnessv1.CompiledProject)
	if err := proto.Unmarshal(s.Compiled, c); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "A stored snapshot cannot be read.")
	}
	if len(h.compiled) >= cached {
		clear(h.compiled)
	}
	h.compiled[s.Hash] = c
	return c, nil
}

// Start implements [runs.Harness]. It waits up to patience for an unreachable harness, such as one that is
// restarting.
func (h *Harness) Start(ctx context.Context, s runs.Start) (runs.Stream, error) {
	if err := h.check(ctx, s.Session.Owner, s.Session.Workspace); err != nil {
		return nil, err
	}
	compiled, err := h.snapshot(s.Inputs.Snapshot)
	if err != nil {
		return nil, err
	}
	// A run is the root of its trace, because the request that began it ends long before.
	ctx, span := h.tracer.Start(ctx, "run", trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("session.id", s.Session.ID), attribute.String("kaged.run_id", s.Run.ID),
		attribute.String("kaged.project_id", s.Session.ProjectID), attribute.String("kaged.request_id", s.RequestID),
	))
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, func() { span.End() })
	late := time.AfterFunc(h.patience, func() {
		cancel(fault.New(fault.Unavailable, "The harness cannot be reached; try again shortly.").With("subsystem", "harness"))
	})
	grpcStream, err := h.client.Run(ctx, grpc.WaitForReady(true), rpc.ReadOnly())
	if !late.Stop() || err != nil {
		cancel(nil)
		return nil, because(ctx, err)
	}
	st := &stream{grpc: grpcStream, ctx: ctx, cancel: cancel}
	conversation := s.Talk.Follow(s.Stored, s.Posted, compiled.GetRoot().GetIncludeToolResultsInContext())
	if err := st.begin(runStart(s, compiled, h.noSandbox), conversation, agentsOf(s)); err != nil {
		cancel(nil)
		return nil, because(ctx, err)
	}
	return st, nil
}

// agentsOf returns the active invocations of a run that was handed over.
func agentsOf(s runs.Start) []contract.Continued {
	if s.Continued == nil {
		return nil
	}
	return s.Continued.Agents(s.Run)
}

// because returns the reason for the end of a stream: the cause of its context if it has one, else the transport's
// error.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if err == nil {
		return ctx.Err()
	}
	return err
}

//convert:import runs "kaged.dev/services/session-manager/internal/sessions/core/runs"
//convert:import transcript "kaged.dev/services/session-manager/internal/sessions/core/transcript"
//convert:import harnesswire "kaged.dev/pkg/contract/harnesswire"
//convert:import harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
//convert:one runStart(compiled *harnessv1.CompiledProject, noSandbox bool) runs.Start *harnessv1.RunStart
//convert:with Run.ID=RunId Session.ID=SessionId Run.MessageID=MessageId Session.ProjectID=ProjectId
//convert:with Session.Owner=OperatorId >Compiled=compiled Inputs.Prompts=Prompts Session.ProjectPath=ProjectRoot
//convert:with >Routes=harnesswire.Routes(in.Routes) >Ledger=harnesswire.Ledger(in.Ledger)
//convert:with Session.Workspace=Workspace >NoSandbox=noSandbox >Job=- >MaxSteps=maxSteps(in,compiled)
//convert:with Session.Overrides.MaxOutputTokens=MaxOutputTokens Run.Issue=IssueNumber
//convert:with >DefaultTools=harnesswire.Switches(in.Inputs.Config.ToolRules())
//convert:with >AuditHead=harnesswire.AuditHead(in.Session.AuditHead) >OpenTodos=harnesswire.OpenTodos(in.Todos)
//convert:with >LiveAgents=int32(in.Inputs.Config.Limits().LiveAgents) >Metered=in.Metered()
//convert:with >SupersededTurns=int32(transcript.SupersededTurns(in.Stored))
//convert:with >Injections=harnesswire.Injections(in.Session.Injections) >Beginnings=-

// maxSteps returns the session's step limit, else that of the configuration for a root agent without one.
func maxSteps(s runs.Start, compiled *harnessv1.CompiledProject) *int32 {
	steps := s.Session.Overrides.MaxSteps
	if steps == 0 && compiled.GetRoot().MaxSteps == nil {
		steps = int32(s.Inputs.Config.Limits().MaxSteps)
	}
	return optional.NonZero(steps)
}
