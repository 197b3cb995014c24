package cage

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
)

// View is a policy resolved for one project.
type View struct {
	// Root is the project's folder: absolute, clean, without links.
	Root string
	// Grants are the visible paths, outer before inner, each path once. The deepest grant around a
	// path decides; a path outside all grants is invisible. A cage also shows a read-only system
	// and private folders of its own, which are no grants.
	Grants []Grant
	// Net are the rules of reachable hosts, empty for no network.
	Net []Rule
	// Relaxed permits the system calls of debuggers.
	Relaxed bool
	// Capabilities are named rights, such as shell.
	Capabilities []string
	// Persistent keeps the files written in the cage's own folders for the agent's next invocation.
	Persistent bool
	// Env are the variables set inside.
	Env map[string]string
	// Limits are the cage's resource limits; zero means no limit of the policy.
	Limits dsl.Limits
	// GitReadOnly makes the whole folder of a repository read-only.
	GitReadOnly bool
	// Found are the findings in writable folders, by path, as compared by [View.Since].
	Found []Found
	// Sockets are the answering sockets in granted folders, if the caller asked for them; see [Sockets].
	Sockets []string
	// PartialSockets is true if a read-only folder has too many folders for a complete search for sockets.
	PartialSockets bool
	// Partial is true if a writable folder has too many folders for a complete search for repositories and projects. Files
	// deep inside may then be unprotected.
	Partial bool
}

// Grant is a path that is visible in a cage.
type Grant struct {
	// Path is absolute, clean and without links.
	Path string
	// Writable permits changes.
	Writable bool
	// Dir is true for a folder with its contents, false for one file.
	Dir bool
	// Protected is true for a path that no policy asked for: it lies in a writable grant and makes tools outside the cage
	// run code.
	Protected bool
	// Missing marks a protected path that does not exist. While the cage lives, a stub stands in its place. If kaged
	// cannot create the stub, the cage cannot create the file either. Other cages protect the stub like an existing file,
	// and it stays as long as one of them lives.
	Missing bool
	// Stub is the content of the stub of a missing file.
	Stub string
	// Pinned is true for a writable folder that is listed only because a protected path lies in it. It is a separate
	// mount; otherwise an agent could rename it with the protected path and create another in its place.
	Pinned bool
}

// Rule is one entry of net.allow.
type Rule = dsl.Rule

// ParseRule reads an entry of net.allow; see [dsl.ParseRule].
func ParseRule(text string) (Rule, error) { return dsl.ParseRule(text) }

// Excess is a right that a cage asks for and its parent's cage lacks.
type Excess = dsl.Excess

// Narrow returns the rights that child asks for beyond parent, the cage of the parent agent; a valid child has none.
// [dsl.Narrow] also returns the narrowed child.
func Narrow(parent, child *dsl.Cage) []Excess {
	_, excess := dsl.Narrow(parent, child)
	return excess
}

// Below reports whether p is dir or inside it. Both are absolute, clean and without links.
func Below(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// Find returns the deepest grant around a path that is absolute and without links, and false for an invisible path.
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

// Reserved reports whether a path contains a protected name that no grant of the policy names, in any folder, and
// returns the path up to that name. File tools do not write there. Commands in a cage may create a name without a stub;
// the path is reported when the cage ends.
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
	if part, ok := dsl.ProtectedPartBelow(real, holder); ok {
		return part, true
	}
	part, ok := v.reservedGit(holder, strings.TrimPrefix(real[len(holder):], "/"))
	return filepath.Join(holder, part), ok
}

// reservedGit finds a .git in a path that is not the folder of a repository or has another spelling.
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

// Writes reports whether the grants permit new files.
func (v *View) Writes() bool {
	return slices.ContainsFunc(v.Grants, func(g Grant) bool { return g.Writable && g.Dir })
}

// Allows reports whether an absolute path without links may be read, or with write also written. For a missing path it
// reports whether the path may be created.
func (v *View) Allows(real string, write bool) bool {
	g, ok := v.Find(real)
	return ok && (g.Writable || !write)
}
