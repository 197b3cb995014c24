package paths

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
	"strings"

	"golang.org/x/sys/unix"
)

// Recover takes back what processes that are gone left half made, by their journals in a folder, and removes their temporary
// files. It is called once at a process's start and leaves journals of living processes alone. What it did and what it could
// not do goes to the log; it never fails as a whole, because a project that is gone must not keep others from working.
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

// recoverFile takes back what one process left behind and removes its journal.
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
	for _, set := range unfinished(data) {
		undone, err := set.takeBack()
		failed = errors.Join(failed, err)
		for _, s := range set.Steps {
			log.Warn("a change to a file was cut off", "set", set.Set, "file", filepath.Join(string(s.Folder.Root), string(s.Folder.Rel), string(s.Name)),
				"taken_back", undone)
		}
	}
	if failed != nil {
		return failed
	}
	return os.Remove(name)
}

// unfinished returns the last state of each set that did not end, the latest set first: a later one may build on what an
// earlier one did.
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

// takeBack undoes a set unless it was done, removes its temporary files, and reports whether it undid it.
func (l line) takeBack() (undone bool, err error) {
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
	if l.State == stateStaged && !b.wasDone() {
		for i := len(b.steps) - 1; i >= 0; i-- {
			if err := b.steps[i].undo(); err != nil {
				return false, fmt.Errorf("%s: %w", b.steps[i].name, err)
			}
		}
		undone = true
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

// wasDone reports whether a set was at its end though the journal does not say so, as after a power failure: the temporary
// files of files that were replaced go only then.
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

// batch opens what a line is about. Steps in folders that are gone are left out: there is nothing to take back.
func (l line) batch() (*batch, error) {
	b := &batch{id: l.Set, folders: map[folderKey]*folder{}}
	for _, sl := range l.Steps {
		s := &step{kind: sl.Kind, name: string(sl.Name), temp: sl.Temp, toName: string(sl.ToName), was: sl.Was, made: sl.Made, begun: true}
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
	f := &folder{key, -1}
	if err := f.open(); err != nil {
		return nil, err
	}
	b.folders[key] = f
	return f, nil
}

// root opens a root the journal names, once.
func (b *batch) root(name string) (*root, error) {
	for _, r := range b.roots {
		if r.path == name {
			return r, nil
		}
	}
	r, err := openRoot(name, nil)
	if err != nil {
		return nil, err
	}
	if r.path != name {
		// A link stands where the folder was; what is behind it is not ours.
		unix.Close(r.fd)
		return nil, unix.ELOOP
	}
	b.roots = append(b.roots, r)
	return r, nil
}
