package processes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// store keeps one file per session with the session's table. A store without a folder is empty.
type store struct {
	dir string
	log *slog.Logger
}

// file is the content of a session's file.
type file struct {
	Session   string     `json:"session"`
	Processes []*Process `json:"processes"`
}

// path returns the path of a session's file. The name is a hash: an id may contain any characters.
func (s store) path(session string) string {
	sum := sha256.Sum256([]byte(session))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

// load returns a session's processes. An unreadable file counts as empty: its processes are invisible, but still end
// with their session.
func (s store) load(session string) []*Process {
	if s.dir == "" {
		return nil
	}
	data, err := os.ReadFile(s.path(session))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f file
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err == nil && f.Session != session {
		err = fmt.Errorf("it belongs to the session %q", f.Session)
	}
	if err != nil {
		s.log.Error("a table of background processes cannot be read", "session", session, "error", err)
		return nil
	}
	kept := f.Processes[:0]
	for _, p := range f.Processes {
		if p != nil {
			p.Session = session
			kept = append(kept, p)
		}
	}
	return kept
}

// pending returns the sessions with a running process, or with a process with an unreported end.
func (s store) pending() (sessions []string) {
	if s.dir == "" {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return nil // the pattern is a constant
	}
	for _, name := range names {
		var f file
		if data, err := os.ReadFile(name); err != nil || json.Unmarshal(data, &f) != nil {
			continue // load reports the error
		}
		if f.Processes = slices.DeleteFunc(f.Processes, func(p *Process) bool { return p == nil }); hasNews(f.Processes) {
			sessions = append(sessions, f.Session)
		}
	}
	return sessions
}

// save replaces a session's file.
func (s store) save(session string, processes []*Process) {
	if s.dir == "" {
		return
	}
	if err := s.write(session, processes); err != nil {
		s.log.Error(
			"a table of background processes cannot be kept; a restart will not know them",
			"session",
			session,
			"error",
			err,
		)
	}
}

func (s store) write(session string, processes []*Process) error {
	data, err := json.Marshal(file{session, processes})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), s.path(session))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// sweep removes files that are unchanged for the duration age, and partly written files of a killed kaged process.
func (s store) sweep(age time.Duration) {
	if s.dir == "" {
		return
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Error("the tables of background processes cannot be listed", "error", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		old := time.Since(info.ModTime())
		if old > age || strings.HasPrefix(e.Name(), "new-") && old > time.Hour {
			_ = os.Remove(filepath.Join(s.dir, e.Name())) // a file that remains is tried again at the next start
		}
	}
}
