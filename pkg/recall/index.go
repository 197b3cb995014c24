package recall

import (
	"slices"
	"strings"
)

// MaxVocabulary is the maximum number of different words of an index; further words are not found.
const MaxVocabulary = 400_000

// Index holds the passages of notes. The zero value is empty and ready. It is not safe for concurrent use.
type Index struct {
	ids      map[string]int32 // ids by word
	words    []word
	grams    map[gram][]int32 // words by trigram
	passages []indexed
	dead     int // number of passages of removed notes
	notes    map[*Note]place
	length   float64 // sum of the lengths of all passages
}

type word struct {
	text     string
	grams    int // number of its trigrams, 0 for a word that is only compared as a whole
	postings []posting
}

// posting is the weight of a word in a passage.
type posting struct {
	passage int32
	weight  float32
}

// indexed is a passage of a note; note is nil after the note's removal.
type indexed struct {
	note   *Note
	number int
	length float32
}

// place is the position of a note's passages in an index.
type place struct{ first, count int }

// Add adds a note.
func (x *Index) Add(n *Note) {
	if x.ids == nil {
		x.ids, x.grams, x.notes = map[string]int32{}, map[gram][]int32{}, map[*Note]place{}
	}
	x.notes[n] = place{len(x.passages), len(n.passages)}
	for i := range n.passages {
		at := int32(len(x.passages))
		x.passages = append(x.passages, indexed{n, i, n.lengths[i]})
		x.length += float64(n.lengths[i])
		for text, weight := range n.counts[i] {
			if id, ok := x.id(text); ok {
				x.words[id].postings = append(x.words[id].postings, posting{at, weight})
			}
		}
	}
	n.counts = nil // the counts are now in the postings
}

// id returns the number of a word, and assigns one if there is room.
func (x *Index) id(text string) (int32, bool) {
	if id, ok := x.ids[text]; ok {
		return id, true
	}
	if len(x.words) >= MaxVocabulary {
		return 0, false
	}
	// a clone, because a substring would keep the whole note in memory
	id, text := int32(len(x.words)), strings.Clone(text)
	grams := gramsOf(text)
	for _, g := range grams {
		x.grams[g] = append(x.grams[g], id)
	}
	x.ids[text] = id
	x.words = append(x.words, word{text: text, grams: len(grams)})
	return id, true
}

// Remove removes a note. The memory of its words is freed once more passages are removed than left.
func (x *Index) Remove(n *Note) {
	at, ok := x.notes[n]
	if !ok {
		return
	}
	delete(x.notes, n)
	for i := range at.count {
		x.passages[at.first+i].note = nil
		x.length -= float64(x.passages[at.first+i].length)
	}
	x.dead += at.count
	if x.dead > len(x.passages)/2 {
		x.compact()
	}
}

// compact drops removed passages and words without a passage.
func (x *Index) compact() {
	old := *x
	*x = Index{ids: map[string]int32{}, grams: map[gram][]int32{}, notes: map[*Note]place{}, length: old.length}
	moved := make([]int32, len(old.passages))
	for i, p := range old.passages {
		if moved[i] = -1; p.note == nil {
			continue
		}
		moved[i] = int32(len(x.passages))
		if p.number == 0 {
			x.notes[p.note] = place{len(x.passages), len(p.note.passages)}
		}
		x.passages = append(x.passages, p)
	}
	for _, w := range old.words {
		w.postings = slices.DeleteFunc(w.postings, func(p posting) bool { return moved[p.passage] < 0 })
		if len(w.postings) == 0 {
			continue
		}
		for i := range w.postings {
			w.postings[i].passage = moved[w.postings[i].passage]
		}
		id, _ := x.id(w.text)
		x.words[id].postings = slices.Clip(w.postings)
	}
}

// Len returns the number of notes in the index.
func (x *Index) Len() int { return len(x.notes) }
