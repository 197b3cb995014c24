package memories

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"kaged.dev/pkg/workspace/paths"
)

// file is a listed file that may be a note.
type file struct {
	path paths.Path
	info paths.Info
}

// maxDepth is the maximum nesting of folders below memory/, batch the number of a folder's entries read at once.
const (
	maxDepth = 32
	batch    = 1024
)

// list returns the files that may be notes for the caller, up to the limits, and the number of further ones.
func (s *Shelf) list(ctx context.Context, from Caller) ([]file, int, error) {
	root, err := from.Space.Resolve("path", ".")
	if err != nil {
		return nil, 0, err
	}
	l := &lister{Caller: from, ctx: ctx, limits: s.limits}
	top := root.Root()
	if info, err := paths.StatAt(top.FD(), File); err == nil {
		l.add(top.At(File), info)
	}
	if info, err := paths.StatAt(top.FD(), Folder); err == nil && info.Mode.IsDir() {
		l.folder(top.At(Folder), 0)
	}
	return l.files, l.skipped, ctx.Err()
}

type lister struct {
	Caller
	ctx     context.Context
	limits  Limits
	files   []file
	bytes   int64
	skipped int
}

// add adds a file if it is visible to the caller and within the limits.
func (l *lister) add(path paths.Path, info paths.Info) {
	switch {
	case !info.Mode.IsRegular() || !l.sees(path):
	case info.Size > l.limits.FileBytes || len(l.files) >= l.limits.Files || l.bytes+info.Size > l.limits.TotalBytes:
		l.skipped++
	default:
		l.files = append(l.files, file{path, info})
		l.bytes += info.Size
	}
}

func (l *lister) sees(path paths.Path) bool {
	abs := path.Abs()
	return l.Access.Allows(abs, false) && !(l.Space.Denies() && l.Space.Denied(abs))
}

// folder adds the files below a folder sorted by name. An unreadable folder is left out.
func (l *lister) folder(path paths.Path, depth int) {
	abs := path.Abs()
	if depth > maxDepth || !l.Access.Touches(abs) || l.Space.Denies() && l.Space.Denied(abs) {
		return
	}
	fd, err := path.OpenFD()
	if err != nil {
		return
	}
	// By its real path, because reading a folder may look entries up by it.
	dir := os.NewFile(uintptr(fd), abs)
	defer dir.Close()
	for _, e := range l.entries(dir) {
		if l.ctx.Err() != nil {
			return
		}
		switch below := path.Join(e.Name()); {
		case e.IsDir():
			l.folder(below, depth+1)
		case e.Type().IsRegular():
			if info, err := paths.StatAt(fd, e.Name()); err == nil {
				l.add(below, info)
			}
		}
	}
}

// entries returns the entries of a folder sorted by name, without hidden ones and temporary files; of a very large
// folder it returns the first ones in the system's order.
func (l *lister) entries(dir *os.File) []fs.DirEntry {
	var list []fs.DirEntry
	for len(list) <= 2*l.limits.Files && l.ctx.Err() == nil {
		some, err := dir.ReadDir(batch)
		for _, e := range some {
			if !strings.HasPrefix(e.Name(), ".") && !paths.IsTemp(e.Name()) && (e.IsDir() || e.Type().IsRegular()) {
				list = append(list, e)
			}
		}
		if len(some) == 0 || err != nil && !errors.Is(err, io.EOF) {
			break
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}
