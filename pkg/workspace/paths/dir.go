package paths

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Entries returns the entries of an open folder of the space in the order of their names, without
// denied paths and temporary files of writers.
func (s *Space) Entries(folder Path, dir *os.File) ([]fs.DirEntry, error) {
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	at := folder.Abs()
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return IsTemp(e.Name()) || s.Denies() && s.Denied(path.Join(at, e.Name()))
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Info are the facts of a file that a walk needs.
type Info struct {
	Mode fs.FileMode // the type only
	Size int64
	// ModTime is when the content last changed, in nanoseconds since the Unix epoch.
	ModTime int64
	// ChangeTime is when content, name, owner or mode last changed, which no process can set.
	ChangeTime int64
}

// Stat describes the entry called name of an open folder, a link itself and not its target.
func Stat(dir *os.File, name string) (Info, error) { return StatAt(int(dir.Fd()), name) }

// StatAt is [Stat] for a folder known by its descriptor.
func StatAt(dir int, name string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, err
	}
	return Info{Mode: modeOf(uint32(st.Mode)), Size: st.Size, ModTime: st.Mtim.Nano(), ChangeTime: st.Ctim.Nano()}, nil
}

func modeOf(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	}
	return fs.ModeDevice
}
