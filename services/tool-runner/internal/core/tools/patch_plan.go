package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/parallel"
	"kaged.dev/pkg/patch"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// planned is the result of a patch on the files that it names. Its sections are applied one after the other in memory,
// so that each applies to the result of the earlier ones. Only the final result is written to the files.
type planned struct {
	d        Deps
	call     *tool.Call
	sections []patch.Section
	files    []*planFile // in the order of their first mention
	byPath   map[string]*planFile
	results  []patchedFile
	failures []patchFailure
	read     int64
	diffs    int // bytes
	changes  []change.Change

	mu   sync.Mutex // guards used
	used [][]byte   // the memory of the contents, for reuse
}

// planFile is the file at one path.
type planFile struct {
	path paths.Path
	// was and hash are those of the file on disk. exists is true if there is one.
	exists bool
	was    change.Version
	hash   reads.Hash
	now    *planContent                           // nil for no file
	ahead  func() ([]byte, change.Version, error) // the content read ahead, nil if it was not
}

// load returns the content and the version of the file on disk. It is called once.
func (f *planFile) load(ctx context.Context, w *planned) ([]byte, change.Version, error) {
	if ahead := f.ahead; ahead != nil {
		f.ahead = nil
		return ahead()
	}
	return w.d.loadTo(ctx, f.path, w.buffer)
}

// fewFiles is the least number of files for which a goroutine pays.
const fewFiles = 4

// readAhead reads the files of a patch, unless they are few. Beyond the limit of the patch it reads at most one file
// for each goroutine; the others are left to the sections that need them.
func (w *planned) readAhead(ctx context.Context) {
	for _, path := range w.call.Paths {
		w.file(path)
	}
	if len(w.files) < 2*fewFiles {
		return
	}
	var read atomic.Int64
	parallel.Each(len(w.files), fewFiles, func(i int) {
		f := w.files[i]
		if !f.exists || read.Load() >= w.d.Limits.PatchBytes {
			return
		}
		data, was, err := w.d.loadTo(ctx, f.path, w.buffer)
		f.ahead = func() ([]byte, change.Version, error) { return data, was, err }
		read.Add(int64(len(data)))
	})
}

// planContent is the content of a path after the sections applied until now: the file that was at from, with the
// content data if it was read.
type planContent struct {
	from *planFile // nil for a new file
	data []byte    // nil for the content of from on disk
	// changed is true if data differs from the content of from, which is determined after all sections; hash is then the
	// hash of data.
	changed bool
	hash    reads.Hash
}

type patchFailure struct {
	path string
	patch.Failure
}

// planPatch computes the result of a patch. It collects hunks that do not fit; any other error ends it at once.
func (d Deps) planPatch(ctx context.Context, call *tool.Call, p *editPatchParams) (*planned, error) {
	parsed, err := d.parse(p)
	if err != nil {
		return nil, err
	}
	w := &planned{d: d, call: call, sections: parsed.Sections, byPath: map[string]*planFile{}}
	w.readAhead(ctx)
	at := 0
	for i := range parsed.Sections {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := &parsed.Sections[i]
		file := w.file(call.Paths[at])
		at++
		var to *planFile
		if s.MoveTo != "" {
			to = w.file(call.Paths[at])
			at++
		}
		if err := w.apply(ctx, s, file, to); err != nil {
			return nil, w.refuse(err)
		}
		if len(w.failures) >= patch.MaxFailures {
			break
		}
	}
	if len(w.failures) > 0 {
		return nil, w.refuse(nil)
	}
	for _, f := range w.files {
		// Content moved to an occupied path has to be written there.
		if f.now != nil && f.now.data == nil && f.now.from != f && (f.exists || f.now.from.now != nil) {
			return nil, tooLarge(f.now.from.path, int64(d.Limits.EditFile))
		}
	}
	if w.settle(); len(w.changes) == 0 {
		return nil, fault.New(fault.NoChange, "The patch leaves every file as it is.")
	}
	return w, nil
}

// file returns the planFile of a path.
func (w *planned) file(path paths.Path) *planFile {
	abs := path.Abs()
	if f := w.byPath[abs]; f != nil {
		return f
	}
	f := &planFile{path: path, exists: path.Exists}
	w.byPath[abs] = f
	if f.exists {
		f.now = &planContent{from: f}
	}
	w.files = append(w.files, f)
	return f
}

// apply applies one section.
func (w *planned) apply(ctx context.Context, s *patch.Section, file, to *planFile) error {
	if s.Op == patch.Add {
		if file.now != nil {
			return fault.New(fault.FileExists, "The patch adds %s, and there is already something; update it instead.",
				file.path.Show).With("path", file.path.Show)
		}
		file.now = &planContent{data: []byte(s.Content)}
		diff := edit.DiffTexts(file.path.Show, "", s.Content, w.room())
		w.done(patchedFile{Path: file.path.Show, Action: "added", Added: lineCount(s.Content), Diff: diff})
		return nil
	}
	if file.now == nil {
		return fault.New(fault.FileNotFound, "There is no file at %s.", file.path.Show).With("path", file.path.Show)
	}
	if (s.Op == patch.Delete || to != nil) && file.path.Linked {
		return fault.New(fault.FileNotRegular, "%s is a link to %s; delete or move the file itself by its own name, or "+
			"the link by a command.",
			file.path.Show, file.path.Abs()).With("path", file.path.Show)
	}
	if to != nil && to.now != nil {
		return fault.New(fault.FileExists, "The patch moves %s to %s, and there is already something.", file.path.Show,
			to.path.Show).With("path", to.path.Show)
	}
	if err := w.look(ctx, file); err != nil {
		return err
	}
	if s.Op == patch.Delete {
		w.delete(file)
		return nil
	}
	return w.update(ctx, s, file, to)
}

// look checks that the caller has read a file in its present state on disk.
func (w *planned) look(ctx context.Context, file *planFile) error {
	from := file.now.from
	if from == nil || from.was != (change.Version{}) {
		return nil
	}
	data, was, err := from.load(ctx, w)
	switch {
	case errors.Is(err, fault.FileTooLarge):
		// The head is enough to determine the kind of file, and the file may be moved or deleted.
		if from.was, from.hash, err = w.d.sum(ctx, from.path); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if w.read += was.Size; w.read > w.d.Limits.PatchBytes {
			return fault.New(fault.FileTooLarge, "The files of the patch are larger than %d bytes together; send it in parts.",
				w.d.Limits.PatchBytes).
				With("limit_bytes", w.d.Limits.PatchBytes)
		}
		from.was, from.hash, file.now.data = was, reads.Sum(data), data
	}
	return w.d.check(w.call, from.path, from.hash)
}

func (w *planned) delete(file *planFile) {
	result := patchedFile{Path: file.path.Show, Action: "deleted"}
	doc := &document{path: file.path}
	if data := file.now.data; data != nil && w.d.decode(doc, data) == nil {
		result.Removed = lineCount(doc.text)
		result.Diff = edit.DiffTexts(file.path.Show, doc.text, "", w.room())
	}
	file.now = nil
	w.done(result)
}

// update changes a file, moves it, or both.
func (w *planned) update(ctx context.Context, s *patch.Section, file, to *planFile) error {
	result := patchedFile{Path: file.path.Show, Action: "updated", Hunks: len(s.Hunks)}
	target := file.path.Show
	now := file.now
	if to != nil {
		target = to.path.Show
		result.Action, result.MovedTo = "moved", target
		file.now, to.now = nil, now
		file = to
	}
	if len(s.Hunks) > 0 {
		doc := &document{path: file.path}
		if now.data == nil {
			return tooLarge(now.from.path, int64(w.d.Limits.EditFile))
		}
		if err := w.d.decode(doc, now.data); err != nil {
			return err
		}
		out, failures, err := s.Apply(ctx, doc.text)
		if err != nil {
			return err
		}
		for _, f := range failures {
			w.failures = append(w.failures, patchFailure{result.Path, f})
		}
		if len(failures) > 0 {
			return nil
		}
		file.now = &planContent{from: now.from, data: w.encode(doc, out.Changes)}
		result.Added, result.Removed, result.Notes = out.Added, out.Removed, out.Notes
		result.Diff = edit.DiffMoved(result.Path, target, doc.text, out.Changes, w.room())
	}
	w.done(result)
	return nil
}

// encode returns the content of a document with changes.
func (w *planned) encode(doc *document, changes []edit.Change) []byte {
	if doc.encoding != text.UTF8 {
		return text.Encode(edit.Apply(doc.text, changes), doc.encoding)
	}
	return edit.Append(w.buffer(edit.Size(doc.text, changes)), doc.text, changes)
}

// buffer returns memory for a content; see [buffer].
func (w *planned) buffer(size int) []byte {
	b := buffer(size)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = append(w.used, b)
	return b
}

// release gives the memory of the contents back. The results of the patch hold copies.
func (w *planned) release() {
	for _, b := range w.used {
		reuse(b)
	}
	w.used = nil
}

func (w *planned) done(r patchedFile) {
	w.results = append(w.results, r)
	w.diffs += len(r.Diff)
}

// room returns the maximum length of the next diff.
func (w *planned) room() int { return max(0, w.d.Limits.DiffBytes-w.diffs) }

// settle derives the file operations from the final contents.
func (w *planned) settle() {
	for _, f := range w.files {
		if f.now != nil && f.now.data != nil {
			f.now.hash = reads.Sum(f.now.data)
			f.now.changed = f.now.from == nil || f.now.hash != f.now.from.hash
		}
	}
	movedTo := map[*planFile]*planFile{}
	for _, f := range w.files {
		if f.now != nil && f.now.from != nil && f.now.from != f {
			movedTo[f.now.from] = f
		}
	}
	for _, f := range w.files {
		c := change.Change{At: f.path, Was: f.was}
		if f.now != nil {
			c.Data = f.now.data
		}
		to := movedTo[f]
		switch {
		case f.exists && f.now == nil && to != nil && !to.exists:
			c.Move = &to.path
			if to.now.changed {
				c.Data = to.now.data
			}
		case f.exists && f.now == nil:
			c.Remove = true
		case f.exists && f.now.from == f && !f.now.changed:
			continue
		case !f.exists && f.now == nil:
			continue
		case !f.exists && f.now.from != nil && f.now.from.now == nil:
			continue // the file is moved to this path
		case f.now.from != nil && f.now.from != f:
			// The content comes from a path that another file takes, or goes to a path that a file leaves or is deleted from.
			c.Like = &f.now.from.path
		}
		w.changes = append(w.changes, c)
	}
}

// refuse returns the error for a patch with hunks that do not fit, or err if all hunks fit.
func (w *planned) refuse(err error) error {
	if len(w.failures) == 0 || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	first := w.failures[0]
	more := ""
	if n := len(w.failures) - 1; n > 0 {
		more = fmt.Sprintf(" %d more did not fit either; see failures.", n)
	}
	f := fault.New(first.Code, "%s.%s No file was changed.", first.sentence(), more)
	for key, value := range first.details() {
		f = f.With(key, value)
	}
	if more == "" {
		return f
	}
	list := make([]any, 0, len(w.failures))
	for _, failure := range w.failures {
		details := failure.details()
		details["code"], details["message"] = failure.Code.String(), failure.sentence()+"."
		list = append(list, details)
	}
	return f.With("failures", list)
}

func (f patchFailure) sentence() string {
	return fmt.Sprintf("Hunk %d of %s (line %d of the patch) %s", f.Hunk, f.path, f.Line, f.Reason)
}

func (f patchFailure) details() map[string]any {
	details := map[string]any{"path": f.path, "hunk": f.Hunk, "line": f.Line}
	if f.Nearest > 0 {
		details["nearest_line"], details["nearest_text"] = f.Nearest, f.Text
	}
	if len(f.Places) > 0 {
		details["places"] = f.Places
	}
	return details
}

// lineCount returns the number of lines of a text.
func lineCount(content string) int {
	n := bytes.Count([]byte(content), []byte{'\n'})
	if content != "" && content[len(content)-1] != '\n' {
		n++
	}
	return n
}
