// Package syntax parses source files of many languages with tree-sitter.
//
// A [Parser] parses a text into a [Tree], one array of nodes in C memory, which is cheaper to make and to walk than a
// tree of Go objects. [Parsers] limits the number of parsers, and so the memory.
//
// [Languages] lists the grammars; grammars.go links them. Without cgo every parse fails with [ErrUnavailable].
// [SelfTest] checks each of them.
//
// The only goroutines stop a parser when its context ends; they end before Parse returns.
package syntax
