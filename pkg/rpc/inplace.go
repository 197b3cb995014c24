package rpc

import (
	"errors"
	"io"

	"google.golang.org/grpc"
)

// inPlace is the option of [InPlace] and [Each].
type inPlace struct {
	grpc.EmptyCallOption
	receive func(any) // of Each
}

// InPlace runs the handler of a unary call to a service of the same process on the caller's goroutine. The call then
// wakes no other goroutine, and returns only when its handler has, also if its context ends earlier: it is for methods
// that end soon after their context. Other calls are not changed.
func InPlace() grpc.CallOption { return inPlace{} }

// Each makes a call with one request and a stream of messages, which open opens with the options that it gets. It
// passes each message to receive, and returns when the stream has ended.
//
// To a service of the same process it is the streaming form of [InPlace]: the handler runs on the caller's goroutine,
// and receive on the goroutine that sends the message. receive gets the message itself, not a copy, and must not change
// it.
func Each[M any](open func(...grpc.CallOption) (grpc.ServerStreamingClient[M], error), receive func(*M)) error {
	stream, err := open(inPlace{receive: func(m any) { receive(m.(*M)) }})
	for err == nil {
		var m *M
		if m, err = stream.Recv(); err == nil {
			receive(m)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readOnly is the option of [ReadOnly].
type readOnly struct{ grpc.EmptyCallOption }

// ReadOnly is the promise of a stream's caller not to change the messages that it receives. From a service of the same
// process it then gets parts of the sender's own messages and not of a copy; gRPC already forbids a sender to change a
// message that it has sent. Other calls are not changed.
func ReadOnly() grpc.CallOption { return readOnly{} }

// IsReadOnly reports whether the options of a call contain [ReadOnly].
func IsReadOnly(opts []grpc.CallOption) bool {
	for _, o := range opts {
		if _, ok := o.(readOnly); ok {
			return true
		}
	}
	return false
}

// IsInPlace reports whether the options of a call contain [InPlace].
func IsInPlace(opts []grpc.CallOption) bool {
	for _, o := range opts {
		if _, ok := o.(inPlace); ok {
			return true
		}
	}
	return false
}

// Receiver returns the function that gets the messages of a call by [Each], nil for other calls.
func Receiver(opts []grpc.CallOption) func(message any) {
	for _, o := range opts {
		if p, ok := o.(inPlace); ok {
			return p.receive
		}
	}
	return nil
}
