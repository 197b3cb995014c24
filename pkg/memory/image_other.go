//go:build !linux

package memory

// dropImage does nothing: only Linux lets go of pages of a mapped file this way.
func dropImage() {}
