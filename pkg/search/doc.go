// Package search finds the lines of files that match a regular expression.
//
// A line is what stands between two \n, or before the first and after the last if that is not empty. A line matches if the
// expression matches anywhere in it, or in it without a \r at its end; it never matches across lines. Expressions are RE2,
// and searching takes time linear in the text whatever the expression.
//
// Most expressions need some literal text to match. Where that is so, [Pattern] looks for the literals first, with a [finder]
// that compares 32 places at a time, and asks about the lines that hold one; where an expression is nothing but literals that
// is all. Everything else an [automaton] decides. docs/reference/search.md has what this brings beside ripgrep.
package search
