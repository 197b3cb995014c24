package change

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/ident"
)

// Journal is the place where a process notes the files it is about to change, so that [Recover]
// finds its unfinished changes after its death. Each process has its own file in a shared folder,
// and holds a lock on it as long as it lives; each line is a state of a set of changes. It is
// written with one call per line and never forced to the disk: it covers the death of processes,
// not power failures. A nil Journal is never written. It is safe for concurrent use.
type Journal struct {
	dir string

	mu   sync.Mutex // guards the fields below
	file *os.File   // nil until the first change
	size int64
	open int // sets that are not at their end
}

const (
	journalSuffix = ".journal"
	// journalSize is the size in bytes at which the file is emptied if no set is under way.
	journalSize = 256 << 10
)

// NewJournal returns a journal in a folder, which is made when it is needed.
func NewJournal(dir string) *Journal { return &Journal{dir: dir} }

// Close removes the journal's file; no change is under way any more.
func (j *Journal) Close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		os.Remove(j.file.Name())
		j.file.Close()
		j.file = nil
	}
}

// The states of a set of changes.
const (
	// begun: temporary files and folders of these names may be there.
	stateBegun = "begun"
	// staged: the temporary files are written, any number of steps may be done.
	stateStaged = "staged"
	// done: all steps are done and hold.
	stateDone = "done"
	// undone: all steps are taken back; the line names those whose temporary files may still exist.
	stateUndone = "undone"
	// ended: the set is complete.
	stateEnded = "ended"
)

// line is the state of a set of changes at one moment. Paths are bytes, because names need not be
// UTF-8.
type line struct {
	Set   string       `json:"set"`
	State string       `json:"state"`
	Steps []stepLine   `json:"steps,omitzero"` // nil for those of the line before
	Dirs  []folderLine `json:"dirs,omitempty"`
	Begun *begunLine   `json:"begun,omitempty"`
}

// begunLine says when the writing over of a file began, in nanoseconds since the Unix epoch.
type begunLine struct {
	Step int
	At   int64
}

type folderLine struct {
	Root, Rel []byte
}

type stepLine struct {
	Kind      kind
	Folder    folderLine
	Name      []byte
	Temp      string
	To        *folderLine `json:",omitempty"`
	ToName    []byte      `json:",omitempty"`
	Was, Made Version

	begun int64 // by the following lines, zero if no line has it
}

func lineOf(key folderKey) folderLine { return folderLine{[]byte(key.root.Path()), []byte(key.rel)} }

func (b *batch) line(state string) line {
	l := line{Set: b.id, State: state, Steps: []stepLine{}}
	for _, s := range b.steps {
		sl := stepLine{
			Kind:   s.kind,
			Folder: lineOf(s.folder.key),
			Name:   []byte(s.name),
			Temp:   s.temp,
			Was:    s.was,
			Made:   s.made,
		}
		if s.toFolder != nil {
			to := lineOf(s.toFolder.key)
			sl.To, sl.ToName = &to, []byte(s.toName)
		}
		l.Steps = append(l.Steps, sl)
	}
	for _, key := range b.missing {
		l.Dirs = append(l.Dirs, lineOf(key))
	}
	return l
}

func (j *Journal) begin(b *batch) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		if err := j.create(); err != nil {
			return err
		}
	}
	if err := j.write(b.line(stateBegun)); err != nil {
		return err
	}
	j.open++
	return nil
}

func (j *Journal) staged(b *batch) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(b.line(stateStaged)); err != nil {
		return b.steps[0].path.Failure("changed", err)
	}
	return nil
}

// overwriting notes that the file of a step is written over from now on.
func (j *Journal) overwriting(set string, step int, now int64) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.write(line{Set: set, State: stateStaged, Begun: &begunLine{step, now}})
}

// undone notes that a set was taken back. That it may not be noted costs a later Recover the folders that were made for
// it.
func (j *Journal) undone(b *batch) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.write(b.line(stateUndone))
}

func (j *Journal) done(set string) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.write(line{Set: set, State: stateDone})
}

// end notes the end of a set. A lost note costs a later Recover a look.
func (j *Journal) end(set string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open--
	_ = j.write(line{Set: set, State: stateEnded})
	if j.open == 0 && j.size > journalSize && j.file.Truncate(0) == nil {
		j.size = 0
	}
}

func (j *Journal) write(l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	n, err := j.file.Write(append(data, '\n'))
	if err != nil && n > 0 {
		// Half a line would spoil the next one.
		err = errors.Join(err, j.file.Truncate(j.size))
		n = 0
	}
	j.size += int64(n)
	return err
}

// create makes the process's file and locks it. A Recover may take a file away before it is locked; then another is
// made.
func (j *Journal) create() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	for range 3 {
		f, err := os.OpenFile(
			filepath.Join(j.dir, ident.New()+journalSuffix),
			os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND,
			0o600,
		)
		if err != nil {
			return err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			if _, err := os.Stat(f.Name()); err == nil {
				j.file, j.size = f, 0
				return nil
			}
		}
		f.Close()
	}
	return unix.EBUSY
}
