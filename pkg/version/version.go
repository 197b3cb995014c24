// Package version has the version of this build.
package version

import "runtime/debug"

// A build sets these with -ldflags "-X kaged.dev/pkg/version.number=1.2.3 -X kaged.dev/pkg/version.commit=abc1234".
var (
	// number is the semantic version.
	number = "0.1.0"
	// commit is the commit of the build, with "-dirty" for a changed tree; empty if the source was not a checkout.
	commit = ""
)

// String returns the semantic version, as in the API.
func String() string { return number }

// Full returns the version for people: with the commit, if it is known.
func Full() string {
	if c := built(commit, debug.ReadBuildInfo); c != "" {
		return number + " (" + c + ")"
	}
	return number
}

// commitLength is the shown length of a commit's hash.
const commitLength = 12

// built returns the commit given at build time, or else the one recorded by the go command.
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
