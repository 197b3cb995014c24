// Package astgrep finds and rewrites code by patterns that are code.
//
// A pattern such as console.log($MSG) is parsed as a file of its language would be, and matches every node of a source
// that has the same shape. $NAME stands for one named node, $$NAME for one node of any kind, $_ and $_NAME for one node
// that is not captured, $$$ and $$$NAME for any number of neighbours. The same $NAME twice must stand for the same
// code. Comments and punctuation of the source that the pattern lacks are skipped.
//
// These are the semantics of ast-grep's "smart" strictness, including its misses: $$$ takes the fewest nodes and never
// backtracks for more. docs/reference/ast-grep.md compares the two.
package astgrep
