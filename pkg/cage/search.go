package cage

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/dsl"
)

// Limits of the searched folders, nearest to the root first: for repositories, projects, protected names and sockets in
// a writable grant, and for sockets in a read-only one.
const (
	searched         = 512
	searchedReadOnly = 128
)

// unsearched are folders of installed packages, which hold no working repositories.
var unsearched = []string{"node_modules", ".venv", "__pycache__"}

// dirent is an entry of a folder. kind is a file type of stat(2), 0 if the file system does not report it.
type dirent struct {
	name string
	kind uint32
}

// entries reads a folder that is reached without links, sorted by name. It reports false if the folder cannot be read.
func (c *compiler) entries(dir string) ([]dirent, bool) {
	fd, err := beneath.Open(c.systemFD, relative(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	list, err := c.list(fd)
	if err != nil {
		return nil, false
	}
	for i, e := range list {
		if e.kind == 0 {
			list[i].kind = kind(filepath.Join(dir, e.name))
		}
	}
	slices.SortFunc(list, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	return list, true
}

// isEmpty reports whether a folder has no visible entry.
func (c *compiler) isEmpty(dir string) bool {
	list, _ := c.entries(dir)
	return len(list) == 0
}

func relative(path string) string {
	if path == "/" {
		return "."
	}
	return path[1:]
}

// walk calls visit with the folders below dir, at most the given number, nearest first; the result of visit narrows the
// walk. It follows no links. It reports false if there are more folders.
func (c *compiler) walk(
	dir string, most int, visit func(at string, list []dirent) (deeper bool, err error),
) (all bool, err error) {
	queue := []string{dir}
	for looked := 0; len(queue) > 0; looked++ {
		if looked == most {
			return false, nil
		}
		at := queue[0]
		queue = queue[1:]
		list, ok := c.entries(at)
		if !ok {
			continue
		}
		deeper, err := visit(at, list)
		if err != nil {
			return false, err
		}
		for _, e := range list {
			if deeper && e.kind == unix.S_IFDIR && e.name != ".git" && !slices.Contains(unsearched, e.name) &&
				!isObjects(at, e.name) {
				queue = append(queue, filepath.Join(at, e.name))
			}
		}
	}
	return true, nil
}

// leftOut reports whether the search of the outermost writable grant around a path leaves the path out. A grant inside
// makes no difference: a child without that grant could write more than its parent.
func (c *compiler) leftOut(path string) bool {
	for at := path; c.holder(filepath.Dir(at)).Writable; at = filepath.Dir(at) {
		if slices.Contains(unsearched, filepath.Base(at)) {
			return true
		}
	}
	return false
}

// isObjects reports whether a folder is one of git's 256 object folders.
func isObjects(dir, name string) bool {
	return len(name) == 2 && filepath.Base(dir) == "objects" && strings.Trim(name, "0123456789abcdef") == ""
}

// search finds repositories, projects, protected names and sockets below dir.
func (c *compiler) search(dir string) error {
	all, err := c.walk(dir, searched, func(at string, list []dirent) (bool, error) {
		if !c.holder(at).Writable {
			return false, nil
		}
		c.noteNames(at, list)
		c.noteSockets(at, list)
		git, project := false, false
		for _, e := range list {
			switch dsl.FoldName(e.name) {
			case "head", "config", "commondir":
				git = true
			case ".git", ".kaged":
				project = true
			}
		}
		// A folder may be both: an agent can add the names of a repository's folder to a work tree.
		if (git || inGit(at)) && c.isGit(at) {
			c.noteBare(at)
			if err := c.protectGit(at, ""); err != nil {
				return false, err
			}
		}
		if project {
			c.note(Found{Kind: KnownFolder, Path: at})
			return true, c.protectFolder(at, dsl.NoStub)
		}
		return true, nil
	})
	c.partial = c.partial || !all
	return err
}

// noteBare records a repository's folder without the name .git. Git uses such a folder unless a valid .git comes first.
// That holds at a project's root too: a cage can write the HEAD of the .git there, and a broken HEAD makes the .git
// invalid. A submodule's or a worktree's part in a .git counts: the .git file of a worktree that is gone, anywhere, may
// lead to a new part.
func (c *compiler) noteBare(dir string) {
	if filepath.Base(dir) != ".git" && isWholeGit(dir) {
		c.note(Found{Kind: FoundRepository, Path: dir})
	}
}

// protectElsewhere protects the paths of writable grants that the user's configuration names, or a repository of the
// project or of a read-only grant, and looks for sockets in read-only grants.
func (c *compiler) protectElsewhere() error {
	writes := false
	for _, g := range c.named {
		writes = writes || g.Writable
	}
	if writes {
		if err := c.protectUser(); err != nil {
			return err
		}
	}
	if writes && c.holder(c.root).Path == "" {
		if _, err := c.walk(c.root, searchedReadOnly, c.lookElsewhere); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.named)) {
		if g := c.named[path]; g.Writable || !g.Dir || !writes && !c.sockets {
			continue
		}
		all, err := c.walk(path, searchedReadOnly, func(at string, list []dirent) (bool, error) {
			c.noteSockets(at, list)
			return c.lookElsewhere(at, list)
		})
		if err != nil {
			return err
		}
		c.partialSockets = c.partialSockets || c.sockets && !all
	}
	return nil
}

// lookElsewhere protects what a repository names that the cage cannot write. It is a visit of a walk.
func (c *compiler) lookElsewhere(at string, list []dirent) (deeper bool, err error) {
	if c.holder(at).Writable {
		return false, nil // searched itself
	}
	if slices.ContainsFunc(list, func(e dirent) bool { return e.name == ".git" || e.name == "HEAD" }) {
		err = c.repositoryIn(at)
	}
	return true, err
}

// noteNames records the protected names in a folder, at any depth.
func (c *compiler) noteNames(dir string, list []dirent) {
	for _, e := range list {
		for _, name := range dsl.ProtectedBelow(e.name) {
			if name == "" {
				as := FoundName
				if dsl.FoldName(e.name) == ".git" {
					as = FoundRepository
				}
				c.noteFull(as, filepath.Join(dir, e.name), e.kind)
				continue
			}
			for _, path := range c.under(filepath.Join(dir, e.name), nil, name) {
				c.noteFull(FoundName, path, kind(path))
			}
		}
	}
}

// noteFull records what is at a path unless it is missing or an empty folder.
func (c *compiler) noteFull(as FoundKind, path string, what uint32) {
	if what != 0 && (what != unix.S_IFDIR || !c.isEmpty(path)) {
		c.note(Found{Kind: as, Path: path})
	}
}
