//go:build !linux && !darwin

package kit

import "os"

// discardInput drops unread input of a terminal on systems that can.
func discardInput(*os.File) {}
