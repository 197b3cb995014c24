//go:build !linux

package change

import "golang.org/x/sys/unix"

// renameNew renames a file. It fails with EEXIST if the new name is taken.
func renameNew(from int, name string, to int, newName string) error {
	return linkNew(from, name, to, newName)
}

// exchange swaps the names of two files of a folder: first b changes, and a moment later a.
func exchange(dir int, a, b string) error { return exchangeByLinks(dir, a, b) }

// settle syncs a file, so that a renamed file has its content after a power failure.
func (f *folder) settle(fd int) (waited bool, err error) { return true, unix.Fsync(fd) }

// copyAttributes has no work here: replacing a file loses no attributes.
func copyAttributes(int, string, int, bool) bool { return true }
