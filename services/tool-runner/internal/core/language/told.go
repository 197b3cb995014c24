package language

import (
	"strconv"
	"sync"
)

// The limits of memory: files of a session, and sessions. Beyond them errors are reported again.
const (
	toldFiles    = 4096
	toldSessions = 1024
)

// Told remembers which errors were reported to an agent, so that an edit reports only new ones. It is safe for
// concurrent use; its zero value is ready.
type Told struct {
	mu       sync.Mutex // guards the map
	sessions map[string]map[toldOf]map[string]bool
}

type toldOf struct{ agent, path string }

// New returns the errors of files that were not reported to an agent at its last edit of the file, and remembers all.
// Errors are compared without their positions, so that edits above an error do not make it new.
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
		for n := 1; errors[key]; n++ { // the same error at several positions
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
