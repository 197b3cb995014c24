//go:build !unix

package host

import "io/fs"

// ownedByUser is always true on systems without numeric file owners.
func ownedByUser(fs.FileInfo) bool { return true }
