package telemetry

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:generate go run ./internal/gen

//go:embed page_head.md
var pageHead string

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
