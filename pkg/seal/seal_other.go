//go:build !linux

package seal

// Process is empty: only Linux has the needed calls.
func Process() {}

// Open runs start.
func Open(start func() error) error { return start() }
