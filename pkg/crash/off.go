//go:build !faults

package crash

// At does nothing in this build.
func At(Point) {}
