package tools

import (
	"strings"

	"kaged.dev/pkg/astgrep"
	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/workspace/paths"
)

// astAnswer collects the report of edit.ast's changes. All changes are counted. They are shown in the order of the
// files, up to the limits; positions are computed only for shown changes.
type astAnswer struct {
	editAstResult
	most      int // the maximum number of bytes of changes, of files and of errors, each
	diffBytes int

	changes, files int // the bytes until now
	diff           strings.Builder
}

// The number of bytes of an entry besides its texts.
const (
	changeOverhead  = 160
	fileOverhead    = 32
	problemOverhead = 32
)

// full reports whether no further content of a file can be shown.
func (a *astAnswer) full() bool { return a.changes > a.most && a.diff.Len() >= a.diffBytes }

// add reports the changes of one file. text is the file's old content; it is not read if the answer is full.
func (a *astAnswer) add(file paths.Path, text []byte, changes []astgrep.Edit) {
	a.FilesTouched++
	a.TotalReplacements += len(changes)
	if a.files += quoted(file.Show) + fileOverhead; a.files > a.most {
		a.Truncated = true
	} else {
		a.FileChanges = append(a.FileChanges, astFileChange{file.Show, len(changes)})
	}
	a.places(file, text, changes)
	if room := a.diffBytes - a.diff.Len(); room > 0 {
		list := make([]edit.Change, len(changes))
		for i, e := range changes {
			list[i] = edit.Change{Start: e.Start, End: e.End, Text: e.Text}
		}
		a.diff.WriteString(edit.Diff(file.Show, string(text), list, room))
	}
}

// places shows as many of a file's changes as fit.
func (a *astAnswer) places(file paths.Path, text []byte, changes []astgrep.Edit) {
	at := lines{text: text}
	for _, e := range changes {
		if a.changes += len(file.Show) + e.End - e.Start + len(e.Text) + changeOverhead; a.changes > a.most {
			a.Truncated = true
			return
		}
		from, to := at.locate(e.Start), at.locate(e.End)
		a.Changes = append(a.Changes, astChange{
			Path: file.Show, Before: string(text[e.Start:e.End]), After: e.Text, ByteStart: e.Start, ByteEnd: e.End,
			StartLine: from.line, StartColumn: from.column, EndLine: to.line, EndColumn: to.column,
		})
	}
}

// close returns the answer, with as many of the problems as fit.
func (a *astAnswer) close(problems []astParseError) editAstResult {
	r := a.editAstResult
	r.Diff, r.ParseErrors = a.diff.String(), []astParseError{}
	size := 0
	for _, p := range problems {
		if size += quoted(p.Path) + quoted(p.Message) + problemOverhead; size > a.most {
			r.Truncated = true
			break
		}
		r.ParseErrors = append(r.ParseErrors, p)
	}
	if r.Changes == nil {
		r.Changes = []astChange{}
	}
	if r.FileChanges == nil {
		r.FileChanges = []astFileChange{}
	}
	return r
}
