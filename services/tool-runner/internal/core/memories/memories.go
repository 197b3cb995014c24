// Package memories finds passages in the memory of projects: the file MEMORY.md and the files below memory/.
//
// A [Shelf] keeps an index for each project and view of it. Before each search it lists the files visible to the
// caller, and reads those that are new or changed by time and size; the index then holds exactly these files. An
// answer, its scores included, therefore does not depend on files that the caller's cage hides or the operator denies.
// Links, hidden files and binary files do not count as notes.
package memories

import (
	"container/list"
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/recall"
	"kaged.dev/pkg/workspace/cageview"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
)

// The paths of a project's notes, relative to its root.
const (
	File   = "MEMORY.md"
	Folder = "memory"
)

// Limits are the limits of notes; sizes are in bytes.
type Limits struct {
	// Files, FileBytes and TotalBytes limit the notes of a project: their number, the size of one, and their total size.
	Files                 int
	FileBytes, TotalBytes int64
	// KeptBytes limits the notes in all indexes together, without the index in use.
	KeptBytes int64
}

// Embedder converts texts to vectors whose cosine measures their similarity in meaning. kaged has no implementation;
// without one, words decide the rank.
type Embedder interface {
	// Embed returns a vector for each text, all with the same dimension.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Shelf keeps indexes of notes. It is safe for concurrent use.
type Shelf struct {
	limits Limits
	sniff  text.Sniffer
	embed  Embedder // nil ranks by words only
	now    func() time.Time

	mu    sync.Mutex // guards the fields below
	kept  map[string]*list.Element
	order *list.List // of *index, the last used first
	bytes int64
}

// NewShelf returns an empty shelf. sniff names the content type of a file by its first bytes; embed may be nil.
func NewShelf(limits Limits, sniff text.Sniffer, embed Embedder) *Shelf {
	return &Shelf{
		limits: limits, sniff: sniff, embed: embed, now: time.Now, kept: map[string]*list.Element{}, order: list.New(),
	}
}

// Caller is the searching agent: the visible part of the project, and View, a text that is equal for callers with the
// same cage.
type Caller struct {
	Space  *paths.Space
	Access cageview.Access
	View   string
}

// Question asks for at most Limit passages with a score of at least Score.
type Question struct {
	Text  string
	Limit int
	Score float64
}

// Answer is the passages found, the best first.
type Answer struct {
	Hits []recall.Hit
	// Total is the number of all such passages, Files the number of searched notes, Skipped the number of files left out:
	// binary ones, those beyond a limit, and unreadable ones.
	Total, Files, Skipped int
}

// Search answers a question from the present notes.
func (s *Shelf) Search(ctx context.Context, from Caller, q Question) (Answer, error) {
	files, skipped, err := s.list(ctx, from)
	if err != nil {
		return Answer{}, err
	}
	x := s.take(from.Space.Root() + "\x00" + from.View)
	select {
	case x.lock <- struct{}{}:
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	defer func() { <-x.lock }()
	unread, err := x.update(ctx, s, files)
	s.resize(x)
	if err != nil {
		return Answer{}, err
	}
	hits, total := x.passages.SearchNear(q.Text, s.vector(ctx, q.Text), q.Limit, q.Score)
	return Answer{Hits: hits, Total: total, Files: x.passages.Len(), Skipped: skipped + unread}, nil
}

// vector returns the vector of a question, nil on failure: then only words decide the rank.
func (s *Shelf) vector(ctx context.Context, question string) []float32 {
	if s.embed == nil {
		return nil
	}
	vectors, err := s.embed.Embed(ctx, []string{question})
	if err != nil || len(vectors) != 1 {
		return nil
	}
	return vectors[0]
}

// place sets the vectors of a note's passages. Without them only words decide the rank.
func (s *Shelf) place(ctx context.Context, n *recall.Note) {
	if s.embed == nil {
		return
	}
	if vectors, err := s.embed.Embed(ctx, n.Texts()); err == nil {
		n.Place(vectors)
	}
}

// Holds reports whether a path, resolved in space, is or could be a note.
func Holds(space *paths.Space, path paths.Path) bool {
	root := path.Root()
	if root.Path() != space.Root() {
		return false
	}
	return path.Rel == File || path.Rel != Folder && paths.Below(path.Abs(), root.At(Folder).Abs())
}

// take returns the index of a view, creating it if needed.
func (s *Shelf) take(key string) *index {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.kept[key]; ok {
		s.order.MoveToFront(e)
		return e.Value.(*index)
	}
	x := &index{key: key, lock: make(chan struct{}, 1), notes: map[string]entry{}}
	s.kept[key] = s.order.PushFront(x)
	s.drop(x)
	return x
}

// resize updates the size of an index, and drops other indexes until all fit.
func (s *Shelf) resize(x *index) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kept[x.key]; !ok || s.kept[x.key].Value != x {
		return // it was dropped while in use
	}
	s.bytes += x.bytes - x.counted
	x.counted = x.bytes
	s.drop(x)
}

// maxKept bounds the number of indexes.
const maxKept = 64

// drop drops indexes, the least recently used first, except x.
func (s *Shelf) drop(x *index) {
	for e := s.order.Back(); e != nil && (s.bytes > s.limits.KeptBytes || s.order.Len() > maxKept); {
		last := e.Value.(*index)
		e = e.Prev()
		if last != x {
			s.bytes -= last.counted
			s.order.Remove(s.kept[last.key])
			delete(s.kept, last.key)
		}
	}
}
