//go:build !linux

package seal

// Process does nothing: only Linux has what it uses.
func Process() {}

// Open runs start.
func Open(start func() error) error { return start() }
