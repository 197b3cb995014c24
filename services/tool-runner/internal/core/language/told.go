package language

import (
	"strconv"
	"sync"
)

// The bounds of memory: files of a session, and sessions. Beyond them an agent is told again.
const (
	toldFiles    = 4096
	toldSessions = 1024
)

// Told remembers which errors of which files an agent was told of, so that an edit answers with the new ones. It is
// safe for concurrent use, its zero value included.
type Told struct {
	mu       sync.Mutex // guards the map
	sessions map[string]map[toldOf]map[string]bool
}

type toldOf struct{ agent, path string }

// New returns those errors of files that an agent was not told of at its last edit of the file, and remembers all. An
// error is the same wherever it stands, so that edits above it do not make it new.
func (t *Told) New(session, agent string, files []string, found []Diagnostic) (list []Diagnostic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	told := t.sessions[session]
	if told == nil || len(told)+len(files) > toldFiles {
		if t.sessions == nil || len(t.sessions) >= toldSessions {
			t.sessions = map[string]map[toldOf]map[string]bool{}
		}
		told = map[toldOf]map[string]bool{}
		t.sessions[session] = told
	}
	now := map[string]map[string]bool{}
	for _, path := range files {
		now[path] = map[string]bool{}
	}
	for _, d := range found {
		errors := now[d.At.Path]
		if errors == nil {
			continue
		}
		key := d.Source + "\x00" + d.Code + "\x00" + d.Message
		for n := 1; errors[key]; n++ { // the same error at several places
			key = d.Source + "\x00" + d.Code + "\x00" + d.Message + "\x00" + strconv.Itoa(n)
		}
		errors[key] = true
		if !told[toldOf{agent, d.At.Path}][key] {
			list = append(list, d)
		}
	}
	for path, errors := range now {
		told[toldOf{agent, path}] = errors
	}
	return list
}

// EndSession forgets a session.
func (t *Told) EndSession(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sessions, session)
}
