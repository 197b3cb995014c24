package cage

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
)

// Option changes how a policy is compiled.
type Option func(*compiler)

// Forbidden names paths of kaged's own, existing or not. No policy can grant one of them, or a folder around it. No
// policy can make writable a link that led to one, or the folder of such a link. With the zero Path among them every
// policy is refused.
func Forbidden(paths ...ownpath.Path) Option {
	return func(c *compiler) { c.forbidden = append(c.forbidden, paths...) }
}

// Compile resolves policy for the project at root, an absolute folder whose own links are followed.
// It reads the file system once. Each granted path must exist and be a file or a folder reached
// without links, so that it has one name inside and outside the cage. Compile fails with
// cage_policy_invalid and the detail "field", such as cage.fs[2].path, if a path is missing,
// relative, a link or behind one, of another kind, or never grantable; the message begins with the
// source position, or with the field if the position is unknown.
//
// Callers that act on the view later check again, on descriptors: files change.
func Compile(policy *dsl.Cage, root string, options ...Option) (*View, error) {
	c := &compiler{
		policy: policy, grants: map[string]Grant{}, asked: map[spelling]bool{}, written: map[string]string{},
		gits: map[string]bool{}, around: map[string]bool{}, found: map[Found]bool{},
		repositories: map[string]repository{},
	}
	for _, o := range options {
		o(c)
	}
	if err := c.open(root); err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.paths(); err != nil {
		return nil, err
	}
	c.named = maps.Clone(c.grants)
	if err := c.protect(); err != nil {
		return nil, err
	}
	c.findSockets()
	v := &View{
		Root: c.root, Relaxed: policy.Seccomp == "relaxed", Capabilities: slices.Clone(policy.Capabilities),
		Persistent: policy.State == "persistent", Env: maps.Clone(policy.Env), Limits: policy.Limits, Partial: c.partial,
		GitReadOnly: policy.GitReadOnly(), Found: c.stamps(), Sockets: c.live, PartialSockets: c.partialSockets,
	}
	for _, path := range slices.Sorted(maps.Keys(c.grants)) {
		v.Grants = append(v.Grants, c.grants[path])
	}
	for i, text := range policy.Net {
		rule, err := ParseRule(text)
		if err != nil {
			return nil, invalid(entry{field: fmt.Sprintf("cage.net.allow[%d]", i)}, "%v.", err)
		}
		if !slices.ContainsFunc(v.Net, func(r Rule) bool { return r.String() == rule.String() }) {
			v.Net = append(v.Net, rule)
		}
	}
	return v, nil
}

// compiler builds one view.
type compiler struct {
	policy    *dsl.Cage
	forbidden []ownpath.Path
	root      string
	rootFD    int               // of root
	systemFD  int               // of /
	named     map[string]Grant  // grants of the policy, by path
	grants    map[string]Grant  // grants of the policy and added ones
	asked     map[spelling]bool // whether the policy asks to write a path, by spelling
	written   map[string]string // where the policy's grants are written
	gits      map[string]bool   // git folders already read, alone and, after a NUL, with a work tree
	around    map[string]bool   // folders with a repository that the cage cannot write
	// repositories are the configurations read by repositoryOf
	repositories map[string]repository
	pins         []string
	fixed        []string // folders that no other may replace, although nothing in them is read-only
	found        map[Found]bool

	memory     *Memory // may be nil
	recallOnly bool
	sockets    bool // whether to look for sockets
	live       []string
	ofUser     []placedSetting // git configuration of the user, nil before it is read

	partial, partialSockets bool
	buffer                  []byte // buffer of list
}

// spelling is one of the two ways in which a policy writes a path: relative to the project, or absolute.
type spelling struct {
	path      string
	inProject bool
}

// entry is a value of a policy: its field, such as cage.fs[2].path, and where it is written, as in [dsl.Mount].
type entry struct{ field, at string }

func invalid(e entry, format string, args ...any) *fault.Error {
	return fault.New(fault.CagePolicyInvalid, "%s: %s", cmp.Or(e.at, e.field), fmt.Sprintf(format, args...)).
		With("field", e.field)
}

func (c *compiler) open(root string) error {
	e := entry{field: "project_root"}
	if !filepath.IsAbs(root) || strings.ContainsRune(root, 0) {
		return invalid(e, "The project's root %q is not an absolute path.", root)
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return invalid(e, "There is no folder at the project's root %s.", root)
	}
	c.root = real
	if c.systemFD, err = unix.Open("/", beneath.Path|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return invalid(e, "The file system cannot be opened: %v.", err)
	}
	c.rootFD, err = unix.Open(real, beneath.Path|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(c.systemFD)
		return invalid(e, "The project's root %s cannot be opened: %v.", root, err)
	}
	return nil
}

func (c *compiler) close() {
	unix.Close(c.rootFD)
	unix.Close(c.systemFD)
}

// paths resolves the granted paths of the policy.
func (c *compiler) paths() error {
	for i, m := range c.policy.FS {
		field := fmt.Sprintf("cage.fs[%d]", i)
		if m.Mode != "ro" && m.Mode != "rw" {
			return invalid(entry{field + ".mode", m.At}, "The mode is %q; it is ro or rw.", m.Mode)
		}
		g, err := c.resolve(entry{field + ".path", m.At}, m.Path)
		if err != nil {
			return err
		}
		if g.Writable = m.Mode == "rw"; g.Writable {
			if err := c.writable(entry{field + ".path", m.At}, m.Path, g.Path); err != nil {
				return err
			}
		}
		_, inProject := dsl.InProject(m.Path)
		c.grants[g.Path], c.written[g.Path], c.asked[spelling{g.Path, inProject}] = g, m.At, g.Writable
	}
	return c.readOnly()
}

// readOnly makes paths read-only that an ancestor agent may only read and that this policy grants in the other spelling
// only. Paths of one spelling are compared earlier; see [dsl.Narrow].
func (c *compiler) readOnly() error {
	for i, place := range c.policy.ReadOnly {
		name, e := place.Path, entry{fmt.Sprintf("cage.read_only[%d]", i), place.At}
		g, err := c.resolve(e, name)
		if err != nil {
			if _, base, rel, err := c.place(e, name); err == nil && !c.holder(filepath.Join(base, rel)).Writable {
				continue
			}
			return err
		}
		_, inProject := dsl.InProject(name)
		for _, path := range slices.Sorted(maps.Keys(c.grants)) {
			other := c.grants[path]
			if Below(path, g.Path) && !c.asked[spelling{path, inProject}] && !c.writableBetween(g.Path, path, inProject) {
				other.Writable = false
				c.grants[path] = other
			}
		}
		if _, known := c.grants[g.Path]; !known && c.holder(g.Path).Writable {
			c.grants[g.Path], c.asked[spelling{g.Path, inProject}] = g, false
		}
	}
	return nil
}

// writableBetween reports whether a writable grant that lies in dir, and is written in the given way, holds path.
func (c *compiler) writableBetween(dir, path string, inProject bool) bool {
	for at := filepath.Dir(path); at != dir && Below(at, dir); at = filepath.Dir(at) {
		if asked, ok := c.asked[spelling{at, inProject}]; ok {
			return asked && c.grants[at].Writable
		}
	}
	return false
}

// resolve finds the file or folder that a policy names.
func (c *compiler) resolve(e entry, name string) (Grant, error) {
	at, base, rel, err := c.place(e, name)
	if err != nil {
		return Grant{}, err
	}
	path := filepath.Join(base, rel)
	if err := c.grantable(e, name, path); err != nil {
		return Grant{}, err
	}
	var st unix.Stat_t
	fd, err := beneath.Open(at, rel, beneath.Path|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
	}
	if err != nil {
		return Grant{}, unreachable(e, name, path, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return Grant{Path: path, Dir: true}, nil
	case unix.S_IFREG:
		return Grant{Path: path}, nil
	}
	return Grant{}, invalid(e, "%s is %s; only files and folders can be granted.", name, kindOf(uint32(st.Mode)))
}

// place splits a path of a policy into an open folder and the rest of the path below it.
func (c *compiler) place(e entry, name string) (at int, base, rel string, err error) {
	at, base, rel = c.rootFD, c.root, ""
	if rest, ok := dsl.InProject(name); ok {
		rel = rest
	} else if rel, ok = strings.CutPrefix(name, "/"); ok {
		at, base = c.systemFD, "/"
	} else {
		return 0, "", "", invalid(e, "%q is relative; write project:/%s for the project's, or an absolute path.", name, name)
	}
	rel = strings.TrimSuffix(rel, "/")
	if rel == "" {
		return at, base, ".", nil
	}
	for part := range strings.SplitSeq(rel, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsRune(part, 0) {
			return 0, "", "", invalid(e, "%q has an element that is empty, . or ..; write the path without.", name)
		}
	}
	return at, base, rel, nil
}

// grantable refuses paths that no policy may grant.
func (c *compiler) grantable(e entry, name, path string) error {
	if path == "/" {
		return invalid(e, "%s is the whole file system, which cannot be granted; name the folders that are needed.", name)
	}
	for _, s := range dsl.Ungrantable {
		if Below(path, s) {
			return invalid(e, "%s lies in %s, which cannot be granted; a cage has its own.", path, s)
		}
	}
	for _, own := range c.forbidden {
		switch f := own.String(); {
		case own.IsZero():
			return fault.New(fault.Internal, "A path of kaged's own is unknown, so no cage can be kept out of it.")
		case Below(path, f):
			return invalid(e, "%s belongs to kaged itself (%s), which no agent can be granted.", path, f)
		case Below(f, path):
			return invalid(e, "%s holds %s, which belongs to kaged itself and which no agent can be granted; grant the "+
				"folders below it that are needed.", name, f)
		}
	}
	return nil
}

// writable refuses paths by which an agent could redirect the next start of kaged.
func (c *compiler) writable(e entry, name, path string) error {
	for _, own := range c.forbidden {
		for _, link := range own.Links() {
			if Below(link, path) {
				return invalid(e, "%s holds %s, a link by which kaged finds %s of its own, so it cannot be writable; grant it "+
					"ro, or name kaged's file without the link.",
					name, link, own)
			}
		}
	}
	return nil
}

// unreachable gives the reason why a path could not be opened and, for a link, the path to write in
// its place.
func unreachable(e entry, name, path string, cause error) error {
	part := ""
	for element := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		part += "/" + element
		var st unix.Stat_t
		if err := unix.Lstat(part, &st); err == unix.ENOENT || err == unix.ENOTDIR {
			return invalid(e, "There is nothing at %s; make it, or leave it out of the cage.", name)
		} else if err != nil {
			return invalid(e, "%s cannot be looked at: %v.", part, err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return invalid(e, "%s is a link; a cage grants real paths: write %s.", part, real)
		}
		return invalid(e, "%s is a link that leads nowhere.", part)
	}
	return invalid(e, "%s cannot be opened: %v.", name, cause)
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	case unix.S_IFLNK:
		return "a link"
	}
	return "of an unknown kind"
}
