package issue

import (
	"fmt"
	"io"
	"strings"
	"time"

	"kaged.dev/pkg/termtext"
)

// marks are the marks of todos by status.
var marks = map[string]string{"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "abandoned": "[-]"}

// writeIssue prints an issue. Agents wrote its texts, so control characters and changes of direction are escaped.
func writeIssue(w io.Writer, i issueView) error {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s\n", i.Number, termtext.Line(i.Title))
	fmt.Fprintf(&b, "%s, filed by %s, version %d\n", i.Status, termtext.Line(i.CreatedBy), i.Version)
	if i.Assignment != nil {
		fmt.Fprintf(&b, "assigned to %s\n", termtext.Line(*i.Assignment))
	}
	if i.Body != "" {
		fmt.Fprintf(&b, "\n%s\n", termtext.Lines(strings.TrimRight(i.Body, "\n")))
	}
	if len(i.Todos) > 0 {
		b.WriteString("\n")
		writeTodos(&b, i.Todos)
	}
	for _, u := range i.Updates {
		at := time.UnixMilli(u.CreatedAt).UTC().Format(time.RFC3339)
		fmt.Fprintf(&b, "\n%s %s: %s\n", at, termtext.Line(u.Author), strings.ReplaceAll(u.Kind, "_", " "))
		if field, ok := moved[u.Kind]; ok {
			fmt.Fprintf(&b, "  %s → %s\n", old(u.Metadata["old_"+field]), old(u.Metadata["new_"+field]))
		}
		if u.Body != "" {
			fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(termtext.Lines(strings.TrimRight(u.Body, "\n")), "\n", "\n  "))
		}
	}
	if len(i.Legal) > 0 {
		fmt.Fprintf(&b, "\ncan become %s\n", strings.Join(i.Legal, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// moved are the kinds of updates with an old and a new value, and the name of the old value in their metadata.
var moved = map[string]string{
	"status_change": "status", "title_edit": "title", "assignment_change": "assignment",
}

// old returns a value of an update's metadata on one line.
func old(v any) string {
	if v == nil {
		return "none"
	}
	return termtext.Line(fmt.Sprint(v))
}

// writeTodos prints todos, one per line, with their notes below.
func writeTodos(b *strings.Builder, todos []todoView) {
	for _, t := range todos {
		fmt.Fprintf(b, "- %s %s%s\n", marks[t.Status], termtext.Line(t.Content), about(t))
		for _, n := range t.Notes {
			text := strings.ReplaceAll(termtext.Lines(n.Text), "\n", "\n        ")
			fmt.Fprintf(b, "      %s: %s\n", termtext.Line(n.Author), text)
		}
	}
}

// about returns the rest of a todo's line: its kind, phase, origin and verification.
func about(t todoView) string {
	var parts []string
	if t.Kind == "criterion" {
		parts = append(parts, "criterion")
	}
	if t.Phase != nil {
		parts = append(parts, "phase "+termtext.Line(*t.Phase))
	}
	if t.OriginAgent != nil {
		parts = append(parts, "proposed by "+termtext.Line(*t.OriginAgent))
	}
	switch {
	case t.VerifiedBy != nil:
		parts = append(parts, "verified by "+termtext.Line(*t.VerifiedBy))
	case t.Kind == "criterion" && t.Status == "completed":
		parts = append(parts, "not verified")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
