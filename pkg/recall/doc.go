// Package recall ranks passages of notes by the words of a question.
//
// [Read] cuts a note into passages at headings, blank lines and sizes, and counts their words ([Words]). An [Index]
// holds the passages of many notes; [Index.Search] ranks those of the notes that its caller may see by BM25. A word of
// the question also finds the words that resemble it, told by their trigrams: other forms of it, misspelt ones, parts
// of compounds.
//
// Scores are absolute, from 0 to 1, and never depend on the other hits: 1 - exp(-share), where the share is the part
// of the question that a passage answers, each word weighted by how rare it is. The share is 1 for a passage of
// average length that holds each word once, which gives 0.63; half of that gives 0.39; a share is never above 2.2,
// which gives 0.89.
package recall
