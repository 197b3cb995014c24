package issues

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:generate go run ./gen

// The text before and after the state machine; the limits are inserted into the latter.
var (
	//go:embed page_head.md
	intro string
	//go:embed page_tail.md
	bounds string
)

// Page returns the reference page of issues: the state machine as a diagram and a table, and the limits.
func Page() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("\n```mermaid\nstateDiagram-v2\n    [*] --> open\n")
	for _, s := range Machine {
		for _, to := range s.To {
			fmt.Fprintf(&b, "    %s --> %s\n", s.Status, to)
		}
	}
	for _, s := range Machine {
		if s.Ended {
			fmt.Fprintf(&b, "    %s --> [*]\n", s.Status)
		}
	}
	b.WriteString("```\n\n| status | meaning | can become | comment needed to get here |\n|---|---|---|---|\n")
	for _, s := range Machine {
		needed := "no"
		if s.Comment != "" {
			needed = "yes: " + s.Comment
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", s.Status, s.Meaning, strings.Join(Names(s.To), "`, `"), needed)
	}
	fmt.Fprintf(&b, bounds, MaxCounted, MaxTitle, MaxBody, MaxItems, MaxTodos, MaxTodo, MaxPhase, MaxNotes, MaxNote,
		MaxQuery)
	return b.String()
}
