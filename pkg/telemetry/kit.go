package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"kaged.dev/pkg/version"
)

// Limits of the queue for a collector. Spans are dropped while the queue is full, and the end of a process waits for
// the last ones at most flushTimeout.
const (
	maxQueue      = 2048
	maxValue      = 16 << 10 // size of a span's attribute in bytes
	exportTimeout = 10 * time.Second
	flushTimeout  = 3 * time.Second
	metricsEvery  = 30 * time.Second
	maxSeries     = 2000 // number of series of one metric
)

// AgentScope is the scope of the spans of agents, models and tools.
const AgentScope = "kaged.dev/agents"

// Options are the destinations of traces and metrics.
type Options struct {
	// Service is the name of the process.
	Service string
	// Getenv reads the environment, whose standard OTEL_ variables name the collector.
	Getenv func(string) string
	// Log gets the failures of exporters.
	Log *slog.Logger
	// MetricsListen is the address for Prometheus, or "".
	MetricsListen string
	// Langfuse is the account for agents' traces, or nil.
	Langfuse *Langfuse
	// Prompts adds prompts, answers, and inputs and results of tools to spans.
	Prompts bool
}

// Kit is a process's traces and metrics. A nil Kit has neither. It is safe for concurrent use. Only Stop waits for a
// collector.
//
// Goroutines: one for each exporter and one for the listener of metrics, which end with Stop.
type Kit struct {
	// Server and Client are options for every gRPC server and client.
	Server []grpc.ServerOption
	Client []grpc.DialOption
	// Prompts means that spans hold prompts, answers, and inputs and results of tools.
	Prompts bool
	// Langfuse means that spans are also sent to Langfuse.
	Langfuse bool
	// MetricsAddress is the address for Prometheus, "" if metrics are not served.
	MetricsAddress string

	tracers *sdktrace.TracerProvider // may be nil
	queues  []sdktrace.SpanProcessor // queues of the exporters
	meters  *sdkmetric.MeterProvider // may be nil
	meter   metric.Meter
	metrics map[string]instrument
	http    *http.Server
	serving sync.WaitGroup
	stopped context.Context // ended by cut, which cancels every running export
	cut     context.CancelFunc

	observing sync.Mutex                  // guards observed
	observed  map[string][]func() float64 // by the name of the gauge
}

// Start starts the traces and metrics of opts. It fails with bad_request for an invalid setting or an address that
// cannot be used. An unreachable collector is not an error: spans are dropped, with an occasional warning.
func Start(ctx context.Context, opts Options) (*Kit, error) {
	k := &Kit{Prompts: opts.Prompts, Langfuse: opts.Langfuse != nil}
	k.stopped, k.cut = context.WithCancel(context.Background())
	env := environment{opts.Getenv}
	about := resource.NewSchemaless(
		attribute.String("service.name", "kaged-"+opts.Service), attribute.String("service.version", version.String()),
	)
	if err := k.startTraces(ctx, env, opts.Langfuse, about); err != nil {
		k.cut()
		return nil, err
	}
	if err := k.startMetrics(ctx, env, opts, about); err != nil {
		k.Stop()
		return nil, err
	}
	if k.tracers != nil || k.meters != nil {
		otel.SetErrorHandler(&complaints{log: opts.Log})
	}
	return k, nil
}

func (k *Kit) startTraces(ctx context.Context, env environment, langfuse *Langfuse, about *resource.Resource) error {
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxValue
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits)}
	exporters, err := env.spanExporters(ctx, langfuse)
	if err != nil || len(exporters) == 0 {
		return err
	}
	for _, e := range exporters {
		queue := sdktrace.NewBatchSpanProcessor(cutSpans{e, k.stopped},
			sdktrace.WithMaxQueueSize(maxQueue), sdktrace.WithExportTimeout(exportTimeout))
		k.queues = append(k.queues, queue)
		options = append(options, sdktrace.WithSpanProcessor(queue))
	}
	k.tracers = sdktrace.NewTracerProvider(options...)
	wire := []otelgrpc.Option{
		otelgrpc.WithTracerProvider(k.tracers), otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithMeterProvider(noMeters),
	}
	k.Server = []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(wire...))}
	k.Client = []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(wire...))}
	return nil
}

// Tracer returns the tracer of a scope. Without a collector its spans are dropped at almost no cost.
func (k *Kit) Tracer(scope string) trace.Tracer {
	if k == nil || k.tracers == nil {
		return tracenoop.NewTracerProvider().Tracer(scope)
	}
	return k.tracers.Tracer(scope)
}

// Traces reports whether spans are exported.
func (k *Kit) Traces() bool { return k != nil && k.tracers != nil }

// Stop exports the remaining data, for at most three seconds. It may be called twice.
func (k *Kit) Stop() {
	if k == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	var flushing sync.WaitGroup
	for _, queue := range k.queues { // in parallel, because the provider would shut them down one after the other
		flushing.Go(func() { _ = queue.Shutdown(ctx) }) // an unreachable collector is not an error
	}
	if k.http != nil {
		_ = k.http.Close()
		k.serving.Wait()
	}
	if k.meters != nil {
		_ = k.meters.Shutdown(ctx)
	}
	flushing.Wait()
	k.cut()
}

// complaints logs the failures of exporters, at most one a minute, because an unreachable collector fails every few
// seconds.
type complaints struct {
	log *slog.Logger

	mu     sync.Mutex // guards the fields below
	last   time.Time
	unsaid int
}

// complainEvery is the minimum interval of warnings.
const complainEvery = time.Minute

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	if err == nil || c.log == nil {
		return
	}
	c.mu.Lock()
	if !c.last.IsZero() && time.Since(c.last) < complainEvery {
		c.unsaid++
		c.mu.Unlock()
		return
	}
	unsaid := c.unsaid
	c.last, c.unsaid = time.Now(), 0
	c.mu.Unlock()
	c.log.Warn("telemetry is lost", "error", err, "more", unsaid)
}
