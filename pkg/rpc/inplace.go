package rpc

import "google.golang.org/grpc"

// inPlace is the option of [InPlace].
type inPlace struct{ grpc.EmptyCallOption }

// InPlace runs the handler of a unary call to a service of the same process on the caller's goroutine. The call then
// wakes no other goroutine, and returns only when its handler has, also if its context ends earlier: it is for methods
// that end soon after their context. Other calls are not changed.
func InPlace() grpc.CallOption { return inPlace{} }

// IsInPlace reports whether the options of a call contain [InPlace].
func IsInPlace(opts []grpc.CallOption) bool {
	for _, o := range opts {
		if _, ok := o.(inPlace); ok {
			return true
		}
	}
	return false
}
