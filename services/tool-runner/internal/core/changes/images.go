// Package changes finds the changes of a session in its project.
//
// [Images] keeps, per session, the content that each file had before the session's first change of it by a file tool.
// The image is stored before the change, so that it survives a kill -9 between the two. [Images.List] compares images
// with the present files. It compares other files that changed since the session began with HEAD of the project's
// repository, which it reads within bounds, without running git.
//
// A session's folder holds images by their SHA-256 and index.jsonl, to which a line is appended for each file and
// agent.
package changes

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/workspace/paths"
)

// Limits are the limits of the images.
type Limits struct {
	// FileBytes is the maximum size of a kept file, SessionBytes that of a session's images together.
	FileBytes, SessionBytes int64
	// KeptFor is the time for which a session's images are kept after its last new one.
	KeptFor time.Duration
}

// Images keeps images of files. It is safe for concurrent use.
type Images struct {
	dir    string // "" disables images
	limits Limits
	log    *slog.Logger
	// readers has a value for each search that reads a repository.
	readers chan struct{}

	mu       sync.Mutex // guards the fields below, and the files of the sessions
	sessions map[string]*kept
	swept    time.Time
}

// kept are the known images of a session.
type kept struct {
	agents map[string]map[string]bool // by path
	bytes  int64
	used   time.Time
}

// record is a line of an index. A later line for the same path only adds an agent.
type record struct {
	Path  string `json:"path"`
	Agent string `json:"agent"`
	At    int64  `json:"at"`
	// SHA256 is the hash of the content, "" for a file that was missing or could not be read.
	SHA256 string `json:"sha256,omitempty"`
	// Missing means that the file did not exist, Unkept that its content is not kept.
	Missing bool `json:"missing,omitempty"`
	Unkept  bool `json:"unkept,omitempty"`
}

// NewImages returns images below a folder; "" disables images.
func NewImages(dir string, limits Limits, log *slog.Logger) *Images {
	return &Images{
		dir: dir, limits: limits, log: log, sessions: map[string]*kept{}, readers: make(chan struct{}, maxReaders),
	}
}

// maxReaders is the number of repositories that are read at the same time, because each may take some memory.
const maxReaders = 4

const indexName = "index.jsonl"

// Keep stores the content of files before a caller's change of them, for files that the session has not changed before.
// A failure is logged and does not prevent the change: the file then has no image.
func (i *Images) Keep(from contract.Caller, files ...paths.Path) {
	if i == nil || i.dir == "" || !ident.Valid(from.SessionID) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweep()
	s, err := i.session(from.SessionID)
	for _, p := range files {
		if err != nil {
			break
		}
		agents := s.agents[p.Abs()]
		if agents[from.Agent] {
			continue
		}
		r := record{Path: p.Abs(), Agent: from.Agent, At: time.Now().UnixMilli()}
		if agents == nil {
			i.keep(from.SessionID, s, p, &r)
		}
		if err = i.note(from.SessionID, r); err == nil {
			s.add(r)
		}
	}
	if err != nil {
		i.log.Warn("the earlier content of changed files was not kept", "session_id", from.SessionID, "error", err)
	}
}

func (s *kept) add(r record) {
	if s.agents[r.Path] == nil {
		s.agents[r.Path] = map[string]bool{}
	}
	s.agents[r.Path][r.Agent] = true
}

// session returns the known images of a session, read from its index on first use.
func (i *Images) session(id string) (*kept, error) {
	s := i.sessions[id]
	if s == nil {
		s = &kept{agents: map[string]map[string]bool{}}
		if err := os.MkdirAll(i.folder(id), 0o700); err != nil {
			return nil, err
		}
		list, err := i.read(id)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			s.add(r)
		}
		images, err := os.ReadDir(i.folder(id))
		if err != nil {
			return nil, err
		}
		for _, e := range images {
			if info, err := e.Info(); err == nil && e.Name() != indexName {
				s.bytes += info.Size()
			}
		}
		i.sessions[id] = s
	}
	s.used = time.Now()
	return s, nil
}

func (i *Images) folder(id string) string { return filepath.Join(i.dir, id) }

// keep stores the content of a file and fills in its record.
func (i *Images) keep(id string, s *kept, p paths.Path, r *record) {
	f, info, err := p.OpenFile()
	if errors.Is(err, fault.FileNotFound) {
		r.Missing = true
		return
	}
	if err != nil {
		r.Unkept = true
		return
	}
	defer f.Close()
	if info.Size() > i.limits.FileBytes || s.bytes+info.Size() > i.limits.SessionBytes {
		r.Unkept = true
		return
	}
	data, err := io.ReadAll(io.LimitReader(f, i.limits.FileBytes+1))
	if err != nil || int64(len(data)) > i.limits.FileBytes {
		r.Unkept = true
		return
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	if err := i.store(id, name, data); err != nil {
		i.log.Warn("the earlier content of a changed file was not kept", "path", p.Abs(), "error", err)
		r.Unkept = true
		return
	}
	r.SHA256 = name
	s.bytes += int64(len(data))
}

// store writes an image under its name atomically.
func (i *Images) store(id, name string, data []byte) error {
	at := filepath.Join(i.folder(id), name)
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	if err := os.WriteFile(at+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(at+".tmp", at)
}

func (i *Images) note(id string, r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(i.folder(id), indexName), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	// On a new line, because the preceding one may have been cut off by a kill.
	_, err = f.Write(append([]byte{'\n'}, line...))
	return errors.Join(err, f.Close())
}

// read returns the lines of a session's index, without lines that were cut off.
func (i *Images) read(id string) ([]record, error) {
	f, err := os.Open(filepath.Join(i.folder(id), indexName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Path != "" {
			list = append(list, r)
		}
	}
	return list, lines.Err()
}

// sweepEvery is the interval of searches for expired images.
const sweepEvery = time.Hour

// sweep removes the images of sessions without a recent change.
func (i *Images) sweep() {
	if time.Since(i.swept) < sweepEvery {
		return
	}
	i.swept = time.Now()
	entries, _ := os.ReadDir(i.dir) // the folder is created with the first image
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(i.dir, e.Name(), indexName))
		if err == nil && time.Since(info.ModTime()) > i.limits.KeptFor {
			delete(i.sessions, e.Name())
			_ = os.RemoveAll(filepath.Join(i.dir, e.Name())) // retried in an hour
		}
	}
	for id, s := range i.sessions {
		if time.Since(s.used) > sweepEvery {
			delete(i.sessions, id) // its index has the same content
		}
	}
}
