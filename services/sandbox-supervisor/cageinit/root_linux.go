package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/mounts"
)

// builder builds the file system of a cage. Descriptors hold outside paths before a mount hides them; inside paths are
// resolved below the new root only, without following links. Until the new root is entered the old one is unchanged,
// except for /dev and /proc, which cannot be granted.
type builder struct {
	base blueprint.Base
	plan blueprint.Plan
	// Sent by the supervisor; -1 for attached ones. Descriptors after the grants stay open: they hold the lock of the
	// stubs.
	files []int

	system_ []source // read-only system folders and the visible part of /etc
	nodes   []source // devices
	binds   []source // the grants, in the plan's order
	top     int      // the new root
	store   int      // the tmpfs of the private folders
	own     []string // the private folders
	ways    []string // the topmost folders in them that only lead to grants
	sysctls []bound  // kernel limits of the cage's user
}

// source is a path from outside.
type source struct {
	path string
	tree int    // a detached mount, or -1
	link string // the text of a link
	text []byte // the content of a file
	kind uint32 // S_IFDIR, S_IFREG, S_IFLNK or S_IFCHR
}

// close closes the remaining descriptors from outside.
func (b *builder) close() {
	for _, list := range [][]source{b.system_, b.nodes, b.binds} {
		for _, s := range list {
			if s.tree >= 0 {
				unix.Close(s.tree)
			}
		}
	}
	for _, s := range b.sysctls {
		unix.Close(s.fd)
	}
	unix.Close(b.top)
	unix.Close(b.store)
}

// openTree returns a detached mount of a path below dir, and its status.
func openTree(dir int, name string, attr uint64) (tree int, st unix.Stat_t, err error) {
	fd, st, err := mounts.Find(dir, name)
	if err != nil {
		return -1, st, err
	}
	defer unix.Close(fd)
	tree, err = mounts.Clone(fd, attr, -1)
	return tree, st, err
}

// open opens everything from outside that is in every cage.
func (b *builder) open() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for _, p := range b.base.System {
		if err := b.openSystem(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	for _, name := range b.base.Etc {
		if err := b.openEtc("/etc/" + name); err != nil {
			return fmt.Errorf("/etc/%s: %w", name, err)
		}
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		// Without NODEV, because it is a device. Only the file is bound, so no other file of its folder is visible.
		tree, st, err := openTree(unix.AT_FDCWD, "/dev/"+name, mounts.Device)
		if err != nil {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
		b.nodes = append(b.nodes, source{path: name, tree: tree, kind: st.Mode & unix.S_IFMT})
	}
	return nil
}

// openBinds opens the grants.
func (b *builder) openBinds() error {
	for _, bind := range b.plan.Binds {
		s, err := b.openBind(bind)
		if err != nil {
			return &layerError{layer: blueprint.LayerMount, cause: frame.CauseFolder, err: fmt.Errorf("%s: %w", bind.Path, err)}
		}
		b.binds = append(b.binds, s)
	}
	return nil
}

// openSystem opens a path of the system.
func (b *builder) openSystem(p string) error {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		text, err := os.Readlink(p)
		b.system_ = append(b.system_, source{path: p, tree: -1, link: text, kind: unix.S_IFLNK})
		return err
	}
	tree, st, err := openTree(unix.AT_FDCWD, p, mounts.ReadOnly)
	if err != nil {
		return err
	}
	b.system_ = append(b.system_, source{path: p, tree: tree, kind: st.Mode & unix.S_IFMT})
	return nil
}

// maxCopied is the maximum size in bytes of a file of /etc that is copied; a larger one is bound.
const maxCopied = 256 << 10

// openEtc opens a path in /etc. Missing and unreadable paths are left out.
func (b *builder) openEtc(p string) error {
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return b.openSystem(p)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENXIO):
		return nil
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR, st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size > maxCopied:
		return b.openSystem(p)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil
	}
	text := make([]byte, st.Size)
	n, err := unix.Read(fd, text)
	if err != nil {
		return err
	}
	b.system_ = append(b.system_, source{path: p, tree: -1, text: text[:n:n], kind: unix.S_IFREG})
	return nil
}

// openBind opens a grant.
func (b *builder) openBind(bind blueprint.Bind) (source, error) {
	s := source{path: bind.Path, kind: unix.S_IFREG}
	if bind.Dir {
		s.kind = unix.S_IFDIR
	}
	if bind.Tree >= 0 {
		if bind.Tree >= len(b.files) {
			return s, errors.New("a file is missing")
		}
		s.tree = b.files[bind.Tree]
		return s, nil
	}
	attr := uint64(mounts.Writable)
	if !bind.Writable {
		attr = mounts.ReadOnly
	}
	tree, st, err := openTree(unix.AT_FDCWD, cmp.Or(bind.From, bind.Path), attr)
	if err != nil {
		return s, err
	}
	if st.Dev != bind.Dev || st.Ino != bind.Ino {
		unix.Close(tree)
		return s, errChanged
	}
	s.tree = tree
	return s, nil
}

var errChanged = errors.New("it was replaced while the cage was made")

// root makes the new root and enters it.
func (b *builder) root() error {
	const point = "/dev" // its devices are already open
	if err := unix.Mount("cage", point, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		"mode=0755,size=4m,nr_inodes=4096"); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	var err error
	if b.top, err = unix.Open(point, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	return unix.Fchdir(b.top)
}

// storePoint is the mount point of the private folders' store: over the old /proc, which is no longer needed. It is
// unmounted together with the old root, because each unmount waits for all processors.
const storePoint = "/proc"

// storeOptions are the mount options that limit the private folders.
func storeOptions(bytes, inodes int64) string {
	return "size=" + strconv.FormatInt(bytes, 10) + ",nr_inodes=" + strconv.FormatInt(inodes, 10)
}

// private makes the cage's private folders. They share one store and its limit.
func (b *builder) private() error {
	options := "mode=0700," + storeOptions(b.base.TmpBytes, b.base.TmpInodes)
	if err := unix.Mount("cage", storePoint, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("private folders: %w", err)
	}
	var err error
	if b.store, err = unix.Open(storePoint, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	for _, f := range []struct {
		path, name string
		mode       uint32
	}{
		{"/tmp", "tmp", 0o1777},
		{"/var/tmp", "var-tmp", 0o1777},
		{"/run", "run", 0o755},
		{"/dev/shm", "shm", 0o1777},
		{blueprint.Home, "home", 0o700},
	} {
		if err := unix.Mkdirat(b.store, f.name, f.mode); err != nil {
			return err
		}
		if err := unix.Fchmodat(b.store, f.name, f.mode, 0); err != nil { // independent of the umask
			return err
		}
		tree, _, err := openTree(b.store, f.name, mounts.Writable)
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		err = b.attach(source{path: f.path, tree: tree, kind: unix.S_IFDIR})
		unix.Close(tree)
		if err != nil {
			return err
		}
		b.own = append(b.own, f.path)
	}
	return nil
}

// bound applies the plan's limit to the private folders, and drops folders that are another kind of mount.
func (b *builder) bound() error {
	for _, bind := range b.plan.Binds {
		if bind.Own {
			b.own = slices.DeleteFunc(b.own, func(p string) bool { return p == bind.Path })
		}
	}
	if b.plan.TmpBytes == 0 {
		return nil
	}
	options := storeOptions(b.plan.TmpBytes, b.plan.TmpInodes)
	if err := unix.Mount("", storePoint, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("bounding private folders: %w", err)
	}
	return nil
}

// attach mounts a source at its path, and makes its parent folders.
func (b *builder) attach(s source) error {
	err := b.place(s)
	if err == nil && s.tree >= 0 {
		_, err = b.cover(s)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}

// place makes the file or folder to mount over at a path, unless it exists.
func (b *builder) place(s source) error {
	dir, err := b.way(path.Dir(s.path))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	name := path.Base(s.path)
	switch s.kind {
	case unix.S_IFLNK:
		err = unix.Symlinkat(s.link, dir, name)
	case unix.S_IFDIR:
		err = unix.Mkdirat(dir, name, 0o755)
	default:
		var fd int
		if fd, err = unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644); err == nil {
			if len(s.text) > 0 {
				_, err = unix.Write(fd, s.text)
			}
			unix.Close(fd)
		}
	}
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// cover mounts a tree over a path and returns the path's former status.
func (b *builder) cover(s source) (st unix.Stat_t, err error) {
	target, err := b.at(s.path)
	if err != nil {
		return st, err
	}
	defer unix.Close(target)
	if err := unix.Fstat(target, &st); err != nil {
		return st, err
	}
	return st, mounts.Attach(s.tree, target)
}

// at opens a path below the new root without following links.
func (b *builder) at(p string) (int, error) {
	return unix.Openat2(b.top, strings.TrimPrefix(p, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
}

// way opens a folder below the new root, and makes it and its parents if they are missing.
func (b *builder) way(p string) (dir int, err error) {
	if p == "/" {
		return unix.Dup(b.top)
	}
	if dir, err = b.at(p); !errors.Is(err, unix.ENOENT) {
		return dir, err
	}
	up, err := b.way(path.Dir(p))
	if err != nil {
		return -1, err
	}
	defer unix.Close(up)
	if err := unix.Mkdirat(up, path.Base(p), 0o755); err != nil {
		return -1, err
	}
	if slices.Contains(b.own, path.Dir(p)) {
		if err := b.apart(up, p); err != nil {
			return -1, err
		}
	}
	return b.at(p)
}

// apart makes a folder in a private folder a separate mount. Folders that lead to a grant are read-only, as outside of
// private folders: a file written beside a grant would seem to be the project's and be lost.
func (b *builder) apart(up int, p string) error {
	tree, _, err := openTree(up, path.Base(p), mounts.Writable)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if _, err := b.cover(source{path: p, tree: tree}); err != nil {
		return err
	}
	b.ways = append(b.ways, p)
	return nil
}

// system mounts the system folders.
func (b *builder) system() error {
	for i, s := range b.system_ {
		if err := b.attach(s); err != nil {
			return err
		}
		b.system_[i].text = nil
	}
	for p, text := range b.base.Texts {
		if err := b.attach(source{path: p, tree: -1, text: []byte(text), kind: unix.S_IFREG}); err != nil {
			return err
		}
	}
	return nil
}

// enter makes the new root the root, drops the old one, and forbids changes to it.
func (b *builder) enter() error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the old root: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("read-only root: %w", err)
	}
	return unix.Chdir("/")
}
