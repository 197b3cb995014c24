package telemetry

import (
	"fmt"
	"strings"
)

//go:generate go run ./internal/gen

const pageHead = `# Metrics

Generated from ` + "`pkg/telemetry/metrics.go`" + `; run ` + "`make generate`" + ` after changing it. [Watch kaged](../howto/watch.md) says how to get them.

A process offers the metrics of its services, by the same names to Prometheus and over OTLP; to Prometheus those of the Go runtime and
of the process (` + "`go_*`, `process_*`" + `) too. A metric without a measurement is absent. Each has at most %d series, and a label at most
%d bytes. A histogram is ` + "`NAME_bucket`, `NAME_sum` and `NAME_count`" + `.

| metric | kind | service | labels | meaning |
|---|---|---|---|---|
`

// Page returns the reference page of metrics.
func Page() string {
	var b strings.Builder
	fmt.Fprintf(&b, pageHead, maxSeries, maxLabel)
	for _, m := range All() {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, m.Service, labels, m.Help)
	}
	return b.String()
}
