package recall

import (
	"path"
	"strings"
)

// Note is a text prepared for an [Index]. It is immutable and in at most one index.
type Note struct {
	name     string
	passages []passage
	counts   []map[string]float32 // weights of each passage's words
	lengths  []float32            // sum of the weights of each passage
	vectors  [][]float32          // vectors of the passages, of length 1; nil if unset
	bytes    int
}

// Read makes a note from a text; name is its path. The words of the name, without its extension, and of the headings
// above a passage count as the passage's words.
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
