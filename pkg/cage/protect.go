package cage

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/dsl"
)

// searched is how many folders of a writable one are looked at for repositories and projects in it, those nearest to it first.
const searched = 512

// unsearched are folders that hold what was installed: nobody works in the repositories there.
var unsearched = []string{"node_modules", ".venv", "__pycache__"}

// Which protected names get a stub where they are not there. In a work tree these are folders only, as git does not know empty
// folders, and only those that no tool takes for anything when they are empty; .git/commondir says what holds without it.
var (
	folderStubs  = []string{".git", ".kaged"}
	projectStubs = []string{".vscode", ".idea", ".claude", ".cursor", ".devcontainer"}
	gitStubs     = map[string]Grant{
		"hooks": {Dir: true}, "config": {}, "config.worktree": {}, "commondir": {Stub: ".\n"},
	}
)

// protect adds the protected paths in writable grants, and holds fast the folders that lead to what is read-only.
func (c *compiler) protect() error {
	if err := c.protectFolder(c.root, slices.Concat(folderStubs, projectStubs)); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(c.named)) {
		if err := c.lookAbove(path); err != nil {
			return err
		}
		g := c.named[path]
		if g.Writable && g.Dir && filepath.Base(path) == ".git" {
			// Also in a writable folder: as long as it is empty nothing else protects what it may become.
			if err := c.protectGit(path); err != nil {
				return err
			}
		}
		if !g.Writable || !g.Dir || c.holder(filepath.Dir(path)).Writable {
			continue // in a writable one that is searched itself
		}
		if err := c.protectPartly(path); err != nil {
			return err
		}
		if err := c.protectFolder(path, folderStubs); err != nil {
			return err
		}
		if err := c.search(path); err != nil {
			return err
		}
	}
	c.pin()
	return nil
}

// protectFolder protects what makes tools run code that work in the folder dir. Of what is not there, the names in stubs get
// one.
func (c *compiler) protectFolder(dir string, stubs []string) error {
	for _, name := range dsl.ProtectedNames {
		path := filepath.Join(dir, name)
		if name == ".git" && kind(path) == unix.S_IFDIR && len(c.entries(path)) > 0 {
			if err := c.protectGit(path); err != nil {
				return err
			}
			continue
		}
		stub := Grant{Dir: true, Missing: true}
		if !slices.Contains(stubs, name) {
			stub = Grant{}
		}
		if err := c.protectPath(path, stub); err != nil {
			return err
		}
		if name == ".git" && kind(path) == unix.S_IFREG {
			if err := c.followGit(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// protectPartly protects the rest of a name that begins above the grant, as .config/git does where .config is granted.
func (c *compiler) protectPartly(dir string) error {
	for _, name := range dsl.ProtectedNames {
		for i := range len(name) {
			if name[i] == '/' && strings.HasSuffix(dir, "/"+name[:i]) {
				if err := c.protectPath(filepath.Join(dir, name[i+1:]), Grant{}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// lookAbove protects the insides of the repositories that a grant lies in.
func (c *compiler) lookAbove(path string) error {
	if !c.named[path].Writable {
		return nil
	}
	for at := path; at != "/"; at = filepath.Dir(at) {
		if isGit(at) {
			if err := c.protectGit(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// isGit reports whether git keeps a repository or a worktree's part of one in the folder.
func isGit(dir string) bool {
	has := func(name string) bool { return kind(filepath.Join(dir, name)) != 0 }
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// protectGit protects what makes git run code, of the folder in which it keeps a repository, and of those in it in which it
// keeps submodules and worktrees. Of a bare repository without worktrees it protects only what is there: it may be kept in
// another repository, as data for tests are, which would see the stubs. Such a folder has a name of its own, so that a policy
// for an agent below another cannot be seen to name what is protected in it; there no policy can.
func (c *compiler) protectGit(dir string) error {
	if c.gits[dir] {
		return nil
	}
	c.gits[dir] = true
	named := slices.Contains(strings.Split(dir, "/"), ".git")
	stubs := named || kind(filepath.Join(dir, "worktrees")) == unix.S_IFDIR ||
		kind(filepath.Join(filepath.Dir(dir), ".git")) == unix.S_IFREG
	// A stub of another cage says what holds without it.
	common, worktree := firstLine(filepath.Join(dir, "commondir"))
	worktree = worktree && common != "."
	for _, name := range dsl.ProtectedGit {
		stub := gitStubs[name]
		stub.Missing = stubs
		if worktree && name != "config.worktree" {
			stub = Grant{} // they are looked for where commondir says
		}
		path := filepath.Join(dir, name)
		if !named {
			c.unname(path)
		}
		if err := c.protectPath(path, stub); err != nil {
			return err
		}
	}
	for _, inner := range []string{"modules", "worktrees"} {
		if err := c.search(filepath.Join(dir, inner)); err != nil {
			return err
		}
	}
	return nil
}

// unname takes back what the policy grants at or below a path.
func (c *compiler) unname(path string) {
	for at, g := range c.grants {
		if g.Writable && Below(at, path) {
			g.Writable, g.Protected = false, true
			c.grants[at] = g
		}
	}
}

// followGit protects the folder that a .git file leads to, and the one of the repository that is a worktree of.
func (c *compiler) followGit(file string) error {
	for _, link := range []struct{ name, prefix string }{{"", "gitdir: "}, {"commondir", ""}} {
		text, ok := firstLine(filepath.Join(file, link.name))
		target, ok2 := strings.CutPrefix(text, link.prefix)
		if !ok || !ok2 || target == "" {
			return nil
		}
		from := file
		if link.name == "" {
			from = filepath.Dir(file)
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(from, target)
		}
		real, err := filepath.EvalSymlinks(target)
		if err != nil || !isGit(real) {
			return nil
		}
		if err := c.protectGit(real); err != nil {
			return err
		}
		file = real
	}
	return nil
}

// protectPath makes one path read-only if it lies in a writable grant and the policy does not name it. Where it is not there,
// a stub that is Missing takes its place.
func (c *compiler) protectPath(path string, stub Grant) error {
	if _, known := c.grants[path]; known {
		return nil
	}
	holder := c.holder(path)
	if !holder.Writable {
		return nil
	}
	switch kind(path) {
	case 0:
		if !stub.Missing || kind(filepath.Dir(path)) != unix.S_IFDIR {
			return nil
		}
	case unix.S_IFLNK:
		return invalid(entry{"cage.fs", c.written[holder.Path]}, "%s is a link, which cannot be protected, and tools outside the cage run code that they find behind it. "+
			"Put there what it leads to, remove it, or grant the folder without it.", path)
	case unix.S_IFDIR:
		stub = Grant{Dir: true}
	default:
		stub = Grant{}
	}
	stub.Path, stub.Protected = path, true
	c.grants[path] = stub
	return nil
}

// holder returns the grant that decides about a path.
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

// search looks for repositories and projects below dir, those nearest to it first. It follows no links.
func (c *compiler) search(dir string) error {
	queue := []string{dir}
	for looked := 0; len(queue) > 0; looked++ {
		if looked == searched {
			c.partial = true
			return nil
		}
		at := queue[0]
		queue = queue[1:]
		if !c.holder(at).Writable {
			continue
		}
		entries := c.entries(at)
		names := map[string]bool{}
		for _, e := range entries {
			names[e.Name()] = true
			if e.IsDir() && e.Name() != ".git" && !slices.Contains(unsearched, e.Name()) {
				queue = append(queue, filepath.Join(at, e.Name()))
			}
		}
		var err error
		switch {
		case names["HEAD"] && isGit(at):
			err = c.protectGit(at)
		case names[".git"] || names[".kaged"]:
			err = c.protectFolder(at, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries reads a folder that is to be reached without links; what cannot be read has none.
func (c *compiler) entries(dir string) []os.DirEntry {
	fd, err := beneath.Open(c.systemFD, relative(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

func relative(path string) string {
	if path == "/" {
		return "."
	}
	return path[1:]
}

// pin lists the folders between a read-only grant and the writable one it lies in: each must be a mount of its own, since a
// folder that is none can be renamed, whatever is mounted below it.
func (c *compiler) pin() {
	for path, g := range c.grants {
		if g.Writable {
			continue
		}
		holder := c.holder(filepath.Dir(path))
		if !holder.Writable || g.Pinned {
			continue
		}
		for at := filepath.Dir(path); at != holder.Path && at != "/"; at = filepath.Dir(at) {
			c.pins = append(c.pins, at)
		}
	}
	for _, path := range c.pins {
		c.grants[path] = Grant{Path: path, Dir: true, Writable: true, Pinned: true}
	}
}

// kind is what is at a path, links not followed: a file type of stat(2), 0 for nothing that can be seen.
func kind(path string) uint32 {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
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
