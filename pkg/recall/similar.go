package recall

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// gram is three consecutive characters, each of 21 bits. A word counts as if two spaces preceded it and one followed
// it.
type gram uint64

// Words with these numbers of characters are compared by trigrams; shorter ones have too few.
const (
	minGrams = 4
	maxGrams = 32
)

// gramsOf returns the distinct trigrams of a word, and none for a word that is only compared as a whole: a short or a
// long one, or one with a digit, because 8080 does not mean 8081.
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

// Limits of similarity, which is the share of common trigrams of two words: the minimum, the minimum for words with
// different first letters, and the value for a word that begins with the other.
const (
	minResemblance   = 0.5
	otherResemblance = 0.65
	beginResemblance = 0.55
)

// maxSimilar is the maximum number of words that replace one word of a question.
const maxSimilar = 8

// similar is a word of the index that is similar to a word of the question.
type similar struct {
	id         int32
	resembling float64
}

// similarTo returns the used words that are similar to a word, the most similar first. counts has a zero for each word
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

// inUse reports whether a passage of a present note holds the word.
func (x *Index) inUse(w *word) bool {
	return slices.ContainsFunc(w.postings, func(p posting) bool { return x.passages[p.passage].note != nil })
}
