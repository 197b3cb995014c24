package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// ProjectUsage explains --project.
const ProjectUsage = "the project's folder (default: the nearest one with a project file, from the working folder " +
	"upwards)"

// ProjectOf returns the folder that --project names. Without the flag it returns the nearest project at or above the
// working folder and prints it to stderr, or else the working folder itself.
func (a App) ProjectOf(cmd *cobra.Command, named string) string {
	if cmd.Flags().Changed("project") {
		return named
	}
	here := Absolute(".")
	found := ProjectAbove(here, a.Getenv("HOME"))
	if found == "" || found == here {
		return named
	}
	fmt.Fprintf(a.Stderr, "kaged: project %s\n", found)
	return found
}

// ProjectAbove returns the nearest folder at or above dir, an absolute path, with a project file, "" if there is none.
// It stops at home, at the root of a mount, and at a folder that does not belong to the owner of dir.
func ProjectAbove(dir, home string) string {
	home = filepath.Clean(home)
	first, ok := ownerOf(dir)
	for ok {
		if info, err := os.Stat(filepath.Join(dir, dsl.ProjectFile)); err == nil && info.Mode().IsRegular() {
			return dir
		}
		above := filepath.Dir(dir)
		next, found := ownerOf(above)
		if dir == home || above == dir || !found || next != first {
			return ""
		}
		dir = above
	}
	return ""
}

// owned has a folder's owner and mount.
type owned struct {
	uid    uint32
	device uint64
}

func ownerOf(dir string) (owned, bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return owned{}, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owned{}, false
	}
	return owned{stat.Uid, uint64(stat.Dev)}, true //nolint:unconvert // an int32 on darwin
}

func NoFolder(dir string) error {
	return fault.New(fault.NotFound, "There is no folder %s.", Absolute(dir))
}

func NoProject(dir string) error {
	above := ""
	if dir == "." {
		above = " or the folders above it"
	}
	return fault.New(fault.NotFound, "There is no %s in %s%s. Run `kaged init %s` to make it a project.",
		dsl.ProjectFile, Absolute(dir), above, ShellQuote(dir))
}

// Absolute returns the absolute path in messages to people, or the path unchanged if there is no absolute form.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
