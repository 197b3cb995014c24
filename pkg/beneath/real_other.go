//go:build !linux

package beneath

// OpenReal would open an absolute path that leads through no link.
func OpenReal(string, int) (int, error) { return -1, errNoOpenat2 }
