//go:build !linux

package sandboxsupervisor

// newBoxes returns nil: cages need Linux.
func newBoxes(Config, Deps) boxes { return nil }
