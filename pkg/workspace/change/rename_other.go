//go:build !linux

package change

import "golang.org/x/sys/unix"

// renameNew renames a file to a free name; else it fails with EEXIST.
func renameNew(from int, name string, to int, newName string) error {
	return linkNew(from, name, to, newName)
}

// exchange lets two files of a folder exchange their names, at one moment for each name.
func exchange(dir int, a, b string) error { return exchangeByLinks(dir, a, b) }

// settle sees to it that a power failure after a rename finds the new file's content under the name.
func settle(fd int) error { return unix.Fsync(fd) }

// copyAttributes has no work here: replacing a file loses no attributes.
func copyAttributes(int, string, int) bool { return true }
