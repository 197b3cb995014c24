package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links a path may go through, as in the kernel.
const maxLinks = 40

// place is the end of a walk: an absolute path without links, and its kind.
type place struct {
	path   string
	exists bool
	mode   fs.FileMode
	linked bool // the last component was a link
}

// walk follows rest from start, a real folder, link by link. ".." is the parent of the walk's real
// place, as in the kernel. Missing parts are followed as text.
func walk(start, rest string) (place, error) {
	at := place{path: start, exists: true, mode: fs.ModeDir}
	todo, links, linked := components(rest), 0, false
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			at.path = filepath.Dir(at.path)
			at.mode, at.exists = fs.ModeDir, at.exists || isDir(at.path)
			continue
		}
		next := filepath.Join(at.path, name)
		if !at.exists {
			at.path = next
			continue
		}
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			at = place{path: next}
			continue
		case err != nil:
			return at, err
		case info.Mode()&fs.ModeSymlink == 0:
			at = place{path: next, exists: true, mode: info.Mode()}
			continue
		}
		linked = linked || len(todo) == 0
		if links++; links > maxLinks {
			return at, unix.ELOOP
		}
		target, err := os.Readlink(next)
		if err != nil {
			return at, err
		}
		if filepath.IsAbs(target) {
			at = place{path: "/", exists: true, mode: fs.ModeDir}
		}
		todo = append(components(target), todo...)
	}
	at.linked = linked
	return at, nil
}

func isDir(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

// components splits a path without its empty and "." parts.
func components(name string) []string {
	parts := strings.Split(name, "/")
	kept := parts[:0]
	for _, part := range parts {
		if part != "" && part != "." {
			kept = append(kept, part)
		}
	}
	return kept
}

// Reason returns the operating system's message, without the path Go puts around it.
func Reason(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "the operating system refused"
}
