package telemetry

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"kaged.dev/pkg/fault"
)

// environment reads the standard OTEL_ variables. The exporters read their endpoints, headers, certificates and
// timeouts themselves.
type environment struct{ getenv func(string) string }

// The two signals, which are also the ends of their endpoints' paths.
const (
	traces  = "TRACES"
	metrics = "METRICS"
)

// wanted reports whether a collector is configured for a signal.
func (e environment) wanted(signal string) bool {
	if strings.EqualFold(e.getenv("OTEL_SDK_DISABLED"), "true") || e.getenv("OTEL_"+signal+"_EXPORTER") == "none" {
		return false
	}
	return e.getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || e.getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// overHTTP reports whether a signal uses HTTP; gRPC is the default.
func (e environment) overHTTP(signal string) (bool, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch v := e.getenv(name); v {
		case "":
			continue
		case "grpc":
			return false, nil
		case "http/protobuf":
			return true, nil
		default:
			return false, fault.New(fault.BadRequest, "The protocol %q of %s is not one of grpc, http/protobuf.", v, name)
		}
	}
	return false, nil
}

func (e environment) traces(ctx context.Context) (sdktrace.SpanExporter, error) {
	if !e.wanted(traces) {
		return nil, nil
	}
	overHTTP, err := e.overHTTP(traces)
	if err != nil {
		return nil, err
	}
	var exporter sdktrace.SpanExporter
	if overHTTP {
		exporter, err = otlptracehttp.New(ctx)
	} else {
		exporter, err = otlptracegrpc.New(ctx)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest,
			"The trace exporter cannot be set up; check the OTEL_EXPORTER_OTLP variables.")
	}
	return exporter, nil
}

// spanExporters returns the configured exporters of spans.
func (e environment) spanExporters(ctx context.Context, langfuse *Langfuse) (all []sdktrace.SpanExporter, err error) {
	own, err := e.traces(ctx)
	if err != nil {
		return nil, err
	}
	if langfuse != nil {
		exporter, err := langfuse.exporter(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, onlyAgents{exporter})
	}
	if own != nil {
		all = append(all, own)
	}
	return all, nil
}

func (e environment) metrics(ctx context.Context) (sdkmetric.Exporter, error) {
	if !e.wanted(metrics) {
		return nil, nil
	}
	overHTTP, err := e.overHTTP(metrics)
	if err != nil {
		return nil, err
	}
	var exporter sdkmetric.Exporter
	if overHTTP {
		exporter, err = otlpmetrichttp.New(ctx)
	} else {
		exporter, err = otlpmetricgrpc.New(ctx)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest,
			"The metric exporter cannot be set up; check the OTEL_EXPORTER_OTLP variables.")
	}
	return exporter, nil
}

// Langfuse is an account at a Langfuse server.
type Langfuse struct {
	// BaseURL is the server's URL.
	BaseURL string
	// PublicKey and SecretKey are the account's keys.
	PublicKey, SecretKey string
}

// exporter sends OTLP over HTTP to Langfuse's path /api/public/otel.
func (l *Langfuse) exporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	u, err := url.Parse(l.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fault.New(fault.BadRequest, "[langfuse] base_url is not an http or https URL.")
	}
	key := base64.StdEncoding.EncodeToString([]byte(l.PublicKey + ":" + l.SecretKey))
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(u.JoinPath("api/public/otel/v1/traces").String()),
		otlptracehttp.WithHeaders(map[string]string{"Authorization": "Basic " + key}),
		otlptracehttp.WithTimeout(exportTimeout),
	)
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "The exporter for Langfuse cannot be set up.")
	}
	return exporter, nil
}

// onlyAgents exports only the spans of agents, models and tools, because Langfuse has no use for calls between
// services.
type onlyAgents struct{ sdktrace.SpanExporter }

// ExportSpans implements sdktrace.SpanExporter.
func (o onlyAgents) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	var of []sdktrace.ReadOnlySpan
	for _, s := range spans {
		if s.InstrumentationScope().Name == AgentScope {
			of = append(of, s)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return o.SpanExporter.ExportSpans(ctx, of)
}
