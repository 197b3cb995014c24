package cage

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxSockets is the maximum number of sockets that are checked for one cage.
const maxSockets = 1024

// Sockets finds the sockets in granted folders with a listening process, [View.Sockets]: the sockets that the kernel
// lists for this network namespace, at any path, and other sockets in the searched folders.
func Sockets() Option { return func(c *compiler) { c.sockets = true } }

// noteSockets records the sockets in a folder.
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

// findSockets adds the sockets of the kernel's table, and keeps the found sockets that answer and lie in a grant.
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
