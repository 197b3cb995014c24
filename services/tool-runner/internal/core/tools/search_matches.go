package tools

import (
	"container/heap"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/workspace/text"
)

// fileMatches are the matches in one file, in the form of entries of a search's answer.
type fileMatches[T any] struct {
	file    string
	entries []T
	sizes   []int // the size of each entry as JSON
	bytes   int
	count   int  // the number of all matches, kept or not
	cut     bool // some matches have no entry
}

// add adds an entry with the given size in the answer.
func (f *fileMatches[T]) add(m T, size int) {
	f.entries, f.sizes, f.bytes = append(f.entries, m), append(f.sizes, size), f.bytes+size
}

// size returns the number of bytes of an entry in the answer with its comma.
func (m *grepMatch) size() int {
	n := len(`{"file":},`) + quoted(m.File)
	if m.Line > 0 {
		n += len(`,"line":`) + digits(m.Line)
	}
	if m.Content != nil {
		n += len(`,"content":`) + quoted(*m.Content)
	}
	if m.Count > 0 {
		n += len(`,"count":`) + digits(m.Count)
	}
	if m.OutsideCage {
		n += len(`,"outside_cage":true`)
	}
	return n
}

func digits(n int) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

// quoted returns the number of bytes of a text as JSON, or slightly more.
func quoted(s string) int {
	const escaped = len(`\u0000`)
	if !utf8.ValidString(s) {
		return 2 + escaped*len(s)
	}
	n := 2 + len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\':
			n++
		case c < ' ', c == 0xE2: // a control character, or possibly U+2028
			n += escaped - 1
		}
	}
	return n
}

// matches collects the results of a parallel search. It keeps only those that can still be part of the answer: of the
// files in the order of their paths, as many as fit. So its memory is limited, and the answer does not depend on the
// order of the search.
type matches[T any] struct {
	limit, head int // the maximum number of bytes and entries of the answer; 0 entries means unlimited

	mu      sync.Mutex // guards the fields below
	files   byPath[T]
	bytes   int
	entries int
	total   int
	dropped bool
}

// overhead is the size of an answer besides its entries, in bytes.
const overhead = 64

func newMatches[T any](limit, head int) *matches[T] {
	return &matches[T]{limit: limit - overhead, head: head}
}

// wants reports whether the matches of a file may still be part of the answer. Other matches are only counted, which
// saves most of the work of a search with far too many matches.
func (m *matches[T]) wants(file string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.dropped || len(m.files) > 0 && file < m.files[0].file
}

// add adds the matches of one file.
func (m *matches[T]) add(f fileMatches[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total += f.count
	if len(f.entries) == 0 {
		m.dropped = true
		return
	}
	heap.Push(&m.files, f)
	m.bytes += f.bytes
	m.entries += len(f.entries)
	// The last file is dropped if the files before it fill the answer.
	for {
		last := m.files[0]
		if m.bytes-last.bytes < m.limit && (m.head == 0 || m.entries-len(last.entries) < m.head) {
			return
		}
		heap.Pop(&m.files)
		m.bytes -= last.bytes
		m.entries -= len(last.entries)
		m.dropped = true
	}
}

// result returns the entries of the answer, and whether some are missing. late is true if the search did not finish.
func (m *matches[T]) result(late bool) (list []T, truncated bool) {
	slices.SortFunc(m.files, func(a, b fileMatches[T]) int { return strings.Compare(a.file, b.file) })
	list = []T{}
	bytes := 0
	for _, f := range m.files {
		for i, e := range f.entries {
			if bytes += f.sizes[i]; bytes > m.limit || m.head > 0 && len(list) == m.head {
				return list, true
			}
			list = append(list, e)
		}
		if f.cut {
			return list, true
		}
	}
	return list, late || m.dropped
}

// byPath is a heap with the last path on top.
type byPath[T any] []fileMatches[T]

func (h byPath[T]) Len() int           { return len(h) }
func (h byPath[T]) Less(i, j int) bool { return h[i].file > h[j].file }
func (h byPath[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byPath[T]) Push(x any)        { *h = append(*h, x.(fileMatches[T])) }
func (h *byPath[T]) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// lead is the number of bytes of a long line that are shown before its match.
const lead = 200

// excerpt returns a matching line in the form for the answer: complete, or the part around the match if the line is
// long.
func (g *grep) excerpt(line []byte, at int) string {
	limit := g.limits.LineRunes
	// The scan reuses the line's memory, so kept text is copied.
	if len(line) <= limit {
		return strings.ToValidUTF8(string(line), "\uFFFD")
	}
	from := 0
	if at > limit {
		from = max(0, at-lead)
		for from < len(line) && !utf8.RuneStart(line[from]) {
			from++
		}
	}
	to := min(len(line), from+limit*utf8.UTFMax)
	shown, cut := clip.Runes(strings.ToValidUTF8(string(line[from:to]), "\uFFFD"), limit)
	if from > 0 {
		shown = text.Cut + shown
	}
	if cut || to < len(line) {
		shown += text.Cut
	}
	return shown
}
