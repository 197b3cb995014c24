//go:build !linux && !darwin

package kit

import "os"

// DiscardInput drops unread input of a terminal on systems that support it.
func DiscardInput(*os.File) {}
