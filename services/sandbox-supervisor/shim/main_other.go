//go:build !linux

package shim

import (
	"fmt"
	"os"
)

// Main ends the process: only Linux has shims.
func Main() {
	fmt.Fprintln(os.Stderr, Name+": this system has no subreapers")
	os.Exit(2)
}
