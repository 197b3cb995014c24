package dsl

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Access is the kind of access to a path.
type Access int

// The kinds of access, each including the preceding ones.
const (
	NoAccess Access = iota
	ReadAccess
	WriteAccess
)

// String returns the mode as written in a cage block, "" for no access.
func (a Access) String() string { return [...]string{"", "ro", "rw"}[a] }

// Difference is a grant of one cage that another lacks. From may be "".
type Difference struct {
	// Key is the key of the cage block, such as fs, net.allow or limits.memory.
	Key      string
	From, To string
}

// Wider returns the grants of to beyond from, for the project in the folder root, in the order of the block: an empty
// list means that to permits no more than from. A nil cage grants all access.
//
// Paths are compared lexically, those of the project as paths below root, because a cage reaches its grants without
// links. Doubtful cases count as wider: a changed variable, and a grant that names a protected path.
func Wider(root string, from, to *Cage) []Difference {
	switch {
	case from == nil:
		return nil
	case to == nil:
		return []Difference{{"", from.Summary(), "disabled"}}
	}
	w := widening{root: root, from: from, to: to, before: from.grants(root), after: to.grants(root)}
	w.paths()
	w.net()
	w.rights()
	w.env()
	w.limits()
	return w.found
}

type widening struct {
	root          string
	from, to      *Cage
	before, after grants
	found         []Difference
}

func (w *widening) add(key, from, to string) { w.found = append(w.found, Difference{key, from, to}) }

// paths compares the grants of both cages for each path that either names. The deepest name around a path decides about
// it, so these represent all paths.
func (w *widening) paths() {
	named := map[string]string{}
	for _, c := range []*Cage{w.from, w.to} {
		for _, m := range c.FS {
			named[absolutePath(w.root, m.Path)] = m.Path
		}
		for _, p := range c.ReadOnly {
			named[absolutePath(w.root, p.Path)] = p.Path
		}
	}
	for _, at := range slices.Sorted(maps.Keys(named)) {
		before, after := w.before.access(at), w.after.access(at)
		switch {
		case after > before:
			w.add("fs", words(before, named[at]), words(after, named[at]))
		case after == WriteAccess && w.to.unprotects(w.root, at) &&
			!(before == WriteAccess && w.from.unprotects(w.root, at)):
			w.add("fs", words(before, named[at])+", protected", words(after, named[at]))
		}
	}
}

func words(a Access, path string) string {
	if a == NoAccess {
		return ""
	}
	return a.String() + " " + path
}

// Access returns the cage's access to a path, absolute or relative to the project in the folder root, without regard to
// protected names.
func (c *Cage) Access(root, path string) Access {
	return c.grants(root).access(absolutePath(root, path))
}

// grants maps each granted path in absolute form to the access there.
type grants map[string]Access

// access returns the access of the deepest grant around a path.
func (g grants) access(at string) Access {
	for ; ; at = path.Dir(at) {
		if access, ok := g[at]; ok || at == "/" {
			return access
		}
	}
}

// grants returns the grants of the policy after its ReadOnly paths took effect, as pkg/cage compiles them.
func (c *Cage) grants(root string) grants {
	type spelling struct {
		path      string
		inProject bool
	}
	g, asked := grants{}, map[spelling]Access{}
	for _, m := range c.FS {
		at, access := absolutePath(root, m.Path), ReadAccess
		if m.Mode == "rw" {
			access = WriteAccess
		}
		g[at], asked[spelling{at, kindOf(m.Path)}] = access, access
	}
	// writableBetween reports whether a writable grant of the given spelling in dir holds the path.
	writableBetween := func(dir, at string, inProject bool) bool {
		for at = path.Dir(at); at != dir && within(at, dir); at = path.Dir(at) {
			if access, ok := asked[spelling{at, inProject}]; ok {
				return access == WriteAccess && g[at] == WriteAccess
			}
		}
		return false
	}
	for _, p := range c.ReadOnly {
		dir, inProject := absolutePath(root, p.Path), kindOf(p.Path)
		for _, at := range slices.Sorted(maps.Keys(g)) {
			if within(at, dir) && asked[spelling{at, inProject}] != WriteAccess && !writableBetween(dir, at, inProject) {
				g[at] = ReadAccess
			}
		}
		if _, known := g[dir]; !known && g.access(dir) == WriteAccess {
			g[dir], asked[spelling{dir, inProject}] = ReadAccess, ReadAccess
		}
	}
	return g
}

// unprotects reports whether a writable grant names a path that may be protected, or a path around one.
func (c *Cage) unprotects(root, at string) bool {
	return slices.ContainsFunc(c.FS, func(m Mount) bool {
		holder := absolutePath(root, m.Path)
		return m.Mode == "rw" && within(at, holder) && MayBeProtected(strings.TrimPrefix(holder, root))
	})
}

// MayBeProtected reports whether a path leads to or into a file that stays read-only in every cage unless its policy
// names it: a name of [ProtectedNames], a part of .git that makes git run code, or any hidden file. It does not read
// the file system, so it also reports some unprotected paths.
func MayBeProtected(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		part = FoldName(part)
		hidden := strings.HasPrefix(part, ".") && part != "."
		if hidden || strings.HasSuffix(part, ".git") || slices.Contains(ProtectedGit, part) || len(ProtectedBelow(part)) > 0 {
			return true
		}
	}
	return false
}

// absolutePath returns a cage's path in absolute form.
func absolutePath(root, p string) string {
	if rest, ok := InProject(p); ok {
		return path.Join(root, rest)
	}
	return path.Clean(p)
}

func (w *widening) net() {
	known := map[string]bool{}
	for _, text := range w.from.Net {
		known[ruleKey(text)] = true
	}
	for _, text := range w.to.Net {
		if !known[ruleKey(text)] {
			w.add("net.allow", "", text)
		}
	}
}

func (w *widening) rights() {
	if w.to.SystemCalls() == "relaxed" && w.from.SystemCalls() != "relaxed" {
		w.add("seccomp", w.from.SystemCalls(), "relaxed")
	}
	for _, name := range w.to.Capabilities {
		if !slices.Contains(w.from.Capabilities, name) {
			w.add("capabilities", "", name)
		}
	}
	if w.from.GitReadOnly() && !w.to.GitReadOnly() {
		w.add("git", GitReadOnly, GitWritable)
	}
	if w.to.State == "persistent" && w.from.State != "persistent" {
		w.add("state", "ephemeral", "persistent")
	}
}

// env counts every new or changed variable, because variables change the behaviour of programs.
func (w *widening) env() {
	for _, name := range slices.Sorted(maps.Keys(w.to.Env)) {
		before, known := w.from.Env[name]
		switch after := name + "=" + w.to.Env[name]; {
		case !known:
			w.add("env", "", after)
		case before != w.to.Env[name]:
			w.add("env", name+"="+before, after)
		}
	}
}

func (w *widening) limits() {
	from, to := w.from.Limits, w.to.Limits
	raised(w, "memory", from.Memory, to.Memory, Bytes)
	raised(w, "disk", from.Disk, to.Disk, Bytes)
	raised(w, "cpu", from.CPU, to.CPU, plain)
	raised(w, "pids", from.PIDs, to.PIDs, func(n int64) string { return strconv.FormatInt(n, 10) })
	raised(w, "walltime", from.Walltime, to.Walltime, func(d time.Duration) string { return Span(d) })
}

// raised adds a limit that is higher than before or removed; zero means no limit.
func raised[T cmp.Ordered](w *widening, name string, from, to T, words func(T) string) {
	var none T
	switch {
	case from == none:
	case to == none:
		w.add("limits."+name, words(from), "none")
	case to > from:
		w.add("limits."+name, words(from), words(to))
	}
}
