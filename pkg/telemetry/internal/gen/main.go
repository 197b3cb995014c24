// Command gen writes the reference page of metrics from their list.
package main

import (
	"fmt"
	"os"

	"kaged.dev/pkg/telemetry"
)

func main() {
	if err := os.WriteFile("../../docs/reference/metrics.md", []byte(telemetry.Page()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
