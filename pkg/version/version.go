// Package version says which kaged this is.
package version

import "runtime/debug"

// A build sets these with -ldflags "-X kaged.dev/pkg/version.number=1.2.3 -X kaged.dev/pkg/version.commit=abc1234".
var (
	// number is the semantic version.
	number = "0.1.0"
	// commit is the commit it was built from, with "-dirty" for a changed tree; empty where the source was no checkout.
	commit = ""
)

// String returns the semantic version, as the API has it.
func String() string { return number }

// Full returns the version for people: with the commit, where that is known.
func Full() string {
	if c := built(commit, debug.ReadBuildInfo); c != "" {
		return number + " (" + c + ")"
	}
	return number
}

// commitLength is how much of a commit's hash names it.
const commitLength = 12

// built returns the commit given at build time, or the one that the go command has noted itself.
func built(given string, info func() (*debug.BuildInfo, bool)) string {
	if given != "" {
		return given
	}
	build, ok := info()
	if !ok {
		return ""
	}
	revision, dirty := "", ""
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(commitLength, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
