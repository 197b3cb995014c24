// Package ownpath holds the paths of kaged's own files: the data directory, the configuration, sockets and tokens.
//
// A cage hides such a file by comparing paths, and a path that is relative or leads through a link would not match. A
// [Path] is absolute and without links; [Resolve] is the only way to make one.
package ownpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is the maximum number of links in one path, as in Linux.
const maxLinks = 40

// Path is a path of kaged's own: absolute, clean, and without links when it was resolved. The zero Path is invalid, and
// functions that hide or compare paths refuse it.
type Path struct {
	at    string
	links []string
	left  []string
}

// Resolve returns the real path of name; a relative name begins at the working folder. It follows links, dangling ones
// included, so that the result is also valid for a missing file. It fails if name is empty, holds a NUL, leads through
// a file, through an unreadable folder, or through a cycle of links. config.Resolve converts its errors to faults.
func Resolve(name string) (Path, error) {
	if name == "" || strings.ContainsRune(name, 0) {
		return Path{}, fmt.Errorf("the path %q is empty or holds a NUL; name a file or a folder", name)
	}
	abs, err := absolute(name)
	if err != nil {
		return Path{}, fmt.Errorf("the path %s is relative, and the working folder is gone; write it from / on", name)
	}
	p, err := follow(abs)
	if err != nil {
		return Path{}, fmt.Errorf("the path %s leads nowhere: %s", name, reason(err))
	}
	return p, nil
}

// absolute joins a relative name to the working folder. It keeps "..", which means the parent of a link's target.
func absolute(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	dir, err := os.Getwd()
	return dir + "/" + name, err
}

var errRing = errors.New("there are too many links on the way")

// reason is the cause of a failed resolution, without the name of the system call.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Path + ": " + p.Err.Error()
	}
	return err.Error()
}

// follow walks an absolute name component by component.
func follow(name string) (Path, error) {
	p := Path{at: "/"}
	rest := strings.Split(name, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			p.left = append(p.left, p.at)
			p.at = filepath.Dir(p.at)
			continue
		}
		next := filepath.Join(p.at, part)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			p.at = next
			continue
		case err != nil:
			return Path{}, err
		case info.Mode()&fs.ModeSymlink == 0:
			if !info.IsDir() && len(rest) > 0 {
				return Path{}, &fs.PathError{Op: "open", Path: next, Err: errors.New("not a folder")}
			}
			p.at = next
			continue
		}
		if p.links = append(p.links, next); len(p.links) > maxLinks {
			return Path{}, errRing
		}
		target, err := os.Readlink(next)
		if err != nil {
			return Path{}, err
		}
		if filepath.IsAbs(target) {
			p.at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return p, nil
}

// String returns the path, "" for the zero Path.
func (p Path) String() string { return p.at }

// IsZero reports whether p is the zero Path.
func (p Path) IsZero() bool { return p.at == "" }

// Join returns a path below p. It panics for the zero Path, because the result would be relative.
func (p Path) Join(elem ...string) string {
	if p.IsZero() {
		panic("ownpath: a path below none")
	}
	return filepath.Join(append([]string{p.at}, elem...)...)
}

// Below reports whether p is dir or lies in it. No path is below the zero Path.
func (p Path) Below(dir Path) bool {
	return !dir.IsZero() && (p.at == dir.at || strings.HasPrefix(p.at, strings.TrimSuffix(dir.at, "/")+"/"))
}

// Links returns the followed links, each with a real path except for its last component. If such a link is writable, it
// can redirect the next start to another file.
func (p Path) Links() []string { return p.links }

// Left returns the folders that the name entered and left again by "..". If such a folder is replaced by a link, the
// name leads elsewhere.
func (p Path) Left() []string { return p.left }

// MarshalJSON encodes the path. It fails for the zero Path.
func (p Path) MarshalJSON() ([]byte, error) {
	if p.IsZero() {
		return nil, errors.New("ownpath: no place")
	}
	return json.Marshal(p.at)
}

// UnmarshalJSON decodes the output of [Path.MarshalJSON]: a path resolved in another process. It fails for a path that
// is not absolute and clean.
func (p *Path) UnmarshalJSON(data []byte) error {
	var at string
	if err := json.Unmarshal(data, &at); err != nil {
		return err
	}
	if !filepath.IsAbs(at) || filepath.Clean(at) != at || strings.ContainsRune(at, 0) {
		return fmt.Errorf("the path %q of kaged's own is not absolute and clean", at)
	}
	p.at, p.links, p.left = at, nil, nil
	return nil
}
