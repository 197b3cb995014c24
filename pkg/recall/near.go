package recall

import (
	"math"
	"strings"
)

// Texts returns the passages with their headings, in order, for computing vectors of their meaning.
func (n *Note) Texts() []string {
	texts := make([]string, len(n.passages))
	for i, p := range n.passages {
		texts[i] = strings.Join(append(p.trail[:len(p.trail):len(p.trail)], p.text), "\n")
	}
	return texts
}

// Place sets the vectors of the passages' meaning, for [Index.SearchNear]. Call it before the note is added. If the
// numbers of vectors and passages differ, the note gets no vectors.
func (n *Note) Place(vectors [][]float32) {
	if len(vectors) != len(n.passages) {
		return
	}
	n.vectors = make([][]float32, len(vectors))
	for i, v := range vectors {
		n.vectors[i] = unit(v)
		n.bytes += 4 * len(v)
	}
}

// unit returns v scaled to length 1, nil for a vector without a direction.
func unit(v []float32) []float32 {
	sum := 0.0
	for _, a := range v {
		sum += float64(a) * float64(a)
	}
	if sum == 0 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return nil
	}
	out := make([]float32, len(v))
	for i, a := range v {
		out[i] = float32(float64(a) / math.Sqrt(sum))
	}
	return out
}

// closeness returns the cosine of two vectors of length 1, 0 for an obtuse angle and for vectors of different lengths.
func closeness(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return min(max(sum, 0), 1)
}
