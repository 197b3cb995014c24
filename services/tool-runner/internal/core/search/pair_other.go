//go:build !amd64

package search

// pairWidth is how many places pair looks at at once.
const (
	pairWidth = 32
	hasPair   = false
)

// pair is never called where hasPair is false.
func pair(*byte, int, byte, byte, byte, int) int { return -1 }
