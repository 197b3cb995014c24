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
	// Changes are sorted by position and do not overlap.
	Changes []edit.Change
	// Added and Removed are numbers of lines.
	Added, Removed int
	// Notes say which hunks fit only with tolerance.
	Notes []string
}

// Failure is a hunk without a unique position.
type Failure struct {
	// Code is hunk_not_found or hunk_ambiguous.
	Code fault.Code
	// Hunk is the number of the hunk in the section, from 1; Line is its first line in the patch.
	Hunk, Line int
	// Reason completes "Hunk 1 of ./file (line 5 of the patch) ".
	Reason string
	// Nearest is the line of the file where the most similar text begins, 0 without one; Text is that text.
	Nearest int
	Text    string
	// Places are the first lines of the file where an ambiguous hunk fits.
	Places []int
}

// MaxFailures is the number of failed hunks after which the rest is not tried.
const MaxFailures = 8

// Apply finds the positions of an update's hunks in a text. Each hunk without one is a failure; then there is no
// outcome. The only error is that of ctx.
func (s *Section) Apply(ctx context.Context, text string) (*Outcome, []Failure, error) {
	f := newFile(text, s.Hunks)
	out := &Outcome{}
	var failures []Failure
	var spans []span // lines of the changes, in the order of the hunks
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

// insert inserts a change in sorted order, usually at the end.
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

// touches reports whether two spans change a common line, or the same position.
func (s span) touches(o span) bool { return s.start < o.end && o.start < s.end }

// place is a position where a hunk fits, and the tolerance needed.
type place struct {
	line  int
	level level
	// lines is the number of the hunk's lines that count; blank lines at its end may not belong to it.
	lines int
}

// spans returns the lines that a hunk changes at a position; an unchanged line separates two spans.
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

// changes returns the changes of a hunk at a position.
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
		// The file's last line had no line break and is no longer the last line.
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

// endingFor returns the line break of the i-th new line of a range: that of the line it replaces, else of its
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
