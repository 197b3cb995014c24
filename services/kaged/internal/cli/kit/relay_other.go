//go:build !unix

package kit

// Sizes yields no size, because this system has no such signal.
func Sizes[T any](func() T) (sizes <-chan T, forget func()) { return nil, func() {} }
