//go:build !faults

package crash

// At has no effect in this build.
func At(Point) {}
