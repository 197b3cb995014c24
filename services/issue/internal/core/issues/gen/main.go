// Command gen writes the reference page of issues from the state machine.
package main

import (
	"fmt"
	"os"

	"kaged.dev/services/issue/internal/core/issues"
)

func main() {
	if err := os.WriteFile("../../../../../docs/reference/issues.md", []byte(issues.Page()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
