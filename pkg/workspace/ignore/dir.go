package ignore

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// FileName is the file with the patterns of its folder and all below.
const FileName = ".gitignore"

// RepoName is the entry that makes a folder a repository.
const RepoName = ".git"

// MaxFile is the largest file of patterns that is read, in bytes.
const MaxFile = 1 << 20

// Dir are the rules in one folder of a walk. It is immutable once the folder was entered, and safe
// for concurrent use.
type Dir struct {
	parent *Dir // the folder above in the same repository, nil at its root
	base   int  // how much of a path from the repository's root is this folder, slash included
	path   string
	list   *List // the folder's own .gitignore
	repo   *repo
	out    bool // the folder is ignored; only its tracked files count
}

// repo are the rules of a whole repository.
type repo struct {
	user *User
	rules
	exclude *List // .git/info/exclude
	// tracked returns the names git tracks. They are read when a pattern excludes a name that may
	// be among them.
	tracked func() *index
}

// Start returns the rules in the folder start, where a walk begins. The rules of its repository's
// root, or of top outside of repositories, and of every folder between count too. Both paths are
// absolute and real, and start is at or below top.
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
	d.out = false // an ignored folder that is asked for is shown
	return d
}

func newRoot(dir string, user *User) *Dir {
	own, common := gitDirs(filepath.Join(dir, RepoName))
	r := &repo{user: user, rules: user.rules(dir, common), tracked: func() *index { return nil }}
	if own != "" {
		r.exclude = Parse(readFile(filepath.Join(common, "info", "exclude")), r.fold)
		r.tracked = sync.OnceValue(func() *index { return readIndex(own, r.hash, &user.names) })
	}
	return &Dir{repo: r}
}

// withFile returns d with the patterns of the folder at the real path dir.
func (d *Dir) withFile(dir string) *Dir {
	return d.Enter(readFile(filepath.Join(dir, FileName)))
}

// Child returns the rules in the folder called name, before its own patterns are known.
func (d *Dir) Child(name string) *Dir {
	path := name + "/"
	if d.path != "" {
		path = d.path + path
	}
	return &Dir{parent: d, base: len(path), path: path, repo: d.repo, out: d.out || d.excluded(name, true)}
}

// Enter returns d with the content of the folder's own .gitignore.
func (d *Dir) Enter(content []byte) *Dir {
	list := Parse(content, d.repo.fold)
	if list == nil {
		return d
	}
	with := *d
	with.list = list
	return &with
}

// Repo returns the rules in a folder that is a repository of its own: rules from above do not
// count. dir is its real path. A .git that is not a repository has no effect.
func (d *Dir) Repo(dir string) *Dir {
	if !isRepo(filepath.Join(dir, RepoName)) {
		return d
	}
	return newRoot(dir, d.repo.user)
}

// Ignored reports whether git ignores the entry called name of the folder: a pattern excludes it,
// and neither it nor any path below it is tracked. The entry named .git is always ignored: it is
// not part of the tree.
func (d *Dir) Ignored(name string, isDir bool) bool {
	if name == RepoName {
		return true
	}
	return (d.out || d.excluded(name, isDir)) && !d.repo.tracked().holds(d.path+name, isDir)
}

// excluded reports whether the patterns exclude an entry of the folder.
func (d *Dir) excluded(name string, isDir bool) bool {
	s := subject{dir: d, name: name, isDir: isDir, steps: maxSubject}
	for at := d; at != nil; at = at.parent {
		if v := at.list.match(&s, at.base); v != silent {
			return v == ignored
		}
	}
	if v := d.repo.exclude.match(&s, 0); v != silent {
		return v == ignored
	}
	return d.repo.list.match(&s, 0) == ignored
}

// subject is the name that patterns are matched with. Its path is only built for a pattern that
// needs it.
type subject struct {
	dir   *Dir
	name  string
	isDir bool
	path  string
	steps int // that patterns may still take
}

// from returns the path without the first base bytes of the way from the repository's root to it.
func (s *subject) from(base int) string {
	if s.path == "" {
		s.path = s.dir.path + s.name
	}
	return s.path[base:]
}

// isRepo reports whether the entry at path makes its folder a repository.
func isRepo(path string) bool {
	own, _ := gitDirs(path)
	if own == "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(own, "HEAD"))
	return err == nil || own != path
}

// gitDirs returns the folders of a repository's own data and of the data its work trees share, ""
// if path is no .git.
func gitDirs(path string) (own, common string) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", ""
	case info.IsDir():
		return path, path
	case !info.Mode().IsRegular():
		return "", ""
	}
	// A work tree or a submodule has a file that says where.
	target, ok := bytes.CutPrefix(readFile(path), []byte("gitdir: "))
	if !ok {
		return "", ""
	}
	own = absolute(strings.TrimRight(string(target), "\r\n"), filepath.Dir(path))
	if shared := strings.TrimSpace(string(readFile(filepath.Join(own, "commondir")))); shared != "" {
		return own, absolute(shared, own)
	}
	return own, own
}

func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readFile returns the content of a small regular file, nil if it cannot be had. Like git it does not follow a
// link, and it never waits for a pipe.
func readFile(path string) []byte { return readUpTo(path, MaxFile) }

func readUpTo(path string, limit int64) []byte { return openAndRead(path, unix.O_NOFOLLOW, limit) }

func openAndRead(path string, flags int, limit int64) []byte {
	f, size := open(path, flags, limit)
	return readAll(f, size)
}

// open opens a regular file of at most limit bytes and returns its size; nil if it cannot be had.
func open(path string, flags int, limit int64) (*os.File, int64) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, 0
	}
	return regular(fd, limit)
}

// regular takes over an open file if it is a regular one of at most limit bytes, else it closes it and returns nil.
func regular(fd int, limit int64) (*os.File, int64) {
	f := os.NewFile(uintptr(fd), FileName)
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > limit {
		f.Close()
		return nil, 0
	}
	return f, info.Size()
}

// ReadFD returns the content of an open file if it is a small regular one, and closes it.
func ReadFD(fd int) []byte {
	f, size := regular(fd, MaxFile)
	return readAll(f, size)
}

// readAll returns the content of a file of about size bytes and closes it; a nil file gives nil.
func readAll(f *os.File, size int64) []byte {
	if f == nil {
		return nil
	}
	defer f.Close()
	content := make([]byte, size)
	n, err := io.ReadFull(f, content)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil
	}
	return content[:n]
}

// Repository returns the work tree that a folder is in, the folder of its own data, and that of the data which its
// work trees share; "" outside of repositories. The folder is absolute and real.
func Repository(dir string) (root, own, common string) {
	for {
		if at := filepath.Join(dir, RepoName); isRepo(at) {
			own, common = gitDirs(at)
			return dir, own, common
		}
		if dir == filepath.Dir(dir) {
			return "", "", ""
		}
		dir = filepath.Dir(dir)
	}
}
