//go:build !unix

package kit

// Sizes yields no size here.
func Sizes[T any](func() T) (sizes <-chan T, forget func()) { return nil, func() {} }
