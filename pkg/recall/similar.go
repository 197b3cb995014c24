package recall

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// gram is three characters in a row, each of 21 bits. A word counts as if two spaces stood before it and one after it.
type gram uint64

// Words of this many characters are compared by trigrams; shorter ones have too few.
const (
	minGrams = 4
	maxGrams = 32
)

// gramsOf returns the different trigrams of a word; no trigrams for a word that is compared as a whole only: a short
// or a long one, or one with a digit in it, because 8080 does not mean 8081.
func gramsOf(text string) []gram {
	runes := []rune(text)
	if len(runes) < minGrams || len(runes) > maxGrams || slices.ContainsFunc(runes, unicode.IsNumber) {
		return nil
	}
	grams := make([]gram, 0, len(runes)+1)
	var g gram = ' '<<21 | ' '
	for _, r := range append(runes, ' ') {
		g = (g<<21 | gram(r)) & (1<<63 - 1)
		grams = append(grams, g)
	}
	slices.Sort(grams)
	return slices.Compact(grams)
}

// Bounds of resemblance, the share of trigrams that two words have in common: from which one counts, from which one
// counts though the words begin with different letters, and the one of a word that another begins with at least.
const (
	minResemblance   = 0.5
	otherResemblance = 0.65
	beginResemblance = 0.55
)

// maxSimilar bounds the words that stand in for one of a question.
const maxSimilar = 8

// similar is a word of the index that resembles one of the question.
type similar struct {
	id         int32
	resembling float64
}

// similarTo returns the words in use that resemble a word, the most resembling first. counts has a zero for each word
// of the index.
func (x *Index) similarTo(text string, counts []uint8) []similar {
	grams := gramsOf(text)
	var touched []int32
	for _, g := range grams {
		for _, id := range x.grams[g] {
			if counts[id] == 0 {
				touched = append(touched, id)
			}
			counts[id]++
		}
	}
	var list []similar
	for _, id := range touched {
		common := counts[id]
		counts[id] = 0
		other := &x.words[id]
		r := 2 * float64(common) / float64(len(grams)+other.grams)
		if strings.HasPrefix(other.text, text) || strings.HasPrefix(text, other.text) {
			r = max(r, beginResemblance)
		}
		if other.text == text || r < minResemblance || r < otherResemblance && other.text[0] != text[0] || !x.inUse(other) {
			continue
		}
		list = append(list, similar{id, r})
	}
	slices.SortFunc(list, func(a, b similar) int {
		return cmp.Or(cmp.Compare(b.resembling, a.resembling), strings.Compare(x.words[a.id].text, x.words[b.id].text))
	})
	return list[:min(len(list), maxSimilar)]
}

// inUse reports whether a passage of a note that is there holds the word.
func (x *Index) inUse(w *word) bool {
	return slices.ContainsFunc(w.postings, func(p posting) bool { return x.passages[p.passage].note != nil })
}
