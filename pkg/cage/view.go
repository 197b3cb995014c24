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
	// Grants are the paths that can be seen, those above before those in them, no path twice. Of the grants a path lies in
	// the deepest decides; a path that lies in none cannot be seen. Besides them a box shows a read-only system and has
	// private folders of its own, which are not the project's and no grants.
	Grants []Grant
	// Net are the rules of what can be reached, none for no network.
	Net []Rule
	// Relaxed allows the system calls that debuggers need.
	Relaxed bool
	// Capabilities are named rights, such as shell.
	Capabilities []string
	// Persistent keeps what is written in the box's own folders for the agent's next invocation.
	Persistent bool
	// Env are the variables set inside.
	Env map[string]string
	// Limits bound what is used; zero is no limit of its own.
	Limits dsl.Limits
	// GitReadOnly says that all of a repository's folder is read-only.
	GitReadOnly bool
	// Found is what was found in writable folders, by path: what [View.Since] compares.
	Found []Found
	// Sockets are the sockets in granted folders that answer, if they were asked for; see [Sockets].
	Sockets []string
	// PartialSockets says that a read-only folder has more folders than are searched for sockets.
	PartialSockets bool
	// Partial says that a writable folder has more folders than are searched for repositories and projects in it, so that files
	// may be left unprotected that lie deep inside.
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
	// Missing is a protected path that is not there. While the box lives a stub of that kind stands at its place, if one can be
	// made there; where that cannot, nobody in the box can either. To other boxes it is protected like all else that is there, and
	// stays as long as one of them lives.
	Missing bool
	// Stub is what the stub of a missing file holds.
	Stub string
	// Pinned is a writable folder that is only listed because a protected path lies in it: it must be a mount of its own, so that
	// it cannot be renamed away, the protected path with it, and another made in its place.
	Pinned bool
}

// Rule is one entry of net.allow.
type Rule = dsl.Rule

// ParseRule reads an entry of net.allow; see [dsl.ParseRule].
func ParseRule(text string) (Rule, error) { return dsl.ParseRule(text) }

// Excess is something a cage asks for that the one above it does not have.
type Excess = dsl.Excess

// Narrow says what child asks for beyond parent, the cage of the agent above; none is as it must be. [dsl.Narrow] also gives
// what child then comes to.
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

// Reserved reports whether a path has a protected name in it that no grant of the policy names, whatever folder it stands in, and
// returns the path up to that name. File tools do not write there. Commands in a box may, where nothing stands for the name: it
// is reported when the box is gone.
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

// Writes reports whether anything new can be made in what is granted.
func (v *View) Writes() bool {
	return slices.ContainsFunc(v.Grants, func(g Grant) bool { return g.Writable && g.Dir })
}

// Allows reports whether a path, absolute and without links, can be read, or also written where write is set. Of a path that
// is not there yet it says whether it may be made.
func (v *View) Allows(real string, write bool) bool {
	g, ok := v.Find(real)
	return ok && (g.Writable || !write)
}
