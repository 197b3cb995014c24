package cage

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
)

// View is a policy made real for one project.
type View struct {
	// Root is the project's folder: absolute, clean, without links.
	Root string
	// Grants are the visible paths, outer before inner, each path once. The deepest grant around a
	// path decides; a path outside all grants is invisible. A cage also shows a read-only system
	// and private folders of its own, which are no grants.
	Grants []Grant
	// Net are the rules of reachable hosts, empty for no network.
	Net []Rule
	// Relaxed allows the system calls that debuggers need.
	Relaxed bool
	// Capabilities are named rights, such as shell.
	Capabilities []string
	// Persistent keeps the files written in the cage's own folders for the agent's next invocation.
	Persistent bool
	// Env are the variables set inside.
	Env map[string]string
	// Limits bound the use of resources; zero sets no limit of its own.
	Limits dsl.Limits
	// GitReadOnly says that all of a repository's folder is read-only.
	GitReadOnly bool
	// Found are the findings in writable folders, by path, as compared by [View.Since].
	Found []Found
	// Sockets are the sockets in granted folders that answer, if they were asked for; see [Sockets].
	Sockets []string
	// PartialSockets says that a read-only folder has more folders than are searched for sockets.
	PartialSockets bool
	// Partial says that a writable folder has more folders than are searched for repositories and projects in it,
	// so that files may be left unprotected that lie deep inside.
	Partial bool
}

// Grant is a path that can be seen in a box, where it is outside.
type Grant struct {
	// Path is absolute, clean and without links.
	Path string
	// Writable allows changes.
	Writable bool
	// Dir says that it is a folder, with everything in it; else it is one file.
	Dir bool
	// Protected says that no policy asked for it: it lies in a writable grant and makes tools outside the box run code.
	Protected bool
	// Missing marks a protected path that does not exist. While the cage lives a stub of that kind
	// stands at its place, if one can be made there; where kaged cannot make one, the cage cannot
	// make the file either. Other cages protect the stub like an existing file, and it stays as
	// long as one of them lives.
	Missing bool
	// Stub is the content of the stub of a missing file.
	Stub string
	// Pinned is a writable folder that is only listed because a protected path lies in it: it must be a mount of
	// its own, so that it cannot be renamed away, the protected path with it, and another made in its place.
	Pinned bool
}

// Rule is one entry of net.allow.
type Rule = dsl.Rule

// ParseRule reads an entry of net.allow; see [dsl.ParseRule].
func ParseRule(text string) (Rule, error) { return dsl.ParseRule(text) }

// Excess is a right that a cage asks for and the one above it lacks.
type Excess = dsl.Excess

// Narrow returns the rights child asks for beyond parent, the cage of the agent above; a valid
// child has none. [dsl.Narrow] also gives the narrowed child.
func Narrow(parent, child *dsl.Cage) []Excess {
	_, excess := dsl.Narrow(parent, child)
	return excess
}

// Below reports whether p is dir or inside it. Both are absolute, clean and without links.
func Below(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// Find returns the grant that decides about a path, absolute and without links, and false if it cannot be seen.
func (v *View) Find(real string) (Grant, bool) {
	best := -1
	for i, g := range v.Grants {
		if (real == g.Path || g.Dir && Below(real, g.Path)) && (best < 0 || len(g.Path) >= len(v.Grants[best].Path)) {
			best = i
		}
	}
	if best < 0 {
		return Grant{}, false
	}
	return v.Grants[best], true
}

// Reserved reports whether a path contains a protected name that no grant of the policy names, in
// any folder, and returns the path up to that name. File tools do not write there. Commands in a
// cage may, where the name has no stub; the path is reported when the cage ends.
func (v *View) Reserved(real string) (string, bool) {
	holder := ""
	for _, g := range v.Grants {
		if !g.Protected && !g.Pinned && (real == g.Path || g.Dir && Below(real, g.Path)) && len(g.Path) >= len(holder) {
			holder = g.Path
		}
	}
	if holder == "" || real == holder {
		return "", false
	}
	rel := strings.TrimPrefix(real[len(holder):], "/")
	part, ok := dsl.ProtectedPart(rel)
	if !ok {
		part, ok = v.reservedGit(holder, rel)
	}
	return filepath.Join(holder, part), ok
}

// reservedGit finds a .git in a path that is no folder with a repository in it, or is spelled otherwise.
func (v *View) reservedGit(holder, rel string) (string, bool) {
	at := holder
	for element := range strings.SplitSeq(rel, "/") {
		at = filepath.Join(at, element)
		if dsl.FoldName(element) != ".git" {
			continue
		}
		if element != ".git" || v.GitReadOnly || kind(at) != unix.S_IFDIR || kind(filepath.Join(at, "HEAD")) == 0 {
			return strings.TrimPrefix(at[len(holder):], "/"), true
		}
	}
	return "", false
}

// Writes reports whether the grants allow making new files.
func (v *View) Writes() bool {
	return slices.ContainsFunc(v.Grants, func(g Grant) bool { return g.Writable && g.Dir })
}

// Allows reports whether a path, absolute and without links, can be read, or also written where write is set. Of a
// path that is not there yet it says whether it may be made.
func (v *View) Allows(real string, write bool) bool {
	g, ok := v.Find(real)
	return ok && (g.Writable || !write)
}
