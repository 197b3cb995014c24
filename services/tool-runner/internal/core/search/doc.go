// Package search finds the lines of files that match a regular expression.
//
// A line is what stands between two \n, or before the first and after the last if that is not empty. A line matches if the
// expression matches anywhere in it, or in it without a \r at its end; it never matches across lines. Expressions are RE2,
// so matching takes time linear in the text whatever the expression.
//
// Most expressions need some literal text to match. Where that is so, [Pattern] looks for the literals first, which is far
// faster, and asks the expression about the lines that hold one.
package search
