//go:build !linux && !darwin

package kit

import "os"

// discardInput drops what was typed on a terminal and not read yet, where the system has terminals that can.
func discardInput(*os.File) {}
