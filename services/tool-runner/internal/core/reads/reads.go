// Package reads remembers which content of which file an agent has seen, so that no file is overwritten blindly and no
// change made by somebody else is lost.
//
// A record is the SHA-256 of a file's bytes per session, agent and real path. Records live in memory and are bounded: one
// that was forgotten costs the agent another read, never a file.
package reads

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kaged.dev/pkg/fault"
)

// Hash is the SHA-256 of a file's content.
type Hash = [sha256.Size]byte

// Records holds the read records of all sessions. It is safe for concurrent use.
type Records struct {
	mu       sync.Mutex // guards what is below
	sessions *simplelru.LRU[string, *simplelru.LRU[key, Hash]]
	files    int
}

type key struct{ agent, path string }

// New returns records for at most so many sessions with so many files each, the least recently used forgotten first.
func New(sessions, files int) *Records {
	lru, err := simplelru.NewLRU[string, *simplelru.LRU[key, Hash]](max(sessions, 1), nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &Records{sessions: lru, files: max(files, 1)}
}

// Saw records that an agent has seen a file with this content.
func (r *Records) Saw(session, agent, path string, content Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	files, ok := r.sessions.Get(session)
	if !ok {
		var err error
		if files, err = simplelru.NewLRU[key, Hash](r.files, nil); err != nil {
			panic(err) // the size is positive
		}
		r.sessions.Add(session, files)
	}
	files.Add(key{agent, path}, content)
}

// Check fails with file_not_read if the agent has not seen the file and with file_changed_since_read if it has seen other
// content. show names the file in the message.
func (r *Records) Check(session, agent, path, show string, content Hash) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var seen Hash
	files, ok := r.sessions.Get(session)
	if ok {
		seen, ok = files.Get(key{agent, path})
	}
	switch {
	case !ok:
		return fault.New(fault.FileNotRead, "Read the file before overwriting it.").With("path", show)
	case seen != content:
		return fault.New(fault.FileChangedSinceRead, "%s has changed since it was read; read it again.", show).With("path", show)
	}
	return nil
}

// EndSession forgets a session.
func (r *Records) EndSession(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions.Remove(session)
}
