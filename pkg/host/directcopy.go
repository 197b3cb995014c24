package host

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/rpc"
)

// sent is a message between the two sides of a call. It is a copy that belongs to neither, because each side owns its
// messages and may change them, unless the receiver has promised not to ([rpc.ReadOnly]).
type sent struct{ message proto.Message }

// clone copies a message to send.
func clone(m any) (sent, error) {
	from := m.(proto.Message)
	if err := fits(from); err != nil {
		return sent{}, err
	}
	return sent{proto.Clone(from)}, nil
}

// lend is clone for a receiver that does not change the message: the sender's own is sent.
func lend(m any) (sent, error) {
	from := m.(proto.Message)
	return sent{from}, fits(from)
}

// moveTo sets a message of the receiver to the sent one. Of a copy it takes the fields, of a lent one it shares them.
func (s sent) moveTo(m any) error {
	to := m.(proto.Message)
	proto.Reset(to)
	if to.ProtoReflect().Type() == s.message.ProtoReflect().Type() {
		move(to.ProtoReflect(), s.message.ProtoReflect())
		return nil
	}
	proto.Merge(to, s.message)
	return nil
}

// move sets the fields of an empty message to those of another message of its type.
func move(to, from protoreflect.Message) {
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(from.GetUnknown())
}

// copyMessage sets a message of the receiver to a copy of the sender's.
func copyMessage(to, from any) error {
	m := from.(proto.Message)
	if err := fits(m); err != nil {
		return err
	}
	proto.Reset(to.(proto.Message))
	proto.Merge(to.(proto.Message), m)
	return nil
}

func fits(m proto.Message) error {
	if size := proto.Size(m); size > rpc.MaxMessage {
		return status.Errorf(codes.ResourceExhausted, "a message has %d bytes, the most is %d", size, rpc.MaxMessage)
	}
	return nil
}
