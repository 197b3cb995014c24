package paths

import "strings"

// TempSuffix ends the names that [TempName] returns.
const TempSuffix = ".tmp"

const tempPrefix = ".kaged-"

// TempName returns the name under which a file waits beside the others to take its place; unique tells it from all of
// them.
func TempName(unique string) string { return tempPrefix + unique + TempSuffix }

// IsTemp reports whether a file name is one of those that [TempName] returns.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, TempSuffix)
}
