//go:build !linux

package memory

// dropImage is empty: only Linux lets go of pages of a mapped file this way.
func dropImage() {}
