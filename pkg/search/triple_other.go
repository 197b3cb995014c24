//go:build !amd64

package search

const (
	tripleWidth = 32
	hasTriple   = false
)

// triple is not called, because hasTriple is false.
func triple(*byte, int, byte, byte, byte, byte, int, int) int { return -1 }
