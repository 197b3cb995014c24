package edit

import (
	"fmt"
	"strings"
)

// lineEdits converts changes to the smallest number of changes of whole lines. Changes of one line are merged.
func lineEdits(before string, changes []Change) []Change {
	var edits []Change
	for i := 0; i < len(changes); {
		start, end := lineStart(before, changes[i].Start), lineEnd(before, changes[i])
		n := i + 1
		for n < len(changes) && lineStart(before, changes[n].Start) < end {
			end = max(end, lineEnd(before, changes[n]))
			n++
		}
		var text strings.Builder
		at := start
		for _, c := range changes[i:n] {
			text.WriteString(before[at:c.Start])
			text.WriteString(c.Text)
			at = c.End
		}
		text.WriteString(before[at:end])
		i = n
		old, new := before[start:end], text.String()
		if old == new {
			continue
		}
		same, tail := common(old, new)
		edits = append(edits, Change{start + same, end - tail, new[same : len(new)-tail]})
	}
	return edits
}

func lineStart(text string, at int) int { return strings.LastIndexByte(text[:at], '\n') + 1 }

// lineEnd returns the end of the last line that a change affects.
func lineEnd(text string, c Change) int {
	if begins(text, c.End) && (strings.HasSuffix(c.Text, "\n") || c.Text == "" && begins(text, c.Start)) {
		return c.End
	}
	return nextLine(text, c.End)
}

// nextLine returns the beginning of the line after a position.
func nextLine(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// unified writes the hunks of a unified diff one after the other.
type unified struct {
	before string
	b      strings.Builder
	// at is the position up to which lines are counted; oldLine and newLine are the numbers of lines before it on both
	// sides.
	at, oldLine, newLine int
}

// hunk writes edits that are close enough to share one hunk.
func (u *unified) hunk(edits []Change) {
	start := edits[0].Start
	for range context {
		if start > u.at {
			start = lineStart(u.before, start-1)
		}
	}
	end := edits[len(edits)-1].End
	for range context {
		end = nextLine(u.before, end)
	}
	var body strings.Builder
	at := start
	for _, e := range edits {
		signed(&body, ' ', u.before[at:e.Start])
		signed(&body, '-', u.before[e.Start:e.End])
		signed(&body, '+', e.Text)
		at = e.End
	}
	signed(&body, ' ', u.before[at:end])
	skipped := lineCount(u.before[u.at:start])
	u.oldLine, u.newLine = u.oldLine+skipped, u.newLine+skipped
	old := lineCount(u.before[start:end])
	new := old
	for _, e := range edits {
		new += lineCount(e.Text) - lineCount(u.before[e.Start:e.End])
	}
	fmt.Fprintf(&u.b, "@@ -%s +%s @@\n", lines(u.oldLine, old), lines(u.newLine, new))
	u.b.WriteString(body.String())
	u.at, u.oldLine, u.newLine = end, u.oldLine+old, u.newLine+new
}

// signed writes lines with a sign before each.
func signed(b *strings.Builder, sign byte, text string) {
	for line := range strings.Lines(text) {
		b.WriteByte(sign)
		b.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// lines formats the range of a hunk: n lines after the given number of lines. An empty range is named by the preceding
// line.
func lines(after, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", after)
	case 1:
		return fmt.Sprint(after + 1)
	}
	return fmt.Sprintf("%d,%d", after+1, n)
}

func lineCount(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && text[len(text)-1] != '\n' {
		n++
	}
	return n
}
