//go:build !linux

package cage

// listeners returns no sockets: cages exist on Linux only.
func listeners() []string { return nil }

// answers reports whether a process holds the socket at a path.
func (c *compiler) answers(string) bool { return false }
