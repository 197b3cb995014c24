package search

import "golang.org/x/sys/cpu"

// pairWidth is how many places [pair] looks at at once.
const pairWidth = 32

var hasPair = cpu.X86.HasAVX2

// pair returns the first i below n at which, with fold OR-ed to both, the byte i behind p is first and the one gap further on
// second; -1 if there is none. n is a multiple of pairWidth, and n+gap bytes behind p can be read.
//
//go:noescape
func pair(p *byte, n int, first, second, fold byte, gap int) int
