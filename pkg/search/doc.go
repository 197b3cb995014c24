// Package search finds the lines of files that match a regular expression.
//
// A line is the text between two \n, or before the first and after the last if that is not empty. A line matches if the
// expression matches anywhere in it, or in it without a \r at its end; it never matches across lines. Expressions are
// RE2, and searching takes time linear in the text for every expression.
//
// Most expressions need some literal text to match. For these [Pattern] looks for the literals first, with a [finder]
// that compares 32 places at a time, and tests only the lines that hold one; an expression made of literals alone needs
// no test. All other lines are tested by an [automaton]. docs/reference/search.md compares it with ripgrep.
package search
