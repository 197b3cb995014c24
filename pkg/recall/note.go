package recall

import (
	"path"
	"strings"
)

// Note is a text made ready for an [Index]. It is immutable and in at most one index.
type Note struct {
	name     string
	passages []passage
	counts   []map[string]float32 // the words of each passage and their weights
	lengths  []float32            // the weights of each passage together
	vectors  [][]float32          // of the passages, of length 1; nil without
	bytes    int
}

// Read makes a note of a text; name is its path. Words of the name, without its extension, and of the headings above a
// passage count as the passage's own.
func Read(name, text string) *Note {
	n := &Note{name: name, passages: cut(text), bytes: len(text)}
	if len(n.passages) == 0 {
		n.passages = []passage{{from: 1, to: 1}}
	}
	for _, p := range n.passages {
		counts, length := map[string]float32{}, float32(0)
		count := func(word string) {
			counts[word]++
			length++
		}
		Words(strings.TrimSuffix(name, path.Ext(name)), count)
		for _, heading := range p.trail {
			Words(heading, count)
		}
		Words(p.text, count)
		n.counts, n.lengths = append(n.counts, counts), append(n.lengths, length)
	}
	return n
}

// Bytes returns the size of the note's text and vectors.
func (n *Note) Bytes() int { return n.bytes }
