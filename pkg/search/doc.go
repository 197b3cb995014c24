// Package search finds the lines of files that match a regular expression.
//
// A line is the text between two \n, or before the first and after the last if that is not empty. A line matches if the
// expression matches anywhere in it, with or without a \r at its end; a match never spans lines. Expressions are RE2,
// and searching takes time linear in the text for every expression.
//
// Most expressions require some literal text. For these [Pattern] finds the literals first, with a [finder] that
// compares 32 positions at a time, and tests only the lines with one; an expression of literals only needs no test. All
// other lines are tested by an [automaton]. docs/reference/search.md compares it with ripgrep.
package search
