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

// Bounds of the queue for a collector. Spans that come while the queue is full are dropped, and a process never waits
// for its last ones longer than flushTimeout.
const (
	maxQueue      = 2048
	maxValue      = 16 << 10 // bytes of a span's attribute
	exportTimeout = 10 * time.Second
	flushTimeout  = 3 * time.Second
	metricsEvery  = 30 * time.Second
	maxSeries     = 2000 // of one metric
)

// AgentScope is the scope of the spans of agents, models and tools.
const AgentScope = "kaged.dev/agents"

// Options says where traces and metrics go.
type Options struct {
	// Service is the name of the process.
	Service string
	// Getenv reads the environment, where the standard OTEL_ variables say where a collector is.
	Getenv func(string) string
	// Log is told about collectors that cannot be reached.
	Log *slog.Logger
	// MetricsListen is the address for Prometheus; it may be "".
	MetricsListen string
	// Langfuse may be nil.
	Langfuse *Langfuse
	// Prompts says that spans hold prompts, answers, and inputs and results of tools.
	Prompts bool
}

// Kit is a process's traces and metrics. A nil Kit has neither. It is safe for concurrent use. No method waits for a
// collector or for Prometheus, but Stop.
//
// Goroutines: one for each exporter and one for the listener of metrics, which end with Stop.
type Kit struct {
	// Server and Client are to be added to every gRPC server and client.
	Server []grpc.ServerOption
	Client []grpc.DialOption
	// Prompts says that spans hold prompts, answers, and inputs and results of tools.
	Prompts bool
	// Langfuse says that spans are for Langfuse, too.
	Langfuse bool
	// MetricsAddress is where Prometheus finds the metrics, "" for nowhere.
	MetricsAddress string

	tracers *sdktrace.TracerProvider // may be nil
	queues  []sdktrace.SpanProcessor // of the exporters
	meters  *sdkmetric.MeterProvider // may be nil
	meter   metric.Meter
	metrics map[string]instrument
	http    *http.Server
	serving sync.WaitGroup
	stopped context.Context // ended by cut, and with it every export on its way
	cut     context.CancelFunc

	observing sync.Mutex                  // guards observed
	observed  map[string][]func() float64 // by the name of the gauge
}

// Start starts the traces and metrics of opts. It fails with bad_request where a setting cannot be used or an
// address cannot be listened on. An unreachable collector is no failure: it costs spans, and a warning now and
// then.
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

// Traces reports whether spans go anywhere.
func (k *Kit) Traces() bool { return k != nil && k.tracers != nil }

// Stop sends the rest, for at most three seconds. It may be called twice.
func (k *Kit) Stop() {
	if k == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	var flushing sync.WaitGroup
	for _, queue := range k.queues { // the provider would end them one after the other
		flushing.Go(func() { _ = queue.Shutdown(ctx) }) // a collector that is gone is no failure of ours
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

// complaints logs the failures of exporters, one a minute: a collector that is gone fails every few seconds.
type complaints struct {
	log *slog.Logger

	mu     sync.Mutex // guards the fields below
	last   time.Time
	unsaid int
}

// complainEvery is the least time between two warnings.
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
