package patch

import (
	"context"
	"fmt"
	"strings"

	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/fault"
)

// Outcome is the effect of a section on a text.
type Outcome struct {
	// Changes are in the order of the text and do not overlap.
	Changes []edit.Change
	// Added and Removed count lines.
	Added, Removed int
	// Notes say which hunks fit only with tolerance.
	Notes []string
}

// Failure is a hunk that could not be placed.
type Failure struct {
	// Code is hunk_not_found or hunk_ambiguous.
	Code fault.Code
	// Hunk counts the hunks of the section from 1; Line is where it begins in the patch.
	Hunk, Line int
	// Reason completes "Hunk 1 of ./file (line 5 of the patch) ".
	Reason string
	// Nearest is the line of the file at which text like the hunk's begins, 0 without one; Text is the text there.
	Nearest int
	Text    string
	// Places are lines of the file where an ambiguous hunk fits, the first few.
	Places []int
}

// MaxFailures bounds the hunks that fail: after so many the others are not tried.
const MaxFailures = 8

// Apply places the hunks of an update in a text. Each hunk that cannot be placed is a failure; then there is no
// outcome. The only error is that of ctx.
func (s *Section) Apply(ctx context.Context, text string) (*Outcome, []Failure, error) {
	f := newFile(text, s.Hunks)
	out := &Outcome{}
	var failures []Failure
	var spans []span // of the changes, in the order of the hunks
	cursor := 0
	for i := range s.Hunks {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		h := &s.Hunks[i]
		at, failure := f.place(h, cursor, spans)
		if failure != nil {
			failure.Hunk, failure.Line = i+1, h.Line
			if failures = append(failures, *failure); len(failures) == MaxFailures {
				break
			}
			continue
		}
		changed := h.spans(at)
		for _, c := range f.changes(h, at) {
			out.Changes = insert(out.Changes, c)
		}
		for _, l := range h.Lines {
			switch l.Op {
			case '+':
				out.Added++
			case '-':
				out.Removed++
			}
		}
		if at.level > exact {
			out.Notes = append(out.Notes, fmt.Sprintf("hunk %d fits at line %d only %s", i+1, at.line+1, at.level))
		}
		if len(changed) > 0 {
			spans = append(spans, changed...)
			cursor = max(cursor, changed[len(changed)-1].end)
		}
	}
	if len(failures) > 0 {
		return nil, failures, nil
	}
	return out, nil, nil
}

// insert puts a change into its place; nearly always that is the end.
func insert(list []edit.Change, c edit.Change) []edit.Change {
	i := len(list)
	for i > 0 && (list[i-1].Start > c.Start || list[i-1].Start == c.Start && list[i-1].End > c.End) {
		i--
	}
	list = append(list, c)
	copy(list[i+1:], list[i:])
	list[i] = c
	return list
}

// span is a range of lines, the end excluded.
type span struct{ start, end int }

// touches reports whether changing both would be changing one place twice.
func (s span) touches(o span) bool { return s.start < o.end && o.start < s.end }

// place is where a hunk fits, and how.
type place struct {
	line  int
	level level
	// lines is how many of the hunk's lines count: blank ones at its end may be no part of it.
	lines int
}

// spans returns which lines a hunk changes at a place; each follows lines that stay.
func (h *Hunk) spans(at place) []span {
	var spans []span
	line, changing := at.line, false
	for _, l := range h.Lines[:at.lines] {
		if l.Op == ' ' {
			line, changing = line+1, false
			continue
		}
		if !changing {
			spans, changing = append(spans, span{line, line}), true
		}
		if l.Op == '-' {
			line++
			spans[len(spans)-1].end = line
		}
	}
	return spans
}

// changes returns the changes that a hunk makes at a place.
func (f *file) changes(h *Hunk, at place) []edit.Change {
	var changes []edit.Change
	indent := f.indentation(h, at)
	rest := h.Lines[:at.lines]
	for _, s := range h.spans(at) {
		for rest[0].Op == ' ' {
			rest = rest[1:]
		}
		var added []Line
		for len(rest) > 0 && rest[0].Op != ' ' {
			if rest[0].Op == '+' {
				added = append(added, Line{'+', indent.adapt(rest[0].Text), rest[0].NoEnd})
			}
			rest = rest[1:]
		}
		changes = append(changes, f.change(s, added, h.marked))
	}
	return changes
}

// change replaces a range of lines.
func (f *file) change(at span, added []Line, marked bool) edit.Change {
	var b strings.Builder
	start, end := f.starts[at.start], f.starts[at.end]
	atEnd := at.end == f.count()
	if atEnd && len(added) > 0 && at.start > 0 && f.ending(at.start-1) == "" {
		// The last line had no line break and is no longer the last one.
		b.WriteString(f.usual())
	}
	for i, line := range added {
		b.WriteString(line.Text)
		last := atEnd && i == len(added)-1
		switch {
		case last && marked && line.NoEnd:
		case last && !marked && f.count() > 0 && f.ending(f.count()-1) == "":
			// As before, the file ends without a line break.
		default:
			b.WriteString(f.endingFor(at, i))
		}
	}
	return edit.Change{Start: start, End: end, Text: b.String()}
}

// endingFor returns the line break of the i-th line that replaces a range: that of the line it replaces, else of its
// neighbours, else the usual one of the file.
func (f *file) endingFor(at span, i int) string {
	for _, n := range [...]int{at.start + i, at.start - 1, at.end} {
		if n == at.start+i && n >= at.end || n < 0 || n >= f.count() {
			continue
		}
		if e := f.ending(n); e != "" {
			return e
		}
	}
	return f.usual()
}
