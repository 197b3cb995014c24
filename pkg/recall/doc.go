// Package recall ranks passages of notes by the words of a question.
//
// [Read] splits a note into passages at headings, blank lines and size limits, and counts their words ([Words]). An
// [Index] holds the passages of many notes; [Index.Search] ranks them by BM25. A word of the question also finds
// similar words, compared by trigrams: other forms, misspellings, parts of compounds.
//
// Scores are absolute, from 0 to 1, and do not depend on the other hits: 1 - exp(-share). The share is the part of the
// question that a passage answers, with each word weighted by its rarity. The share is 1 for a passage of average
// length that holds each word once, which gives 0.63; half of that gives 0.39; a share is never above 2.2, which gives
// 0.89.
package recall
