// Package reads remembers the content of each file that an agent has read, so that an agent overwrites no file unread
// and no change of another writer is lost.
//
// A record is the hash of a file's bytes per session, agent and real path. Records are in memory, in limited number:
// after the loss of a record the agent has to read the file again.
package reads

import (
	"hash/maphash"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kaged.dev/pkg/fault"
)

// Hash identifies a file's content within this process. A secret of the process is its key, so that no program can make
// a file of different content with the same hash. It takes a tenth of the time of a SHA-256.
type Hash uint64

// seed is the secret; hashes of two processes are not comparable.
var seed = maphash.MakeSeed()

// Sum returns the hash of a whole content.
func Sum(content []byte) Hash { return Hash(maphash.Bytes(seed, content)) }

// Summing hashes the content written to it.
type Summing struct{ hash maphash.Hash }

// NewSumming returns the hash of an empty content.
func NewSumming() *Summing {
	s := &Summing{}
	s.hash.SetSeed(seed)
	return s
}

// Write adds to the content. It does not fail.
func (s *Summing) Write(p []byte) (int, error) { return s.hash.Write(p) }

// Sum returns the hash of the content so far.
func (s *Summing) Sum() Hash { return Hash(s.hash.Sum64()) }

// Records holds the read records of all sessions. It is safe for concurrent use.
type Records struct {
	mu       sync.Mutex // guards the fields below
	sessions *simplelru.LRU[string, *simplelru.LRU[key, Hash]]
	files    int
}

type key struct{ agent, path string }

// New returns records for at most the given number of sessions, with the given number of files each. The least recently
// used records are dropped first.
func New(sessions, files int) *Records {
	lru, err := simplelru.NewLRU[string, *simplelru.LRU[key, Hash]](max(sessions, 1), nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &Records{sessions: lru, files: max(files, 1)}
}

// Saw records that an agent has read a file with this content.
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

// Check fails with file_not_read if the agent has not read the file and with file_changed_since_read if it has read
// other content. show is the file's name in the message.
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
		return fault.New(fault.FileChangedSinceRead, "%s has changed since it was read; read it again.", show).
			With("path", show)
	}
	return nil
}

// EndSession removes the records of a session.
func (r *Records) EndSession(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions.Remove(session)
}
