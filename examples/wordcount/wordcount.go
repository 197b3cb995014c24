// Package wordcount counts the words of a text.
package wordcount

import (
	"sort"
	"strings"
)

// Count is a word and how often it occurs.
type Count struct {
	Word  string
	Times int
}

// Top returns the n most frequent words of text, most frequent first and equal ones in alphabetical order. Case
// does not matter, and punctuation around a word does not belong to it.
func Top(text string, n int) []Count {
	times := map[string]int{}
	for _, field := range strings.Fields(text) {
		times[normalize(field)]++
	}
	counts := make([]Count, 0, len(times))
	for word, t := range times {
		counts = append(counts, Count{word, t})
	}
	sort.Slice(counts, func(i, j int) bool {
		if counts[i].Times != counts[j].Times {
			return counts[i].Times > counts[j].Times
		}
		return counts[i].Word < counts[j].Word
	})
	return counts[:min(n, len(counts))]
}

func normalize(field string) string {
	return strings.ToLower(strings.Trim(field, ".,"))
}
