package cage

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
)

// isGit reports whether git keeps a repository or a worktree's part of one in the folder. One protected file suffices
// if only git makes such a file: a cage can remove the others, and put them back when the file is no longer protected.
// It depends on the folder alone: a .git file elsewhere, which a child's policy need not show, may lead to it.
func (c *compiler) isGit(dir string) bool {
	return isWholeGit(dir) || isRegular(filepath.Join(dir, "commondir")) || c.repositoryOf(dir).made ||
		holdsGit(dir) && isRegular(filepath.Join(dir, "config"))
}

// isWholeGit reports whether git would use the folder as a repository.
func isWholeGit(dir string) bool {
	has := func(name string) bool { return kind(filepath.Join(dir, name)) != 0 }
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// holdsGit reports whether a path is a .git, or a place in one for the repository of a submodule or the part of a
// worktree.
func holdsGit(dir string) bool {
	parts := strings.Split(dir, "/")
	i := slices.Index(parts, ".git") + 1
	if rest := parts[i:]; i > 0 && len(rest) > 0 {
		isBranch := slices.Contains(rest, "refs") || slices.Contains(rest, "logs") // it may have the name config
		return (rest[0] == "modules" || rest[0] == "worktrees") && !isBranch
	}
	return i > 0
}

func isRegular(path string) bool { return kind(path) == unix.S_IFREG }

// inGit reports whether a path is a .git or lies in one. Another folder that [isGit] takes for a repository's may be a
// project too, because three names suffice for isGit.
func inGit(path string) bool {
	return slices.Contains(strings.Split(path, "/"), ".git")
}

// protectGit protects the paths of a git directory, and of the submodules and worktrees in it, that make git run
// code. With git: read_only it protects the whole directory. worktree is the working tree of the repository, "" if
// unknown.
func (c *compiler) protectGit(dir, worktree string) error {
	if !c.gits[dir] {
		c.gits[dir] = true
		if err := c.protectGitFolder(dir); err != nil {
			return err
		}
	}
	if key := dir + "\x00" + worktree; !c.gits[key] {
		c.gits[key] = true
		return c.protectNamed(dir, worktree)
	}
	return nil
}

// protectGitFolder protects the contents of a repository's folder. Of a bare repository without worktrees it protects
// only the existing paths and notes them: the repository may be stored in another one, as test data, and git would list
// the stubs there. Such a folder has any name, so a child's policy cannot be checked for protected paths in it; there
// no policy can make them writable.
func (c *compiler) protectGitFolder(dir string) error {
	named := inGit(dir)
	// A folder with a .git of its own is a work tree, though an agent may have made it look like a repository's folder.
	if c.policy.GitReadOnly() && (named || kind(filepath.Join(dir, ".git")) == 0) {
		return c.protectWhole(dir)
	}
	c.noteGitLinks(dir)
	stubs := named || !c.repositoryOf(dir).bare || kind(filepath.Join(dir, "worktrees")) == unix.S_IFDIR ||
		kind(filepath.Join(filepath.Dir(dir), ".git")) == unix.S_IFREG
	// A stub that another cage made contains git's default value for the file.
	common, worktree := firstLine(filepath.Join(dir, "commondir"))
	worktree = worktree && common != "."
	for _, name := range dsl.ProtectedGit {
		stub := gitStubs[name]
		stub.Missing = stubs
		if worktree && name != "config.worktree" && name != "modules" {
			stub = Grant{} // git reads these from the folder in commondir
		}
		path := filepath.Join(dir, name)
		if !named {
			c.unname(path)
		}
		if !stubs && kind(path) != 0 && c.holder(path).Writable {
			c.note(Found{Kind: FoundName, Path: path})
		}
		if name == "modules" {
			if err := c.protectModules(path); err != nil {
				return err
			}
		}
		if err := c.protectPath(path, stub); err != nil {
			return err
		}
	}
	return c.search(filepath.Join(dir, "worktrees"))
}

// logFolders is the maximum number of folders of reference logs that are searched for links.
const logFolders = 64

// noteGitLinks takes note of the links among the files that git writes without removing them first: COMMIT_EDITMSG,
// FETCH_HEAD and the like, and the reference logs, in which lines quote the names of branches. Git outside the cage
// writes to their targets.
func (c *compiler) noteGitLinks(dir string) {
	if !c.holder(dir).Writable {
		return
	}
	note := func(at string, list []dirent) {
		for _, e := range list {
			if e.kind == unix.S_IFLNK {
				c.note(Found{Kind: FoundGitLink, Path: filepath.Join(at, e.name)})
			}
		}
	}
	list, _ := c.entries(dir)
	note(dir, list)
	// Logs beyond the limit belong to branches below many folders. The search reports Partial for work trees only.
	_, _ = c.walk(filepath.Join(dir, "logs"), logFolders, func(at string, list []dirent) (bool, error) {
		note(at, list)
		return true, nil
	})
}

// protectModules protects the repositories in the folder of git's submodules, whether or not the policy names the
// folder: no other search enters a .git. The repositories stay writable. New ones cannot be made beside them once the
// folder itself is protected.
func (c *compiler) protectModules(dir string) error {
	if kind(dir) != unix.S_IFDIR || !c.holder(dir).Writable {
		return nil
	}
	before := maps.Clone(c.gits)
	if err := c.search(dir); err != nil {
		return err
	}
	for git := range c.gits {
		if before[git] || !Below(git, dir) || strings.ContainsRune(git, 0) {
			continue
		}
		if _, known := c.grants[git]; !known {
			c.grants[git] = Grant{Path: git, Dir: true, Writable: true, Pinned: true}
		}
	}
	return nil
}

// protectWhole protects the complete folder of a repository. It fails if the policy grants a path
// in it.
func (c *compiler) protectWhole(dir string) error {
	for path, g := range c.named {
		if g.Writable && Below(path, dir) {
			return invalid(entry{"cage.fs", c.written[path]},
				"git: read_only leaves %s read-only, and %s in it is granted rw; leave the grant out, or set git: writable.", dir,
				path)
		}
	}
	return c.protectPath(dir, Grant{})
}

// unname removes the policy's grants at or below a path.
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
	worktree := filepath.Dir(file)
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
			target = from + "/" + target
		}
		real, err := c.follow(target)
		if err != nil {
			return err
		}
		if kind(real) == 0 { // a cage could make a repository there
			return c.protectTarget(real, Grant{Dir: true, Missing: true})
		}
		if !c.mayBecomeGit(real) {
			return nil
		}
		if err := c.protectGit(real, worktree); err != nil {
			return err
		}
		file = real
	}
	return nil
}

// mayBecomeGit reports whether a .git file that leads to the folder leads to a repository, or to one of which the cage
// could make the missing parts.
func (c *compiler) mayBecomeGit(dir string) bool {
	list, readable := c.entries(dir)
	return readable && (len(list) == 0 || c.isGit(dir) || slices.ContainsFunc(list, func(e dirent) bool {
		return slices.Contains([]string{"HEAD", "objects", "refs", "config"}, e.name)
	}))
}

// protectNamed protects the paths named by a repository's configuration, and the gitlinks of its
// index.
func (c *compiler) protectNamed(dir, worktree string) error {
	settings := slices.Concat(c.userSettings(), c.gitSettings(filepath.Join(dir, "config")),
		c.gitSettings(filepath.Join(dir, "config.worktree")))
	hash := 20
	for _, s := range settings {
		switch s.key {
		case "core.worktree":
			if path, ok := gitPath(s.value, dir); ok && worktree == "" {
				var err error
				if worktree, err = c.follow(path); err != nil {
					return err
				}
			}
		case "extensions.objectformat":
			if strings.EqualFold(s.value, "sha256") {
				hash = 32
			}
		}
	}
	for _, s := range settings {
		if err := c.protectSetting(s, dir, worktree); err != nil {
			return err
		}
	}
	if worktree == "" {
		return nil
	}
	links, whole := c.indexes().read(dir, hash)
	c.partial = c.partial || !whole
	for _, link := range links[:min(len(links), maxGitlinks)] {
		if err := c.protectGitlink(worktree, link); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) indexes() *indexes {
	if c.memory != nil {
		return &c.memory.indexes
	}
	return &indexes{}
}

// protectUser protects the user's and the system's configuration of git, which may be links into the granted folders,
// and what it names.
func (c *compiler) protectUser() error {
	for _, file := range userConfigs() {
		real, err := c.follow(file)
		if err != nil {
			return err
		}
		if _, named := dsl.ProtectedPart(real); named {
			err = c.protectPath(real, Grant{})
		} else {
			err = c.protectTarget(real, Grant{})
		}
		if err != nil {
			return err
		}
	}
	for _, s := range c.userSettings() {
		if err := c.protectSetting(s, "", ""); err != nil {
			return err
		}
	}
	return nil
}

// userSettings are the settings of the user's and the system's configuration, which apply to each repository.
func (c *compiler) userSettings() []placedSetting {
	if c.ofUser == nil {
		c.ofUser = []placedSetting{}
		for _, file := range userConfigs() {
			c.ofUser = append(c.ofUser, c.gitSettings(file)...)
		}
	}
	return c.ofUser
}

// protectSetting protects the path named by one setting of a repository's configuration.
func (c *compiler) protectSetting(s placedSetting, dir, worktree string) error {
	switch s.key {
	case "core.worktree", "extensions.objectformat":
		return nil
	case "include.path", "includeif.path":
		if path, ok := gitPath(s.value, filepath.Dir(s.file)); ok {
			return c.protectTarget(path, Grant{Missing: true})
		}
		return nil
	case "core.hookspath":
		// relative to the git directory, as for a push into the repository
		if path, ok := gitPath(s.value, dir); ok && filepath.Clean(path) != dir && exists(path) {
			if err := c.protectTarget(path, Grant{}); err != nil {
				return err
			}
		}
		if path, ok := gitPath(s.value, worktree); ok {
			return c.protectTarget(path, Grant{Dir: true, Missing: true})
		}
		return nil
	case "init.templatedir": // git copies its hooks to each new repository
		if path, ok := gitPath(s.value, worktree); ok {
			return c.protectTarget(path, Grant{Dir: true, Missing: true})
		}
		return nil
	case "remote.url", "remote.pushurl":
		if !strings.HasPrefix(s.value, "ext::") {
			return nil
		}
	}
	if strings.HasPrefix(s.key, "alias.") && !strings.HasPrefix(s.value, "!") {
		return nil
	}
	return c.protectProgram(strings.TrimPrefix(s.value, "ext::"), worktree)
}

// exists reports whether there is a file or folder at a path, links followed.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// protectProgram protects the existing files that a command of git's configuration names.
func (c *compiler) protectProgram(command, worktree string) error {
	const most = 16
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`;&|()<>$={}", r) })
	for _, word := range words[:min(len(words), most)] {
		path, ok := gitPath(strings.TrimLeft(word, "!"), worktree)
		if info, err := os.Stat(path); !ok || err != nil || !info.Mode().IsRegular() {
			continue
		}
		path, err := c.follow(path)
		if err != nil {
			return err
		}
		if c.holder(path).Writable {
			c.note(Found{Kind: FoundHookPath, Path: path})
			c.unname(path)
			if err := c.protectPath(path, Grant{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// protectTarget protects a path named by a configuration of git, also if the policy names it: such a path has any name,
// so a child's policy cannot be checked for it. Missing parts of the path get a stub if stub is Missing. Of a folder
// with the project in it only the hooks are protected.
func (c *compiler) protectTarget(path string, stub Grant) error {
	path, err := c.follow(path)
	if err != nil {
		return err
	}
	if c.holder(path).Writable {
		c.note(Found{Kind: FoundHookPath, Path: path})
	}
	if Below(c.root, path) {
		return c.protectHooks(path)
	}
	c.unname(path)
	holder := c.holder(path)
	if !holder.Writable {
		return nil
	}
	for at, end := holder.Path, false; !end; {
		element, _, _ := strings.Cut(strings.TrimPrefix(path[len(at):], "/"), "/")
		at = filepath.Join(at, element)
		end = at == path
		what := kind(at)
		switch {
		case what == 0 && !end:
			stub.Dir, end = true, true
		case what != 0 && what != unix.S_IFDIR:
			end = true
		}
		if end {
			c.unname(at)
			return c.protectPath(at, stub)
		}
	}
	return nil
}

// protectHooks protects the hooks in a folder.
func (c *compiler) protectHooks(dir string) error {
	for _, name := range hookNames {
		if path := filepath.Join(dir, name); kind(path) != 0 {
			c.unname(path)
			if err := c.protectPath(path, Grant{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// hookNames are the hooks of git.
var hookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
	"commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive",
	"post-update",
	"reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate", "fsmonitor-watchman",
	"post-index-change",
}

// protectGitlink protects the place of a gitlink: an existing repository, or else the path where
// git would look for one. Missing parts of the path get a stub.
func (c *compiler) protectGitlink(worktree, link string) error {
	if !filepath.IsLocal(link) || filepath.Clean(link) != link || link == "." {
		return nil // git does not go there
	}
	path := filepath.Join(worktree, link)
	if !c.holder(path).Writable {
		return nil
	}
	c.note(Found{Kind: FoundGitlink, Path: path})
	at := worktree
	for element := range strings.SplitSeq(link, "/") {
		at = filepath.Join(at, element)
		switch kind(at) {
		case unix.S_IFDIR:
		case 0:
			return c.protectPath(at, Grant{Dir: true, Missing: true})
		case unix.S_IFREG:
			c.unname(at)
			return c.protectPath(at, Grant{})
		default:
			return nil // git goes through no link
		}
	}
	return c.protectFolder(path, dsl.GrantStub)
}

// reached returns the file type at a path reached without links, 0 if the path is invisible.
func (c *compiler) reached(path string) uint32 {
	return kindBeneath(c.systemFD, relative(path))
}
