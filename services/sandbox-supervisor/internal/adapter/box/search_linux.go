package box

import (
	"path/filepath"
	"slices"
	"strings"

	"kaged.dev/pkg/cage"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// ownPlaces are the cage's own folders: the private ones, where commands may put programs, and those built from parts.
var ownPlaces = []string{"/tmp", "/var/tmp", "/run", "/dev", "/proc", "/etc", blueprint.Home}

// places returns the paths at and below which files can exist in a cage.
func places(system []string, view *cage.View) []string {
	list := slices.Concat(system, ownPlaces)
	for _, g := range view.Grants {
		list = append(list, g.Path)
	}
	return list
}

// searched returns PATH without host folders that can never exist in a cage with these places: they reveal the host's
// layout and slow each lookup. Entries that are not clean absolute paths stay, and a PATH that would become empty stays
// whole.
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
