package main

import (
	_ "embed"
	"strings"
)

//go:embed patterns.txt
var patternList string

// pattern is a search pattern.
type pattern struct{ text string }

// listed returns the patterns of the list for a language. In the list, ## and a language's name start its patterns,
// which are separated by empty lines.
func listed(lang string) []pattern {
	_, rest, ok := strings.Cut("\n"+patternList, "\n## "+lang+"\n")
	if !ok {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var list []pattern
	for text := range strings.SplitSeq(strings.TrimSpace(rest), "\n\n") {
		list = append(list, pattern{text})
	}
	return list
}
