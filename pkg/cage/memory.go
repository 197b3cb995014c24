package cage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
)

// Limits of the remembered paths of one project.
const (
	maxKnown      = 1024
	maxKnownBytes = 1 << 20
)

// Memory remembers the paths of repositories and projects found in a project's folders. They stay protected when a
// later search ends before reaching them. Memory stores a file per project in a folder outside of all projects; several
// processes may share the folder. It is safe for concurrent use; a nil Memory remembers no paths.
type Memory struct {
	dir     string // "" keeps the paths in memory only
	indexes indexes

	mu   sync.Mutex // guards kept
	kept map[string]keptKnown
}

// keptKnown is the parsed content of a file, and the file it was read from.
type keptKnown struct {
	file  os.FileInfo
	known []knownPlace
}

// knownPlace is one remembered path.
type knownPlace struct {
	kind FoundKind
	path string
}

// NewMemory returns a memory stored in dir, which is created at the first write.
func NewMemory(dir string) *Memory { return &Memory{dir: dir, kept: map[string]keptKnown{}} }

// Remember also protects the paths found by earlier compilations, and stores the paths found by this one.
func Remember(m *Memory) Option { return func(c *compiler) { c.memory = m } }

// Recall also protects the paths found by earlier compilations, without storing new ones.
func Recall(m *Memory) Option { return func(c *compiler) { c.memory, c.recallOnly = m, true } }

func (m *Memory) path(root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(m.dir, hex.EncodeToString(sum[:16]))
}

// recall returns the remembered paths of the project at root.
func (m *Memory) recall(root string) []knownPlace {
	if m == nil || m.dir == "" {
		return nil
	}
	path := m.path(root)
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxKnownBytes {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if kept, ok := m.kept[root]; ok && os.SameFile(kept.file, info) && kept.file.ModTime().Equal(info.ModTime()) {
		return kept.known
	}
	known := readKnown(path)
	if len(m.kept) >= keptIndexes {
		clear(m.kept)
	}
	m.kept[root] = keptKnown{info, known}
	return known
}

// readKnown reads a file of the memory: pairs of the kind and the path of a place, each followed by a NUL.
func readKnown(path string) (known []knownPlace) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	fields := strings.Split(string(data), "\x00")
	for i := 0; i+1 < len(fields) && len(known) < maxKnown; i += 2 {
		known = append(known, knownPlace{FoundKind(fields[i]), fields[i+1]})
	}
	return known
}

// remember adds found to the remembered paths, within the limits, and drops the paths that no longer exist. It reports
// false if some did not fit.
func (m *Memory) remember(root string, found []knownPlace) (all bool, err error) {
	if m == nil || m.dir == "" || !news(m.recall(root), found) {
		return true, nil
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return false, err
	}
	path := m.path(root)
	lock, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(lock)
	if err := unix.Flock(lock, unix.LOCK_EX); err != nil { // held by another process only while it writes a few kilobytes
		return false, err
	}
	known := slices.DeleteFunc(readKnown(path), func(k knownPlace) bool {
		_, err := os.Lstat(k.path)
		return errors.Is(err, fs.ErrNotExist)
	})
	all = true
	for _, k := range found {
		if slices.Contains(known, k) {
			continue
		}
		if all = all && len(known) < maxKnown; all {
			known = append(known, k)
		}
	}
	var data []byte
	for _, k := range known {
		data = append(append(append(append(data, k.kind...), 0), k.path...), 0)
	}
	if len(data) > maxKnownBytes {
		return false, nil
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return false, err
	}
	return all, os.Rename(temporary, path)
}

// news reports whether found has a path missing in known.
func news(known, found []knownPlace) bool {
	is := make(map[knownPlace]bool, len(known))
	for _, k := range known {
		is[k] = true
	}
	return slices.ContainsFunc(found, func(k knownPlace) bool { return !is[k] })
}

// recalled protects the paths found by earlier compilations.
func (c *compiler) recalled() error {
	for _, k := range c.memory.recall(c.root) {
		if !filepath.IsAbs(k.path) || filepath.Clean(k.path) != k.path || c.reached(k.path) != unix.S_IFDIR {
			continue
		}
		var err error
		switch writable := c.holder(k.path).Writable; {
		case k.kind == KnownFolder && writable:
			err = c.protectFolder(k.path, dsl.NoStub)
		case k.kind == KnownFolder:
			err = c.repositoryIn(k.path)
		case k.kind == FoundRepository && !c.gits[k.path] && c.remains(k.path):
			err = c.protectGit(k.path, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remains reports whether a remembered folder is a repository, or has a part of one that a cage could not remove.
func (c *compiler) remains(dir string) bool {
	return c.isGit(dir) || isRegular(filepath.Join(dir, "config"))
}

// keep stores the paths found by this compilation.
func (c *compiler) keep() {
	if c.memory == nil || c.recallOnly {
		return
	}
	var found []knownPlace
	for f := range c.found {
		if f.Kind == KnownFolder {
			found = append(found, knownPlace{f.Kind, f.Path})
		}
	}
	for dir := range c.gits {
		if !strings.ContainsRune(dir, 0) && c.holder(dir).Writable {
			found = append(found, knownPlace{FoundRepository, dir})
		}
	}
	for dir := range c.around {
		found = append(found, knownPlace{KnownFolder, dir})
	}
	slices.SortFunc(found, func(a, b knownPlace) int { return strings.Compare(a.path, b.path) })
	if all, err := c.memory.remember(c.root, found); err != nil || !all {
		c.partial = true
	}
}
