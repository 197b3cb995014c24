package kit

import (
	"fmt"
	"io"
	"strings"

	"kaged.dev/pkg/termtext"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// The limits of an approval's subject that a terminal shows at first: the characters of a field, the lines of a diff
// and of a list.
const (
	shownCharacters = 1000
	shownLines      = 60
)

// describe writes the effect of a call, one field per line. Every field is text of the agent: it is quoted, so that it
// can neither end its line nor hide a part of itself. A field longer than characters and a list longer than lines are
// cut and start with their length; cut is true if one was. The command comes last, next to the question.
func describe(w io.Writer, subject *commonv1.ApprovalSubject, characters, lines int) (cut bool) {
	fmt.Fprintf(w, "%s%s needs your approval:\n", caller(subject), termtext.Line(subject.GetTool()))
	list := func(indent, unit string, items []string, show func(string) string) {
		if len(items) > lines {
			fmt.Fprintf(w, "%s(%d %s, the first %d)\n", indent, len(items), unit, lines)
			items, cut = items[:lines], true
		}
		for _, item := range items {
			cut = cut || longer(item, characters)
			fmt.Fprintf(w, "%s%s\n", indent, show(item))
		}
	}
	prose := func(s string) string {
		if longer(s, characters) {
			return termtext.Cut(s, characters)
		}
		return termtext.Line(s)
	}
	list("  ", "reasons", subject.GetReasons(), prose)
	if diff := strings.TrimRight(subject.GetPreview(), "\n"); diff != "" {
		all := strings.Split(diff, "\n")
		fmt.Fprintf(w, "  diff:    %s\n", Count(len(all), "line", "lines"))
		list("    ", "lines", all, func(line string) string { return diffLine(line, characters) })
	}
	quoted := func(s string) string { return termtext.Cut(s, characters) }
	list("  changes: ", "files", subject.GetPaths(), quoted)
	if subject.GetCwd() != "" {
		list("  in:      ", "", []string{subject.GetCwd()}, quoted)
	}
	if subject.GetCommand() != "" {
		list("  command: ", "", []string{subject.GetCommand()}, quoted)
	}
	return cut
}

// caller returns the name of a calling agent below the root, to be written before the tool.
func caller(subject *commonv1.ApprovalSubject) string {
	if path := subject.GetAgentPath(); strings.Contains(path, ".") {
		return termtext.Line(path) + ": "
	}
	return ""
}

// diffLine returns a line of a diff. It keeps tabs, because they indent code.
func diffLine(line string, characters int) string {
	if longer(line, characters) {
		return termtext.Cut(line, characters)
	}
	return termtext.Lines(line)
}

func longer(s string, characters int) bool {
	n := 0
	for range s {
		if n++; n > characters {
			return true
		}
	}
	return false
}

// SubjectLine returns a call on one line of about a screen's width.
func SubjectLine(subject *commonv1.ApprovalSubject) string {
	const short = 100
	var parts []string
	if subject.GetCommand() != "" {
		parts = append(parts, termtext.Cut(subject.GetCommand(), short))
	}
	if subject.GetCwd() != "" {
		parts = append(parts, "in "+termtext.Cut(subject.GetCwd(), short))
	}
	switch paths := subject.GetPaths(); len(paths) {
	case 0:
	case 1:
		parts = append(parts, "changes "+termtext.Cut(paths[0], short))
	default:
		parts = append(parts, fmt.Sprintf("changes %d files, the first %s", len(paths), termtext.Cut(paths[0], short)))
	}
	return strings.Join(parts, " ")
}
