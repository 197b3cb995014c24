package dsl

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Excess is a request of a cage beyond its parent's cage.
type Excess struct {
	// Field is the position in the cage block, such as fs[2], net.allow[0] or limits.memory.
	Field string
	// Message is one sentence about the parent's grant.
	Message string
}

// Narrow returns the cage of child below an agent with the cage parent, and the child's requests beyond it, in the
// order of the block. Its unset keys come from the parent: limits, git, and the read-only paths in its writable
// folders. If there is an excess, the result is meaningless. Neither argument is changed.
//
// Paths are compared as written: Narrow does not know whether project:/src lies in /home/me/project. A child's request
// must therefore lie in a parent's grant of the same spelling. The parent's read-only paths of the other spelling
// become the child's ReadOnly, which takes effect if they lie in the child's folders.
func Narrow(parent, child *Cage) (*Cage, []Excess) {
	n := narrowing{parent: parent, child: child, out: child.clone()}
	for i, m := range child.FS {
		n.mount(i, m)
	}
	n.inherit()
	n.net()
	n.rights()
	n.limits()
	return n.out, n.excess
}

type narrowing struct {
	parent, child, out *Cage
	excess             []Excess
}

func (n *narrowing) report(field, format string, args ...any) {
	n.excess = append(n.excess, Excess{field, fmt.Sprintf(format, args...)})
}

// mount compares one granted path with the parent's.
func (n *narrowing) mount(i int, m Mount) {
	field := "fs[" + strconv.Itoa(i) + "]"
	holder, ok := decides(n.parent.FS, m.Path)
	switch {
	case !ok && len(n.parent.FS) == 0:
		n.report(field, "The agent above may see no files, so this one cannot see %s.", m.Path)
	case !ok:
		n.report(field, "The agent above may not see %s; it may %s.", m.Path, mountWords(n.parent.FS))
	case m.Mode == "rw" && holder.Mode != "rw":
		n.report(field, "The agent above may only read %s, so this one cannot write %s.", holder.Path, m.Path)
	case m.Mode == "rw" && n.parent.GitReadOnly() && isInGit(m.Path):
		n.report(field, "The agent above has git: read_only, so this one cannot write %s.", m.Path)
	case m.Mode == "rw":
		if part, ok := innermostProtected(canonical(m.Path)); ok && !within(canonical(holder.Path), part) {
			n.report(
				field,
				"The agent above cannot write %s, where tools outside the cage find code to run: its own cage names only %s.",
				m.Path,
				holder.Path,
			)
		}
	}
}

// inherit adds the parent's read-only paths inside the child's writable folders. A path inside the parent's writable
// folders is the child's if the child names it.
func (n *narrowing) inherit() {
	for i, p := range n.parent.FS {
		if slices.ContainsFunc(n.parent.FS[i+1:], func(m Mount) bool { return canonical(m.Path) == canonical(p.Path) }) {
			continue
		}
		holder, ok := decides(n.child.FS, p.Path)
		if p.Mode == "rw" {
			continue
		}
		if ok && holder.Mode == "rw" && canonical(holder.Path) != canonical(p.Path) {
			n.out.FS = append(n.out.FS, p)
		}
		if slices.ContainsFunc(n.child.FS, func(m Mount) bool { return m.Mode == "rw" && kindOf(m.Path) != kindOf(p.Path) }) {
			n.addReadOnly(Place{p.Path, p.At})
		}
	}
	for _, p := range n.parent.ReadOnly {
		n.addReadOnly(p)
	}
}

func (n *narrowing) addReadOnly(place Place) {
	if !slices.ContainsFunc(n.out.ReadOnly, func(known Place) bool { return known.Path == place.Path }) {
		n.out.ReadOnly = append(n.out.ReadOnly, place)
	}
}

func (n *narrowing) net() {
	allowed := map[string]bool{}
	for _, text := range n.parent.Net {
		allowed[ruleKey(text)] = true
	}
	for i, text := range n.child.Net {
		switch {
		case allowed[ruleKey(text)]:
		case len(allowed) == 0:
			n.report("net.allow["+strconv.Itoa(i)+"]", "The agent above has no network, so this one cannot reach %s.", text)
		default:
			n.report(
				"net.allow["+strconv.Itoa(i)+"]",
				"The agent above cannot reach %s; it can reach %s.",
				text,
				some(n.parent.Net),
			)
		}
	}
}

// ruleKey is the common form of all spellings of a rule.
func ruleKey(text string) string {
	r, err := ParseRule(text)
	if err != nil {
		return text
	}
	return r.String()
}

func (n *narrowing) rights() {
	if n.child.Seccomp == "relaxed" && n.parent.Seccomp != "relaxed" {
		n.report("seccomp", "The agent above has the default system calls, so this one cannot have the relaxed ones.")
	}
	switch {
	case n.child.Git == "":
		n.out.Git = n.parent.Git
	case n.parent.GitReadOnly() && !n.child.GitReadOnly():
		n.report("git", "The agent above has git: read_only, so this one cannot have git: %s.", n.child.Git)
	}
	if n.child.State == "persistent" && n.parent.State != "persistent" {
		n.report("state", "The agent above keeps nothing between its runs, so this one cannot be persistent.")
	}
	for i, name := range n.child.Capabilities {
		switch {
		case slices.Contains(n.parent.Capabilities, name):
		case len(n.parent.Capabilities) == 0:
			n.report(
				"capabilities["+strconv.Itoa(i)+"]",
				"The agent above has no capabilities, so this one cannot have %s.",
				name,
			)
		default:
			n.report(
				"capabilities["+strconv.Itoa(i)+"]",
				"The agent above does not have %s; it has %s.",
				name,
				some(n.parent.Capabilities),
			)
		}
	}
}

func (n *narrowing) limits() {
	p, c, out := n.parent.Limits, n.child.Limits, &n.out.Limits
	out.Memory = limit(n, "memory", p.Memory, c.Memory, func(v int64) string { return Bytes(v) + " of memory" })
	out.CPU = limit(n, "cpu", p.CPU, c.CPU, func(v float64) string { return plain(v) + " cores" })
	out.PIDs = limit(n, "pids", p.PIDs, c.PIDs, func(v int64) string { return strconv.FormatInt(v, 10) + " processes" })
	out.Disk = limit(n, "disk", p.Disk, c.Disk, func(v int64) string { return Bytes(v) + " of disk" })
	out.Walltime = limit(n, "walltime", p.Walltime, c.Walltime, Span)
}

// limit returns the child's limit, or the parent's if the child has none.
func limit[T cmp.Ordered](n *narrowing, name string, parent, child T, words func(T) string) T {
	var none T
	if child == none {
		return parent
	}
	if parent != none && child > parent {
		n.report("limits."+name, "The agent above has at most %s, so this one cannot have %s.", words(parent), words(child))
	}
	return child
}

// decides returns the deepest mount around a path, of equals the last.
func decides(mounts []Mount, path string) (Mount, bool) {
	path = canonical(path)
	best := -1
	for i, m := range mounts {
		if within(path, canonical(m.Path)) && (best < 0 || len(canonical(m.Path)) >= len(canonical(mounts[best].Path))) {
			best = i
		}
	}
	if best < 0 {
		return Mount{}, false
	}
	return mounts[best], true
}

// canonical returns the comparable form of a path: a path of the project begins with project:, another with a slash,
// and no path ends in a slash.
func canonical(path string) string {
	if rest, ok := InProject(path); ok {
		path = "project:/" + rest
	}
	if path = strings.TrimRight(path, "/"); path == "" {
		return "/"
	}
	return path
}

// kindOf distinguishes the two spellings of a path: true means relative to the project.
func kindOf(path string) bool { return strings.HasPrefix(canonical(path), "project:") }

func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/' || dir == "/")
}

func mountWords(mounts []Mount) string {
	words := make([]string, len(mounts))
	for i, m := range mounts {
		words[i] = map[bool]string{true: "write ", false: "read "}[m.Mode == "rw"] + m.Path
	}
	return some(words)
}

// some lists the first entries of a long list.
func some(list []string) string {
	const most = 6
	if len(list) > most {
		return strings.Join(list[:most], ", ") + " and " + strconv.Itoa(len(list)-most) + " more"
	}
	return enumerate(list, "and")
}

// Span formats a duration as in a cage block, such as 1h30m.
func Span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Bytes formats a size as in a cage block: in the unit, binary or decimal, that gives the smallest whole number, so
// that 2GB is not shown as 1953125KiB.
func Bytes(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	text, least := strconv.FormatInt(n, 10)+" bytes", n
	for _, unit := range []string{"TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB"} {
		if size := int64(units[unit]); n >= size && n%size == 0 && n/size < least {
			text, least = strconv.FormatInt(n/size, 10)+unit, n/size
		}
	}
	return text
}
