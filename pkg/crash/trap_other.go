//go:build faults && !linux

package crash

// spring has no effect: traps need Linux.
func spring(Point) {}
