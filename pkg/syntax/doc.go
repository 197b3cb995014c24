// Package syntax parses source files of many languages with tree-sitter.
//
// A [Parser] turns a text into a [Tree], which is one array of nodes in C memory: cheap to make, and cheaper to go
// through than a tree of Go objects. [Parsers] bounds how many of them there are, and so the memory.
//
// [Languages] lists the grammars; grammars.go makes each of them available. Without cgo every parse fails with
// [ErrUnavailable]. [SelfTest] proves that each works.
//
// The package starts no goroutines but those that tell a parser that its context has ended, which end before Parse
// returns.
package syntax
