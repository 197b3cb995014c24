//go:build !linux

package embedded

// lockHolder is a process that holds a lock file open.
type lockHolder struct {
	pid     int
	name    string
	stopped bool
}

// holdersOf returns no processes: this system does not report them.
func holdersOf(string) []lockHolder { return nil }

func (h lockHolder) end(string) bool { return false }
