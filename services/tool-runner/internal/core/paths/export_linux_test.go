package paths

// WithoutOpenat2 makes the package work as on a kernel without openat2 until the returned function is called.
func WithoutOpenat2() func() {
	hasNoOpenat2.Store(true)
	return func() { hasNoOpenat2.Store(false) }
}
