//go:build unix

package checkup

import "golang.org/x/sys/unix"

// writable says whether things can be made in a folder.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
