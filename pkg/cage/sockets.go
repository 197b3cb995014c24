package cage

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxSockets is how many sockets are looked at for one cage.
const maxSockets = 1024

// Sockets finds the sockets in granted folders behind which a process listens, [View.Sockets]: those that the
// kernel knows of in this network namespace, wherever they lie, and of others those in the folders that are
// searched.
func Sockets() Option { return func(c *compiler) { c.sockets = true } }

// noteSockets takes note of the sockets in a folder.
func (c *compiler) noteSockets(dir string, list []dirent) {
	if !c.sockets {
		return
	}
	for _, e := range list {
		if e.kind == unix.S_IFSOCK && len(c.live) < maxSockets {
			c.live = append(c.live, filepath.Join(dir, e.name))
		}
	}
}

// findSockets adds the sockets of the kernel's table, and keeps of all found ones those that answer
// and lie in a grant.
func (c *compiler) findSockets() {
	if !c.sockets {
		return
	}
	for _, path := range listeners() {
		if len(c.live) < maxSockets && c.holder(filepath.Clean(path)).Path != "" {
			c.live = append(c.live, filepath.Clean(path))
		}
	}
	slices.Sort(c.live)
	c.live = slices.DeleteFunc(slices.Compact(c.live), func(path string) bool {
		return c.holder(path).Path == "" || !c.answers(path)
	})
}
