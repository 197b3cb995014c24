package paths

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/fault"
)

// Rules are the operator's boundaries.
type Rules struct {
	// Allowed are folders outside the project that tools may reach, absolute or starting with ~/.
	Allowed []string
	// Denied are paths and doublestar patterns that no tool may reach, nor any path below them;
	// they win over all grants. A relative one is relative to the project's root. They denote real
	// places: the part before the first component with a * ? [ or { is followed through links, and
	// the rest is matched with the paths below. One with a [ or { denies the path of that very name
	// too.
	Denied []string
	// Home is the value of ~, absolute, or ""; see [Rules.Check].
	Home string
	// Within is the folder that projects are in, "" where a project may be anywhere. It counts after links.
	Within string
}

// Space is where the tools of one project may reach. It holds descriptors; close it. It is safe for concurrent use.
type Space struct {
	project *Root
	given   string // the project's root as it was given, cleaned
	allowed []*Root
	denied  []denial
}

// Root is an open folder that paths are relative to: the project's, or an allowed one.
type Root struct {
	path string // absolute, without links
	fd   int
}

// OpenRoot opens a folder by its absolute path. The root's own path is without links. The caller closes it.
func OpenRoot(name string) (*Root, error) {
	// One system call for a name without links.
	if fd, err := beneath.OpenReal(name, beneath.Path|unix.O_DIRECTORY|unix.O_CLOEXEC); err == nil {
		return &Root{filepath.Clean(name), fd}, nil
	}
	fd, err := openFolder(name, 0)
	if err != nil {
		return nil, err
	}
	// The open folder is asked for its path: that is one system call for any length, and no link
	// can change in between.
	if real := whereIs(fd); real != "" {
		return &Root{real, fd}, nil
	}
	unix.Close(fd)
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	if fd, err = openFolder(real, unix.O_NOFOLLOW); err != nil {
		return nil, err
	}
	return &Root{real, fd}, nil
}

// Path returns the folder's absolute path without links.
func (r *Root) Path() string { return r.path }

// FD returns the folder's descriptor. It is closed with the root or its space.
func (r *Root) FD() int { return r.fd }

// At returns the path with this name below the root: without links and relative, "." for the root itself.
func (r *Root) At(rel string) Path { return Path{root: r, Rel: rel, Show: Show(rel)} }

// Close closes the descriptor.
func (r *Root) Close() { unix.Close(r.fd) }

// Open returns the space of the project at root, an absolute folder. It fails with not_found if root is no folder.
// Allowed folders that do not exist are left out.
func Open(projectRoot string, rules Rules) (*Space, error) {
	if !filepath.IsAbs(projectRoot) {
		return nil, fault.New(fault.NotFound, "The project's root %q is not an absolute path.", projectRoot)
	}
	project, err := OpenRoot(projectRoot)
	if err != nil {
		return nil, fault.Wrap(err, fault.NotFound, "There is no folder at the project's root %s.", projectRoot)
	}
	if !rules.holds(project.path) {
		project.Close()
		return nil, fault.New(fault.NotFound, "There is no folder at the project's root %s.", projectRoot)
	}
	s := &Space{project: project, given: filepath.Clean(projectRoot), denied: denials(rules, project.path)}
	for _, name := range rules.Allowed {
		start, rest, known := rules.anchor(name, project.path)
		if !known {
			continue
		}
		if extra, err := OpenRoot(filepath.Join(start, rest)); err == nil {
			s.allowed = append(s.allowed, extra)
		}
	}
	return s, nil
}

// holds reports whether a project may be at a folder without links.
func (r Rules) holds(folder string) bool {
	if r.Within == "" {
		return true
	}
	within, err := filepath.EvalSymlinks(r.Within)
	if err != nil {
		return false
	}
	return strings.HasPrefix(folder, within+"/")
}

func openFolder(name string, flags int) (int, error) {
	fd, err := beneath.Retry(
		func() (int, error) { return unix.Open(name, beneath.Path|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0) },
	)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// Close releases the space's descriptors; its paths cannot be used any more.
func (s *Space) Close() {
	for _, r := range append([]*Root{s.project}, s.allowed...) {
		r.Close()
	}
}

// Root returns the project's root with every link resolved.
func (s *Space) Root() string { return s.project.path }

// Path is a place inside a space. It is only as true as the moment it was resolved; the operations on it check again.
type Path struct {
	root *Root
	// Rel is the path below its root without links, "." for the root itself.
	Rel string
	// Show is how results name it: ./ and the path as it was asked for, or absolute outside the project.
	Show string
	// Exists reports whether the path exists, Mode its kind.
	Exists bool
	Mode   fs.FileMode
	// Linked says that the name as it was asked for is that of a link, which leads to Rel.
	Linked bool
	// InPlace marks a file that has to be changed in place, and can neither be removed nor moved,
	// because it is held itself and not by its name, as by the mount of a cage that grants this
	// very file.
	InPlace bool
}

// Root returns the folder that the path is relative to.
func (p Path) Root() *Root { return p.root }

// Abs returns the absolute path without links.
func (p Path) Abs() string { return filepath.Join(p.root.path, p.Rel) }

// Below reports whether p is dir or inside it. Both are absolute and without links.
func Below(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// maxPath bounds the text of a path in bytes; Linux takes no longer one either.
const maxPath = 4096

// Resolve finds the real place of name, which is relative to the project's root, or absolute. A
// path that ends outside the space, links followed, is refused with invalid_params and a message
// that names the place; a denied one with capability_denied. field names the parameter for the
// details. A missing path resolves below its deepest existing folder.
func (s *Space) Resolve(field, name string) (Path, error) {
	switch {
	case name == "":
		return Path{}, refuse(field, name, "The path in %s is empty.", field)
	case strings.ContainsRune(name, 0) || len(name) > maxPath:
		return Path{}, refuse(field, "", "The path in %s is longer than %d bytes or holds a NUL.", field, maxPath)
	}
	start, rest := s.start(name)
	found, err := walk(start, rest)
	if err != nil {
		return Path{}, refuse(field, name, "The path %s cannot be resolved: %s.", name, Reason(err))
	}
	if d := s.denies(found.path); d != nil {
		return Path{}, fault.New(fault.CapabilityDenied, "The operator denies access to %s.", name).
			With("path", name).With("denied_by", d.text)
	}
	for _, r := range append([]*Root{s.project}, s.allowed...) {
		if Below(found.path, r.path) {
			rel, err := filepath.Rel(r.path, found.path)
			if err != nil {
				return Path{}, refuse(field, name, "The path %s cannot be resolved.", name)
			}
			return Path{
				root:   r,
				Rel:    rel,
				Show:   s.show(r, rel, name),
				Exists: found.exists,
				Mode:   found.mode,
				Linked: found.linked,
			}, nil
		}
	}
	return Path{}, refuse(field, name, "The path %s leads to %s, which is outside the project.", name, found.path).
		With("resolved", found.path)
}

func refuse(field, name, format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidParams, format, args...).With("field", field).With("path", name)
}

// start splits a name into a folder known to be real and the rest to be walked from there.
func (s *Space) start(name string) (string, string) {
	if !filepath.IsAbs(name) {
		return s.project.path, name
	}
	for _, known := range [...]string{s.project.path, s.given} {
		if Below(name, known) {
			return s.project.path, strings.TrimPrefix(name[len(known):], "/")
		}
	}
	for _, r := range s.allowed {
		if Below(name, r.path) {
			return r.path, strings.TrimPrefix(name[len(r.path):], "/")
		}
	}
	return "/", name
}

// show returns how results name a place: as it was asked for where that text itself stays inside the project.
func (s *Space) show(r *Root, rel, name string) string {
	if r != s.project {
		return filepath.Join(r.path, rel)
	}
	asked := name
	if filepath.IsAbs(name) {
		asked = rel
		for _, known := range [...]string{s.given, s.project.path} {
			if Below(name, known) {
				asked = strings.TrimPrefix(name[len(known):], "/")
			}
		}
	}
	// Behind a link, ".." is not the parent in the text.
	if clean := path.Clean(asked); filepath.IsLocal(clean) && !slices.Contains(strings.Split(asked, "/"), "..") {
		rel = clean
	}
	return Show(rel)
}

// Show returns how results name a path below the project's root.
func Show(rel string) string {
	if rel == "." {
		return "./"
	}
	return "./" + rel
}

// Join returns the path below p. name is one component or several, without links and without "..", as a walk of the
// tree yields them.
func (p Path) Join(name string) Path {
	show := strings.TrimSuffix(p.Show, "/") + "/" + name
	return Path{root: p.root, Rel: path.Join(p.Rel, name), Show: show, Exists: true}
}
