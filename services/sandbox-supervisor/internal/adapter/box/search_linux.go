package box

import (
	"path/filepath"
	"slices"
	"strings"

	"kaged.dev/pkg/cage"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// ownPlaces are the folders a box has of its own, where its commands may put programs, and those it makes of parts.
var ownPlaces = []string{"/tmp", "/var/tmp", "/run", "/dev", "/proc", "/etc", blueprint.Home}

// places are the paths at and below which something can be in a box.
func places(system []string, view *cage.View) []string {
	list := slices.Concat(system, ownPlaces)
	for _, g := range view.Grants {
		list = append(list, g.Path)
	}
	return list
}

// searched is a PATH without the folders of the host that no command in a box with these places can ever find: they tell about the
// host and have each program looked for in vain. What is not a plain absolute path stays, and so does a PATH of which nothing would.
func searched(path string, places []string) string {
	dirs := filepath.SplitList(path)
	left := slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool {
		clean := filepath.Clean(dir)
		if !filepath.IsAbs(dir) || strings.TrimRight(dir, "/") != clean {
			return false
		}
		return !slices.ContainsFunc(places, func(at string) bool { return cage.Below(clean, at) || cage.Below(at, clean) })
	})
	if len(left) == 0 || len(left) == len(dirs) {
		return path
	}
	return strings.Join(left, string(filepath.ListSeparator))
}
