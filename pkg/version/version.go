// Package version says which kaged this is.
package version

// number is the semantic version; a release build sets it with -ldflags "-X kaged.dev/pkg/version.number=1.2.3".
var number = "0.1.0"

// String returns the semantic version.
func String() string { return number }
