package telemetry

import (
	"context"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// cutSpans and cutMetrics are exporters that stop at once when stopped ends. The SDK would let an exporter wait for a
// silent collector after its provider has ended.
type (
	cutSpans struct {
		sdktrace.SpanExporter
		stopped context.Context
	}
	cutMetrics struct {
		sdkmetric.Exporter
		stopped context.Context
	}
)

// ExportSpans implements sdktrace.SpanExporter.
func (c cutSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, done := either(ctx, c.stopped)
	defer done()
	return c.SpanExporter.ExportSpans(ctx, spans)
}

// Export implements sdkmetric.Exporter.
func (c cutMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	ctx, done := either(ctx, c.stopped)
	defer done()
	return c.Exporter.Export(ctx, m)
}

// either returns a context that ends with either, and a function that releases it.
func either(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(other, cancel)
	return ctx, func() { release(); cancel() }
}
