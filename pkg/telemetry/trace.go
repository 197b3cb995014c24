package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/version"
)

// flushTimeout bounds how long a process waits for its last spans to leave.
const flushTimeout = 3 * time.Second

// Traces is a process's tracing; its zero value traces nothing.
type Traces struct {
	// Server and Client are to be added to every gRPC server and client.
	Server []grpc.ServerOption
	Client []grpc.DialOption

	provider *sdktrace.TracerProvider
}

// Tracing starts tracing if OTEL_EXPORTER_OTLP_ENDPOINT (or its traces twin) is set. The exporter reads the rest of the
// standard OTEL_ variables itself. An unreachable collector costs spans and nothing else.
func Tracing(ctx context.Context, service string, getenv func(string) string) (*Traces, error) {
	if getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return &Traces{}, nil
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "The trace exporter cannot be set up; check the OTEL_EXPORTER_OTLP variables.")
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "kaged-"+service),
			attribute.String("service.version", version.String()),
		)),
	)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return &Traces{
		Server:   []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler())},
		Client:   []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler())},
		provider: provider,
	}, nil
}

// Stop sends what is left, for at most three seconds.
func (t *Traces) Stop() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // a collector that is gone is no failure of ours
}
