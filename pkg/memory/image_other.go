//go:build !linux

package memory

// dropImage does nothing: only Linux can release the pages of a mapped file this way.
func dropImage() {}
