//go:build !unix

package kit

import "os"

func ignoreStops() (restore func()) { return func() {} }

// foreground returns false, so that the terminal is not read: deadlines of terminals may not work here.
func foreground(*os.File) bool { return false }
