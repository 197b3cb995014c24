package telemetry

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
)

// maxLabel is the maximum length of a label's value in bytes.
const maxLabel = 128

var noMeters = metricnoop.NewMeterProvider()

// instrument is the instrument of a recorded metric: one of its fields is set, for a gauge none.
type instrument struct {
	counter   metric.Float64Counter
	histogram metric.Float64Histogram
}

func (k *Kit) startMetrics(ctx context.Context, env environment, opts Options, about *resource.Resource) error {
	readers := []sdkmetric.Option{sdkmetric.WithResource(about), sdkmetric.WithCardinalityLimit(maxSeries)}
	exporter, err := env.metrics(ctx)
	if err != nil {
		return err
	}
	if exporter != nil {
		readers = append(readers, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(cutMetrics{exporter, k.stopped},
			sdkmetric.WithInterval(metricsEvery), sdkmetric.WithTimeout(exportTimeout))))
	}
	if opts.MetricsListen != "" {
		reader, err := k.listen(ctx, opts.MetricsListen)
		if err != nil {
			return err
		}
		readers = append(readers, sdkmetric.WithReader(reader))
	}
	if exporter == nil && opts.MetricsListen == "" {
		return nil
	}
	k.meters = sdkmetric.NewMeterProvider(readers...)
	k.meter = k.meters.Meter("kaged.dev")
	return k.make()
}

// make creates the instruments.
func (k *Kit) make() (err error) {
	k.metrics, k.observed = map[string]instrument{}, map[string][]func() float64{}
	for _, m := range All() {
		var i instrument
		switch m.Kind {
		case Counter:
			i.counter, err = k.meter.Float64Counter(m.Name, metric.WithDescription(m.Help))
		case Histogram:
			i.histogram, err = k.meter.Float64Histogram(m.Name, metric.WithDescription(m.Help),
				metric.WithExplicitBucketBoundaries(m.Bounds...))
		case Gauge:
			_, err = k.meter.Float64ObservableGauge(m.Name, metric.WithDescription(m.Help), metric.WithFloat64Callback(
				func(_ context.Context, o metric.Float64Observer) error {
					if sum, said := k.observe(m); said {
						o.Observe(sum)
					}
					return nil
				}))
		}
		if err != nil {
			return fault.Wrap(err, fault.Internal, "The metric %s cannot be made.", m.Name)
		}
		k.metrics[m.Name] = i
	}
	return nil
}

// Metrics reports whether metrics are recorded.
func (k *Kit) Metrics() bool { return k != nil && k.meters != nil }

// Add adds n to a counter; values are the values of its labels in order.
func (k *Kit) Add(m Metric, n float64, values ...string) {
	if !k.Metrics() {
		return
	}
	if i := k.metrics[m.Name]; i.counter != nil {
		i.counter.Add(context.Background(), n, with(m, values))
	}
}

// Record adds a value to a histogram; values are the values of its labels in order.
func (k *Kit) Record(m Metric, v float64, values ...string) {
	if !k.Metrics() {
		return
	}
	if i := k.metrics[m.Name]; i.histogram != nil {
		i.histogram.Record(context.Background(), v, with(m, values))
	}
}

// Observe sets f as the source of a gauge without labels. f is called from any goroutine each time the metrics are
// read, until the Kit stops. The values of several sources of one gauge are added.
func (k *Kit) Observe(m Metric, f func() float64) {
	if !k.Metrics() {
		return
	}
	k.observing.Lock()
	defer k.observing.Unlock()
	k.observed[m.Name] = append(k.observed[m.Name], f)
}

// observe adds the values of a gauge's sources, and reports whether there are any.
func (k *Kit) observe(m Metric) (sum float64, said bool) {
	k.observing.Lock()
	observers := slices.Clone(k.observed[m.Name])
	k.observing.Unlock()
	for _, f := range observers {
		sum += f()
	}
	return sum, len(observers) > 0
}

// with returns the labels of a measurement.
func with(m Metric, values []string) metric.MeasurementOption {
	labels := make([]attribute.KeyValue, len(m.Labels))
	for i, name := range m.Labels {
		value := ""
		if i < len(values) {
			value = strings.ToValidUTF8(clip.Bytes(values[i], maxLabel), "")
		}
		labels[i] = attribute.String(name, value)
	}
	return metric.WithAttributeSet(attribute.NewSet(labels...))
}

// The limits of the listener for Prometheus.
const (
	scrapeTimeout = 5 * time.Second
	maxScrapes    = 4
	maxHeader     = 8 << 10
)

// listen serves the metrics at /metrics and returns their reader.
func (k *Kit) listen(ctx context.Context, address string) (sdkmetric.Reader, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := prometheusexporter.New(
		prometheusexporter.WithRegisterer(registry), prometheusexporter.WithoutScopeInfo(),
		prometheusexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes))
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "The metrics cannot be offered to Prometheus.")
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest,
			"The address %s of metrics_listen cannot be listened on; choose another in [telemetry].", address)
	}
	k.MetricsAddress = listener.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout, ErrorHandling: promhttp.ContinueOnError,
	}))
	k.http = &http.Server{
		Handler: mux, ReadTimeout: scrapeTimeout, WriteTimeout: 2 * scrapeTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader,
	}
	k.serving.Go(func() { _ = k.http.Serve(listener) }) // ends in Stop
	return reader, nil
}
