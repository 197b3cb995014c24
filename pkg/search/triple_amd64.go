package search

import "golang.org/x/sys/cpu"

// tripleWidth is the number of positions that [triple] compares at once.
const tripleWidth = 32

var hasTriple = cpu.X86.HasAVX2

// triple returns the first i below n where, with fold OR-ed to each byte, p[i] is first, p[i+gap] is second and
// p[i+last] is third, or -1. n is a multiple of tripleWidth, and n+max(gap, last) bytes from p on must be readable.
//
//go:noescape
func triple(p *byte, n int, first, second, third, fold byte, gap, last int) int
