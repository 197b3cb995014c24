package cage

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/ownpath"
)

// gitStubs are the stubs of missing protected paths in a repository's folder. A stub in a work tree is a folder,
// because git ignores empty folders. The stub of commondir contains git's default value.
var gitStubs = map[string]Grant{
	"hooks": {Dir: true}, "config": {}, "config.worktree": {}, "commondir": {Stub: ".\n"}, "modules": {Dir: true},
}

// protect adds the protected paths in writable grants, and pins the folders that lead to read-only
// paths.
func (c *compiler) protect() error {
	if err := c.protectFolder(c.root, dsl.ProjectStub); err != nil {
		return err
	}
	if err := c.protectElsewhere(); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(c.named)) {
		if err := c.lookAbove(path); err != nil {
			return err
		}
		g := c.named[path]
		if !g.Dir && dsl.FoldName(filepath.Base(path)) == ".git" {
			// It leads git to a repository, and a child's policy cannot be checked for it: a folder of this name is granted.
			c.unname(path)
		}
		if g.Writable && dsl.ProtectedAcross(path, c.root) {
			c.unname(path) // the policy's text need not show that the name is protected
			continue
		}
		if g.Writable && g.Dir && filepath.Base(path) == ".git" && !c.leftOut(path) {
			// Empty writable folders too: no other rule protects a repository made in one later.
			if err := c.protectGit(path, filepath.Dir(path)); err != nil {
				return err
			}
		}
		if !g.Writable || !g.Dir || c.gits[path] && inGit(path) || c.holder(filepath.Dir(path)).Writable {
			continue // inside a writable grant that is searched itself
		}
		if err := c.protectPartly(path); err != nil {
			return err
		}
		if err := c.protectFolder(path, dsl.GrantStub); err != nil {
			return err
		}
		if err := c.search(path); err != nil {
			return err
		}
	}
	if err := c.recalled(); err != nil {
		return err
	}
	c.keep()
	c.pin()
	return nil
}

// protectFolder protects the files in dir that make tools run code. A missing name gets a stub if the table gives it
// one for this kind of folder: an inner folder, the root of a writable grant, or the project's root.
func (c *compiler) protectFolder(dir string, place dsl.StubPlace) error {
	list, readable := c.entries(dir)
	there := make(map[string]bool, len(list))
	for _, e := range list {
		there[dsl.FoldName(e.name)] = true
	}
	for _, p := range dsl.ProtectedNames {
		path := filepath.Join(dir, p.Name)
		stub := Grant{
			Dir: true, Missing: place == dsl.ProjectStub && p.Stub != dsl.NoStub ||
				place == dsl.GrantStub && p.Stub == dsl.GrantStub,
		}
		first, _, _ := strings.Cut(p.Name, "/")
		if readable && !there[first] && !stub.Missing && !strings.Contains(first, "*") {
			continue
		}
		if p.Name == ".git" && kind(path) == unix.S_IFDIR && !c.isEmpty(path) {
			if err := c.protectGit(path, dir); err != nil {
				return err
			}
			continue
		}
		for _, path := range c.under(dir, list, p.Name) {
			if err := c.protectPath(path, stub); err != nil {
				return err
			}
		}
		if p.Name == ".git" && kind(path) == unix.S_IFREG {
			if err := c.followGit(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// protectPartly protects the rest of a name that begins above the grant: .config/git if the grant is .config.
func (c *compiler) protectPartly(dir string) error {
	for _, p := range dsl.ProtectedNames {
		name := p.Name
		for i := range len(name) {
			if name[i] == '/' && strings.HasSuffix(dir, "/"+name[:i]) {
				if err := c.protectRest(dir, name[i+1:]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// protectRest protects and notes the end of a name that begins above dir.
func (c *compiler) protectRest(dir, rest string) error {
	for _, path := range c.under(dir, nil, rest) {
		c.noteFull(FoundName, path, kind(path))
		if err := c.protectPath(path, Grant{}); err != nil {
			return err
		}
	}
	return nil
}

// under returns the paths of a protected name below dir: the one that it spells, or, for a pattern, those that are
// there, none if the folder cannot be listed. list are the entries of dir; it is listed here if list is nil.
func (c *compiler) under(dir string, list []dirent, name string) (paths []string) {
	folder, last := filepath.Split(name)
	if !strings.Contains(last, "*") {
		return []string{filepath.Join(dir, name)}
	}
	if folder != "" || list == nil {
		dir = filepath.Join(dir, folder)
		// A link on the way is followed: protectPath then refuses it, as for a name that is no pattern.
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		defer unix.Close(fd)
		if list, err = c.list(fd); err != nil {
			return nil
		}
	}
	for _, e := range list {
		if dsl.MatchesName(last, e.name) {
			paths = append(paths, filepath.Join(dir, e.name))
		}
	}
	return paths
}

// lookAbove protects the paths of a grant that belong to a repository around it, or that the configuration of such a
// repository names.
func (c *compiler) lookAbove(path string) error {
	if !c.named[path].Writable {
		return nil
	}
	for at := path; at != "/"; at = filepath.Dir(at) {
		if c.holder(at).Writable { // a work tree there is found by the search
			if c.isGit(at) && !c.leftOut(at) {
				if err := c.protectGit(at, ""); err != nil {
					return err
				}
			}
			continue
		}
		if err := c.repositoryIn(at); err != nil {
			return err
		}
	}
	return nil
}

// repositoryIn protects what a repository in a folder that the cage cannot write leads to and names.
func (c *compiler) repositoryIn(dir string) (err error) {
	if c.isGit(dir) {
		c.around[dir] = true
		err = c.protectGit(dir, "")
	}
	switch git := filepath.Join(dir, ".git"); {
	case err != nil || kind(git) == 0:
	case kind(git) == unix.S_IFDIR:
		c.around[dir] = true
		return c.protectGit(git, dir)
	case kind(git) == unix.S_IFREG:
		c.around[dir] = true
		return c.followGit(git)
	}
	return err
}

// protectPath makes one path read-only if it lies in a writable grant and the policy does not name it. If the path is
// missing and stub is Missing, the stub takes its place.
func (c *compiler) protectPath(path string, stub Grant) error {
	if _, known := c.grants[path]; known {
		return nil
	}
	holder := c.holder(path)
	if !holder.Writable {
		return nil
	}
	what := kind(path)
	switch what {
	case 0:
		if !stub.Missing || kind(filepath.Dir(path)) != unix.S_IFDIR {
			return nil
		}
	case unix.S_IFLNK:
		return c.refuseLink(path, holder)
	case unix.S_IFDIR:
		stub = Grant{Dir: true}
	default:
		stub = Grant{}
	}
	if what != 0 && c.reached(path) == 0 {
		_, err := c.follow(path)
		return err
	}
	stub.Path, stub.Protected = path, true
	c.grants[path] = stub
	return nil
}

// follow returns the real path of one that tools outside the cage use. It refuses the policy if the cage can replace a
// link on the way.
func (c *compiler) follow(path string) (string, error) {
	real, err := ownpath.Resolve(path)
	if err != nil {
		return filepath.Clean(path), nil // a file is in the way, which is protected then
	}
	for _, link := range real.Links() {
		if holder := c.holder(link); holder.Writable {
			return "", c.refuseLink(link, holder)
		}
	}
	for _, dir := range real.Left() {
		if c.holder(dir).Writable && kind(dir) == unix.S_IFDIR {
			c.fixed = append(c.fixed, dir)
		}
	}
	return real.String(), nil
}

func (c *compiler) refuseLink(link string, holder Grant) error {
	return invalid(entry{"cage.fs", c.written[holder.Path]},
		"%s is a link, which cannot be protected, and tools outside the cage run code that they find behind it. "+
			"Put there what it leads to, remove it, or grant the folder without it.", link)
}

// holder returns the deepest grant around a path.
func (c *compiler) holder(path string) Grant {
	for at := path; ; at = filepath.Dir(at) {
		if g, ok := c.grants[at]; ok && (g.Dir || at == path) {
			return g
		}
		if at == "/" {
			return Grant{}
		}
	}
}

// pin lists the folders between a read-only grant and the outermost writable one around it, and those that a name of
// git's enters and leaves again. Each must be a mount: a plain folder can be renamed together with the mounts below it,
// writable ones included.
func (c *compiler) pin() {
	from := func(dir string) {
		for at := dir; c.holder(at).Writable; at = filepath.Dir(at) {
			if _, known := c.grants[at]; !known {
				c.pins = append(c.pins, at)
			}
		}
	}
	for path, g := range c.grants {
		if !g.Writable {
			from(filepath.Dir(path))
		}
	}
	for _, dir := range c.fixed {
		from(dir)
	}
	for _, path := range c.pins {
		c.grants[path] = Grant{Path: path, Dir: true, Writable: true, Pinned: true}
	}
}

// kind returns the file type of stat(2) at a path, links not followed; 0 if the path is invisible.
func kind(path string) uint32 {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return 0
	}
	return uint32(st.Mode) & unix.S_IFMT
}

// kindBeneath is kind for a path below an open folder, reached without links.
func kindBeneath(dir int, rel string) uint32 {
	fd, err := beneath.Open(dir, rel, beneath.Path|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return uint32(st.Mode) & unix.S_IFMT
}

// firstLine reads the first line of a small regular file.
func firstLine(path string) (string, bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	var buf [4096]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return "", false
	}
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	return strings.TrimSpace(line), true
}
