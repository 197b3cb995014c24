//go:build !unix

package kit

import "os"

func ignoreStops() (restore func()) { return func() {} }

// foreground reports that the terminal is not read: deadlines of terminals are not known to work here.
func foreground(*os.File) bool { return false }
