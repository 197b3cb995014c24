package box

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/mounts"
)

// grants converts the grants of a view to binds and descriptors for the init.
type grants struct {
	tier     tier
	user     ids // the cage's user, on the host
	usernses *usernses
	owners   map[string]ids // of the outermost grants, by path
	binds    []blueprint.Bind
	files    []int // mount descriptors for the init; closed by close
}

// close closes the descriptors; the init has received copies.
func (g *grants) close() {
	for _, fd := range g.files {
		unix.Close(fd)
	}
	g.files = nil
}

// refused are the paths that a cage replaces with its own, with all paths below.
var refused = []string{"/proc", "/dev", "/sys"}

// add opens the grants of a view. It fails with cage_policy_invalid for a path that has changed since the view was
// compiled, and with cage_unavailable if owners cannot be mapped.
func (g *grants) add(list []cage.Grant) error {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b cage.Grant) int { return depth(a.Path) - depth(b.Path) })
	for _, grant := range list {
		if err := checkPath(grant.Path); err != nil {
			return err
		}
		if err := g.open(grant, "", around(g.binds, grant.Path)); err != nil {
			return err
		}
	}
	return nil
}

func depth(p string) int { return strings.Count(p, "/") }

// checkPath refuses paths that are not clean and absolute, and those below refused.
func checkPath(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.IndexByte(p, 0) >= 0 {
		return invalid(p, "it is not a path below the root without dots")
	}
	for _, own := range refused {
		if p == own || strings.HasPrefix(p, own+"/") {
			return invalid(p, "a cage has its own "+own)
		}
	}
	return nil
}

// in reports whether p lies below dir.
func in(p, dir string) bool { return strings.HasPrefix(p, dir+"/") }

// around returns the outermost bind that contains p, nil if absent.
func around(binds []blueprint.Bind, p string) *blueprint.Bind {
	for i := range binds {
		if !binds[i].Own && in(p, binds[i].Path) {
			return &binds[i]
		}
	}
	return nil
}

// addHome binds a folder of the data directory as the cage's home, and makes the folder if it is missing.
func (g *grants) addHome(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unavailable("state", dir+": "+reasonOf(err), "make the data directory writable")
	}
	if err := g.open(cage.Grant{Path: blueprint.Home, Dir: true, Writable: true}, dir, nil); err != nil {
		return err
	}
	g.binds[len(g.binds)-1].Own = true
	return nil
}

// open opens one grant. from is its path on the host if that differs; outer is the bind that contains it, or nil.
func (g *grants) open(grant cage.Grant, from string, outer *blueprint.Bind) error {
	fd, st, err := mounts.Find(unix.AT_FDCWD, cmp.Or(from, grant.Path))
	if err != nil {
		return invalid(grant.Path, reasonOf(err))
	}
	defer unix.Close(fd)
	kind := st.Mode & unix.S_IFMT
	switch {
	case grant.Dir && kind != unix.S_IFDIR:
		return invalid(grant.Path, "it is no folder any more")
	case !grant.Dir && kind != unix.S_IFREG:
		return invalid(grant.Path, "it is no file")
	}
	bind := blueprint.Bind{
		Path: grant.Path, From: from, Tree: -1, Writable: grant.Writable, Dir: grant.Dir,
		Dev: st.Dev, Ino: st.Ino, Within: outer != nil,
	}
	if g.tier.trees {
		owner := ids{int(st.Uid), int(st.Gid)}
		if outer != nil {
			owner = g.owners[outer.Path] // one owner for the whole project
		} else {
			g.owners[grant.Path] = owner
		}
		tree, err := g.clone(fd, grant, owner)
		if err != nil {
			return err
		}
		bind.Tree = len(g.files)
		g.files = append(g.files, tree)
	}
	if !g.tier.trees && grant.Writable && os.Geteuid() == 0 && !mayWrite(st, g.user) {
		return g.unmapped(grant, ids{int(st.Uid), int(st.Gid)}, errors.New("this process may not mount"))
	}
	g.binds = append(g.binds, bind)
	return nil
}

// unmapped is the error for a grant whose owner cannot be mapped.
func (g *grants) unmapped(grant cage.Grant, owner ids, reason error) error {
	return unavailable(blueprint.LayerIDMap,
		fmt.Sprintf("the files of user %d in %s cannot be shown as the cage's own (%s)",
			owner.uid, grant.Path, reasonOf(reason)),
		fmt.Sprintf("put the project on a file system that maps owners, such as ext4, xfs or btrfs, "+
			"or give it to the user of cages: chown -R %d:%d %s", g.user.uid, g.user.gid, grant.Path))
}

// clone clones the mount of a grant, with owner mapped to the cage's user.
func (g *grants) clone(fd int, grant cage.Grant, owner ids) (int, error) {
	attr := uint64(mounts.ReadOnly)
	if grant.Writable {
		attr = mounts.Writable
	}
	tree, err := -1, error(nil)
	userns, mapErr := g.usernses.get(owner, g.user)
	if mapErr == nil {
		tree, err = mounts.Clone(fd, attr, userns)
		if mapping := (*mounts.MapError)(nil); errors.As(err, &mapping) {
			mapErr = mapping
		}
	}
	// Without a mapping the grant keeps its owners if the mode suffices: any read-only grant, and a writable one that
	// the cage's user may write.
	var st unix.Stat_t
	if mapErr != nil && (!grant.Writable || unix.Fstat(fd, &st) == nil && mayWrite(st, g.user)) {
		tree, err = mounts.Clone(fd, attr, -1)
		mapErr = nil
	}
	switch {
	case mapErr != nil:
		return -1, g.unmapped(grant, owner, mapErr)
	case err != nil:
		return -1, unavailable(blueprint.LayerMount, grant.Path+": "+reasonOf(err), "")
	}
	return tree, nil
}

// mayWrite reports whether a file's mode lets a user write.
func mayWrite(st unix.Stat_t, user ids) bool {
	switch {
	case int(st.Uid) == user.uid:
		return st.Mode&0o200 != 0
	case int(st.Gid) == user.gid:
		return st.Mode&0o020 != 0
	}
	return st.Mode&0o002 != 0
}

// invalid is the error for a path that cannot be granted.
func invalid(p, reason string) error {
	return fault.New(fault.CagePolicyInvalid, "The path %s cannot be granted to a cage: %s.", p, reason).With("path", p)
}

// unavailable is the error for a missing layer. fix may be empty.
func unavailable(layer, reason, fix string) error {
	text := fmt.Sprintf("A cage cannot be made here: %s: %s.", layer, reason)
	if fix != "" {
		text += " To mend it: " + fix + "."
	}
	return fault.New(fault.CageUnavailable, "%s", text).With("layer", layer).With("fix", fix)
}

// reasonOf returns the text of the system's error without path and operation.
func reasonOf(err error) string {
	var errno unix.Errno
	switch {
	case errors.Is(err, unix.ELOOP):
		return "there is a link in it"
	case errors.As(err, &errno):
		return errno.Error()
	}
	return err.Error()
}
