//go:build !linux

package seal

// Process has no effect: only Linux has the required calls.
func Process() {}

// Open runs start.
func Open(start func() error) error { return start() }
