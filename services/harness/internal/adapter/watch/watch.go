// Package watch makes traces and metrics of runs: it implements [loop.Watch].
//
// The spans follow OpenTelemetry's conventions 1.41.0 for generative AI: invoke_agent for an invocation, chat for a
// request to a model, execute_tool for a call of a tool or of a child, and a span around each step. They hold names,
// counts and codes. They hold prompts, answers, and the inputs and results of tools only if the operator enables
// that, masked and cut.
package watch

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/telemetry"
	"kaged.dev/services/harness/internal/core/loop"
)

// ok is the code of success.
const ok = "ok"

// agentTrace is the name of a logged request.
const agentTrace = "agent.trace"

// unknownTool replaces names of tools that the agent was not offered.
const unknownTool = "unknown"

// Watch implements [loop.Watch].
type Watch struct {
	kit    *telemetry.Kit
	log    *slog.Logger
	tracer trace.Tracer
	agents atomic.Int64 // number of working agents
}

// New returns a Watch for a process's traces and metrics, nil if the process has neither and logs no prompts. If the
// operator enables prompts and there is no collector, requests are logged to log.
func New(kit *telemetry.Kit, log *slog.Logger) loop.Watch {
	if !kit.Traces() && !kit.Metrics() && (kit == nil || !kit.Prompts) {
		return nil
	}
	w := &Watch{kit: kit, log: log, tracer: kit.Tracer(telemetry.AgentScope)}
	kit.Observe(telemetry.Agents, func() float64 { return float64(w.agents.Load()) })
	return w
}

// Agent implements [loop.Watch].
func (w *Watch) Agent(ctx context.Context, a loop.AgentSeen) (context.Context, func(contract.Finished)) {
	w.agents.Add(1)
	child := a.InvocationID != ""
	ctx, span := w.start(ctx, "invoke_agent "+a.Key, "agent", trace.SpanKindInternal,
		semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(a.Key), semconv.GenAIAgentID(a.Path),
		semconv.GenAIConversationID(a.SessionID), semconv.SessionID(a.SessionID), semconv.UserID(a.OperatorID),
		attribute.String("kaged.run_id", a.RunID), attribute.String("kaged.project_id", a.ProjectID),
		attribute.String("kaged.invocation_id", a.InvocationID), attribute.String("kaged.model_alias", a.Alias))
	return ctx, func(fin contract.Finished) {
		w.agents.Add(-1)
		if child {
			w.kit.Add(telemetry.Delegations, 1, fin.Outcome.Name())
		}
		span.SetAttributes(attribute.String("kaged.outcome", fin.Outcome.Name()), attribute.Int("kaged.steps", fin.Steps))
		fail(span, fin.Err)
		span.End()
	}
}

// Step implements [loop.Watch].
func (w *Watch) Step(ctx context.Context, step int) (context.Context, func(error)) {
	ctx, span := w.start(ctx, "step "+strconv.Itoa(step), "span", trace.SpanKindInternal,
		attribute.Int("kaged.step", step))
	return ctx, func(err error) {
		fail(span, fault.From(err))
		span.End()
	}
}

// Request implements [loop.Watch]. It makes a span in the step, or a log line.
func (w *Watch) Request(ctx context.Context, r loop.RequestSeen) {
	_, span := w.start(ctx, "pre_generation", "span", trace.SpanKindInternal,
		attribute.Int("kaged.tools", len(r.Request.Tools)), attribute.Int("kaged.messages", len(r.Request.Messages)))
	if w.kit.Prompts && span.IsRecording() {
		span.SetAttributes(asked(r.Request)...)
	}
	span.End()
	if w.kit.Prompts && !w.kit.Traces() {
		system, messages := conversation(r.Request)
		w.log.LogAttrs(ctx, slog.LevelInfo, agentTrace,
			slog.String("event", agentTrace), slog.String("session_id", r.Agent.SessionID),
			slog.String("run_id", r.Agent.RunID), slog.String("agent", r.Agent.Path), slog.Int("step", r.Step),
			slog.Any("system_messages", system), slog.Any("messages", messages))
	}
}

// Call implements [loop.Watch].
func (w *Watch) Call(ctx context.Context, c loop.CallSeen) (context.Context, func(loop.CallEnd)) {
	provider, model := c.Target.Provider, c.Target.Model
	ctx, span := w.start(ctx, "chat "+model, "generation", trace.SpanKindClient,
		semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(providerName(c.Target)),
		semconv.GenAIRequestModel(model), semconv.GenAIRequestStream(true), attribute.String("kaged.provider", provider),
		attribute.Int("kaged.tools", len(c.Request.Tools)), attribute.Int("kaged.messages", len(c.Request.Messages)))
	if n := c.Request.MaxOutputTokens; n > 0 {
		span.SetAttributes(semconv.GenAIRequestMaxTokens(n))
	}
	if w.kit.Prompts && span.IsRecording() {
		span.SetAttributes(asked(c.Request)...)
	}
	return ctx, func(end loop.CallEnd) {
		w.measure(provider, model, end)
		if span.IsRecording() {
			w.describe(span, end)
		}
		fail(span, fault.From(end.Err))
		span.End()
	}
}

// measure updates the metrics by a request to a model.
func (w *Watch) measure(provider, model string, end loop.CallEnd) {
	code := ok
	if end.Err != nil {
		code = fault.CodeOf(end.Err).String()
	}
	w.kit.Record(telemetry.ProviderSeconds, end.Took.Seconds(), provider, model, code)
	if end.TTFT != nil {
		w.kit.Record(telemetry.TTFTSeconds, end.TTFT.Seconds(), provider, model)
	}
	if end.Done != nil {
		w.kit.Add(telemetry.Steps, 1, provider, model)
	}
	if u := end.Used; u != nil {
		for kind, n := range map[string]int64{
			"input": u.Input, "cache_read": u.CacheRead, "cache_write": u.CacheWrite, "output": u.Output,
		} {
			w.kit.Add(telemetry.Tokens, float64(n), provider, model, kind)
		}
	}
	if end.Cost != nil {
		w.kit.Add(telemetry.CostUSD, end.Cost.Total, provider, model)
	}
}

// describe adds the end of a request to a model to its span.
func (w *Watch) describe(span trace.Span, end loop.CallEnd) {
	if u := end.Used; u != nil {
		span.SetAttributes(semconv.GenAIUsageInputTokens(int(u.TotalInput())), semconv.GenAIUsageOutputTokens(int(u.Output)),
			semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)),
			semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)),
			semconv.GenAIUsageReasoningOutputTokens(int(u.Reasoning)), attribute.Bool("kaged.usage_estimated", end.Done == nil))
	}
	if end.TTFT != nil {
		span.SetAttributes(semconv.GenAIResponseTimeToFirstChunk(end.TTFT.Seconds()))
	}
	if end.Cost != nil {
		span.SetAttributes(attribute.Float64("kaged.cost_usd", end.Cost.Total))
		if w.kit.Langfuse {
			span.SetAttributes(attribute.String("langfuse.observation.cost_details", costDetails(end.Cost)))
		}
	}
	if end.Done != nil {
		span.SetAttributes(semconv.GenAIResponseFinishReasons(string(end.Done.Stop)))
		if w.kit.Prompts {
			span.SetAttributes(answered(end.Done))
		}
	}
}

// Tool implements [loop.Watch].
func (w *Watch) Tool(ctx context.Context, t loop.ToolSeen) (context.Context, func(loop.ToolOutcome)) {
	name, began := t.Name, time.Now()
	if name == "" {
		name = unknownTool
	}
	ctx, span := w.start(ctx, "execute_tool "+name, "tool", trace.SpanKindInternal,
		semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(name), semconv.GenAIToolCallID(t.ID),
		semconv.GenAIToolType("function"))
	if w.kit.Prompts && span.IsRecording() {
		span.SetAttributes(semconv.GenAIToolCallArgumentsKey.String(masked(t.Input)))
	}
	return ctx, func(out loop.ToolOutcome) {
		code := ok
		if out.Err != nil {
			code = out.Err.Code.String()
		}
		w.kit.Add(telemetry.ToolCalls, 1, name, code)
		w.kit.Record(telemetry.ToolSeconds, time.Since(began).Seconds(), name)
		if w.kit.Prompts && span.IsRecording() {
			span.SetAttributes(semconv.GenAIToolCallResultKey.String(masked(out.Content)))
		}
		fail(span, out.Err)
		span.End()
	}
}

// start begins a span. With Langfuse the span also has an observation type.
func (w *Watch) start(
	ctx context.Context, name, observation string, kind trace.SpanKind, attrs ...attribute.KeyValue,
) (context.Context, trace.Span) {
	if w.kit.Langfuse {
		attrs = append(attrs, attribute.String("langfuse.observation.type", observation))
	}
	return w.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// fail marks a span as failed, unless err is nil. It records only the code: the error's text may quote a
// conversation.
func fail(span trace.Span, err *fault.Error) {
	if err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(err.Code.String()))
		span.SetStatus(codes.Error, err.Code.String())
	}
}

// providerName returns the conventions' name of a target's provider, or the provider's own name if they do not list it.
func providerName(t llm.Target) string {
	switch {
	case t.Driver == "google":
		return semconv.GenAIProviderNameGCPGemini.Value.AsString()
	case t.Driver == "anthropic":
		return semconv.GenAIProviderNameAnthropic.Value.AsString()
	}
	return t.Provider
}
