package ignore

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// FileName is the file whose patterns hold for its folder and all below.
const FileName = ".gitignore"

// RepoName is the entry that makes a folder a repository.
const RepoName = ".git"

// MaxFile is the largest file of patterns that is read, in bytes.
const MaxFile = 1 << 20

// Dir is what holds in one folder of a walk. It is immutable once the folder was entered, and safe for concurrent use.
type Dir struct {
	parent *Dir // the folder above in the same repository, nil at its root
	base   int  // how much of a path from the repository's root is this folder, slash included
	path   string
	list   *List // the folder's own .gitignore
	repo   *repo
}

// repo is what holds in a whole repository.
type repo struct {
	user    *User
	exclude *List // .git/info/exclude
}

// Start returns what holds in the folder start, where a walk begins. The rules of its repository's root, or of top where
// there is no repository, and of every folder between count too. Both paths are absolute and real, and start is at or below
// top.
func Start(top, start string, user *User) *Dir {
	root := top
	for dir := start; ; dir = filepath.Dir(dir) {
		if isRepo(filepath.Join(dir, RepoName)) {
			root = dir
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	d := newRoot(root, user)
	d = d.withFile(root)
	rel, err := filepath.Rel(root, start)
	if err != nil || rel == "." {
		return d
	}
	for name := range strings.SplitSeq(rel, "/") {
		d = d.Child(name)
		root = filepath.Join(root, name)
		d = d.withFile(root)
	}
	return d
}

func newRoot(dir string, user *User) *Dir {
	r := &repo{user: user}
	if git := gitDir(filepath.Join(dir, RepoName)); git != "" {
		r.exclude = Parse(readFile(filepath.Join(git, "info", "exclude")), user.fold)
	}
	return &Dir{repo: r}
}

// withFile returns d with the patterns of the folder at the real path dir.
func (d *Dir) withFile(dir string) *Dir {
	return d.Enter(readFile(filepath.Join(dir, FileName)))
}

// Child returns what holds in the folder called name, before its own patterns are known.
func (d *Dir) Child(name string) *Dir {
	path := name + "/"
	if d.path != "" {
		path = d.path + path
	}
	return &Dir{parent: d, base: len(path), path: path, repo: d.repo}
}

// Enter returns d with the content of the folder's own .gitignore.
func (d *Dir) Enter(content []byte) *Dir {
	list := Parse(content, d.repo.user.fold)
	if list == nil {
		return d
	}
	with := *d
	with.list = list
	return &with
}

// Repo returns what holds in a folder that turned out to be a repository of its own: nothing from above. dir is its real
// path. A .git that is not a repository changes nothing.
func (d *Dir) Repo(dir string) *Dir {
	if !isRepo(filepath.Join(dir, RepoName)) {
		return d
	}
	return newRoot(dir, d.repo.user)
}

// Ignored reports whether git ignores the entry called name of the folder. The entry named .git is always left out: it is
// not part of the tree.
func (d *Dir) Ignored(name string, isDir bool) bool {
	if name == RepoName {
		return true
	}
	path := d.path + name
	for at := d; at != nil; at = at.parent {
		if at.list == nil {
			continue
		}
		if v := at.list.match(path[at.base:], name, isDir); v != silent {
			return v == ignored
		}
	}
	if v := d.repo.exclude.match(path, name, isDir); v != silent {
		return v == ignored
	}
	return d.repo.user.list.match(path, name, isDir) == ignored
}

// isRepo reports whether the entry at path makes its folder a repository.
func isRepo(path string) bool {
	git := gitDir(path)
	if git == "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(path, "HEAD"))
	return err == nil || git != path
}

// gitDir returns where a repository keeps what its work trees share, "" if path is no .git.
func gitDir(path string) string {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return ""
	case info.IsDir():
		return path
	case !info.Mode().IsRegular():
		return ""
	}
	// A work tree or a submodule has a file that says where.
	target, ok := bytes.CutPrefix(readFile(path), []byte("gitdir: "))
	if !ok {
		return ""
	}
	dir := strings.TrimRight(string(target), "\r\n")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(path), dir)
	}
	if common := strings.TrimSpace(string(readFile(filepath.Join(dir, "commondir")))); common != "" {
		if !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
		return common
	}
	return dir
}

// readFile returns the content of a small regular file, nil if it cannot be had. Like git it does not follow a link, and it
// never waits for a pipe.
func readFile(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return ReadFD(fd)
}

// ReadFD returns the content of an open file if it is a small regular one, and closes it.
func ReadFD(fd int) []byte {
	f := os.NewFile(uintptr(fd), FileName)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > MaxFile {
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxFile))
	if err != nil {
		return nil
	}
	return content
}
