package change

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/workspace/paths"
)

// Recover takes back half-made changes of dead processes, by their journals in a folder, and
// removes their temporary files. It is called once at a process's start and leaves journals of
// living processes alone. It logs its actions and failures and never fails as a whole, because a
// project that is gone must not keep others from working.
func Recover(dir string, log *slog.Logger) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("unfinished changes to files cannot be looked for", "dir", dir, "error", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), journalSuffix) || !e.Type().IsRegular() {
			continue
		}
		if err := recoverFile(filepath.Join(dir, e.Name()), log); err != nil {
			log.Warn("unfinished changes to files could not be taken back", "journal", e.Name(), "error", err)
		}
	}
}

// recoverFile takes back the changes of one process and removes its journal.
func recoverFile(name string, log *slog.Logger) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // its process lives
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	var failed error
	note := func(l line) error {
		text, err := json.Marshal(l)
		if err == nil {
			// The last line may have been cut off.
			_, err = f.Write(slices.Concat([]byte{'\n'}, text, []byte{'\n'}))
		}
		return err
	}
	for _, set := range unfinished(data) {
		undone, err := set.takeBack(note, log)
		failed = errors.Join(failed, err)
		for _, s := range set.Steps {
			log.Warn(
				"a change to a file was cut off",
				"set",
				set.Set,
				"file",
				filepath.Join(string(s.Folder.Root), string(s.Folder.Rel), string(s.Name)),
				"taken_back",
				undone,
			)
		}
	}
	if failed != nil {
		return failed
	}
	return os.Remove(name)
}

// unfinished returns the last state of each set that did not end, the latest set first: a later one
// may build on an earlier one.
func unfinished(data []byte) []line {
	var order []string
	sets := map[string]line{}
	for text := range bytes.SplitSeq(data, []byte{'\n'}) {
		var l line
		if json.Unmarshal(text, &l) != nil || l.Set == "" {
			continue // the last line, cut off
		}
		known, ok := sets[l.Set]
		switch {
		case l.State == stateEnded:
			delete(sets, l.Set)
		case !ok:
			order = append([]string{l.Set}, order...)
			sets[l.Set] = l
		default:
			if l.Steps == nil {
				l.Steps, l.Dirs = known.Steps, known.Dirs
			}
			if at := l.Begun; at != nil && at.Step >= 0 && at.Step < len(l.Steps) {
				l.Steps[at.Step].begun = at.At
			}
			sets[l.Set] = l
		}
	}
	var list []line
	for _, id := range order {
		if l, ok := sets[id]; ok {
			list = append(list, l)
		}
	}
	return list
}

// takeBack undoes a set unless it was done, notes that, removes its temporary files, and reports
// whether the set is undone. An overwritten file that was changed since by another writer stays
// unchanged, beside its old content.
func (l line) takeBack(note func(line) error, log *slog.Logger) (undone bool, err error) {
	b, err := l.batch()
	defer b.close()
	if err != nil {
		return false, err
	}
	for _, s := range b.steps {
		if s.kind == replace {
			if err := completeExchange(s.folder.fd, s.temp, s.name); err != nil {
				return false, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	undone = l.State == stateUndone
	if l.State == stateStaged && !b.wasDone() {
		var back []*step
		for _, s := range slices.Backward(b.steps) {
			if s.changedSince() {
				at := filepath.Join(s.folder.key.root.Path(), s.folder.key.rel)
				log.Warn(
					"a file has changed since kaged was killed while it wrote to it, and stays as it is; beside it is what it "+
						"held before",
					"set",
					l.Set,
					"file",
					filepath.Join(at, s.name),
					"before",
					filepath.Join(at, s.temp),
				)
				continue
			}
			if err := s.undo(); err != nil {
				return false, fmt.Errorf("%s: %w", s.name, err)
			}
			back = append(back, s)
		}
		b.steps, undone = back, true
		if err := note(b.line(stateUndone)); err != nil {
			return false, err
		}
	}
	for _, s := range b.steps {
		s.finish()
	}
	if l.State == stateBegun || undone {
		for i := len(b.missing) - 1; i >= 0; i-- {
			removeFolder(b.missing[i])
		}
	}
	return undone, nil
}

// wasDone reports whether a set was at its end though the journal does not say so, as after a power failure: the
// temporary files of files that were replaced go only then.
func (b *batch) wasDone() bool {
	for _, s := range b.steps {
		if s.kind == replace || s.kind == overwrite {
			if versionAt(s.folder.fd, s.temp) == (Version{}) {
				return true
			}
		}
	}
	return false
}

// writingTime is the longest time of overwriting a file. A later change comes from another writer.
const writingTime = 10 * time.Second

// changedSince reports whether the step began to overwrite a file and another writer has changed or
// replaced it since.
func (s *step) changedSince() bool {
	if s.kind != overwrite || s.begun == 0 {
		return false
	}
	now := versionAt(s.folder.fd, s.name)
	return now != s.was && (now.Ino != s.was.Ino || now.Mtime > s.begun+int64(writingTime))
}

// batch opens the folders and files of a line. Steps in folders that are gone are left out: they
// need no undo.
func (l line) batch() (*batch, error) {
	b := &batch{id: l.Set, folders: map[folderKey]*folder{}}
	for _, sl := range l.Steps {
		s := &step{
			kind:   sl.Kind,
			name:   string(sl.Name),
			temp:   sl.Temp,
			toName: string(sl.ToName),
			was:    sl.Was,
			made:   sl.Made,
			begun:  sl.begun,
		}
		var err error
		if s.folder, err = b.reopen(sl.Folder); err == nil && sl.To != nil {
			s.toFolder, err = b.reopen(*sl.To)
		}
		switch {
		case err == nil:
			b.steps = append(b.steps, s)
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		default:
			return b, err
		}
	}
	for _, dir := range l.Dirs {
		if r, err := b.root(string(dir.Root)); err == nil {
			b.missing = append(b.missing, folderKey{r, string(dir.Rel)})
		}
	}
	return b, nil
}

// reopen opens a folder the journal names.
func (b *batch) reopen(at folderLine) (*folder, error) {
	r, err := b.root(string(at.Root))
	if err != nil {
		return nil, err
	}
	key := folderKey{r, string(at.Rel)}
	if f := b.folders[key]; f != nil {
		return f, nil
	}
	f := &folder{key: key, fd: -1}
	if err := f.open(); err != nil {
		return nil, err
	}
	b.folders[key] = f
	return f, nil
}

// root opens a root the journal names, once.
func (b *batch) root(name string) (*paths.Root, error) {
	for _, r := range b.roots {
		if r.Path() == name {
			return r, nil
		}
	}
	r, err := paths.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if r.Path() != name {
		// A link replaced the folder; its target is not ours.
		r.Close()
		return nil, unix.ELOOP
	}
	b.roots = append(b.roots, r)
	return r, nil
}
