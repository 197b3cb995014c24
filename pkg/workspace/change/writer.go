package change

import (
	"errors"
	"sync"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/workspace/paths"
)

// Writer changes files. It is safe for concurrent use.
type Writer struct {
	journal *Journal
	observe Observer

	mu  sync.Mutex // guards seq, and keeps events in order
	seq uint64
}

// NewWriter returns a writer that notes its changes in a journal and reports them to an observer; both may be nil.
func NewWriter(journal *Journal, observe Observer) *Writer {
	return &Writer{journal: journal, observe: observe}
}

// Apply makes all changes, in their order, or none. It fails, and leaves all files unchanged, with
// file_changed_since_read if a file differs from Was, also if it was changed during Apply; with
// file_exists if the place of a new file is taken; with file_not_regular or file_io as the system
// refuses.
//
// Each file is replaced at one moment: its readers get the old content or the whole new one. A file
// keeps its mode, its extended attributes and, where the system allows it, its owner; a new one
// obeys the umask. Missing parent folders are made. All steps that can fail are done first, beside
// the files and under temporary names; then come the renames, one after the other, during which
// another process can see some files changed and others not. The originals are kept until the last
// one succeeded. A process killed in between leaves a half-made set behind, which [Recover] takes
// back.
//
// A file with several hard links, one that is to be changed in place ([paths.Path.InPlace]), or one
// whose owner or attributes cannot be passed on to a new file, is overwritten in place, because a
// replacement would lose these. A reader may then see it half written; after a kill in between,
// Recover restores it, unless another writer has changed it since.
//
// Written files survive the death of any process. A power failure may take back the last seconds'
// changes, or part of a set, but leaves no file empty or torn that had content; see [folder.settle].
//
// The observer has been told of the changes when Apply returns.
func (w *Writer) Apply(changes ...Change) error { return w.apply(changes, func(int) {}) }

// apply calls before ahead of each step that can be seen.
func (w *Writer) apply(changes []Change, before func(step int)) error {
	if len(changes) == 0 {
		return nil
	}
	b := &batch{id: ident.New(), journal: w.journal, folders: map[folderKey]*folder{}}
	defer b.close()
	if err := b.plan(changes); err != nil {
		return err
	}
	if err := b.journal.begin(b); err != nil {
		return changes[0].At.Failure("changed", err)
	}
	err := b.stage()
	if err == nil {
		err = b.journal.staged(b)
	}
	if err == nil {
		crash.At(crash.FilesStaged)
		err = b.commit(before)
	} else {
		err = b.undo(0, err)
	}
	b.journal.end(b.id)
	w.tell(b.events(err == nil))
	return err
}

// tell numbers events and passes them to the observer.
func (w *Writer) tell(events []Event) {
	if w.observe == nil || len(events) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events {
		w.seq++
		events[i].Seq = w.seq
	}
	w.observe(events)
}

// Replace puts a file with this content at p, over any existing file; see [Writer.Apply].
func (w *Writer) Replace(p paths.Path, data []byte) error {
	c := Change{At: p, Data: data}
	if c.Data == nil {
		c.Data = []byte{}
	}
	if f, info, err := p.OpenFile(); err == nil {
		c.Was = VersionOf(info)
		f.Close()
	} else if !errors.Is(err, fault.FileNotFound) {
		return err
	}
	return w.Apply(c)
}

// Create makes a new file; if p exists, it fails with file_exists and makes no change.
func (w *Writer) Create(p paths.Path, data []byte) error {
	if data == nil {
		data = []byte{}
	}
	return w.Apply(Change{At: p, Data: data})
}
