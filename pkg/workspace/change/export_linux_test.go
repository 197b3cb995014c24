package change

// WithoutRenameat2 makes the package work as on a file system that only renames plainly until the returned function is
// called.
func WithoutRenameat2() func() {
	hasNoRenameat2.Store(true)
	return func() { hasNoRenameat2.Store(false) }
}

// CompleteExchange brings an exchange of a and b that was cut off to an end.
var CompleteExchange = completeExchange

// AsideOf is the name under which b waits.
var AsideOf = asideOf
