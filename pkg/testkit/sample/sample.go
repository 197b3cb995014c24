// Package sample fills messages for tests. Every field has a value other than zero, so that a test of a border finds a
// field that does not pass it.
package sample

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// levels is the depth to which messages in messages are filled. Some messages contain themselves.
const levels = 4

// Message returns a filled message. Of a oneof the first field is set. A text is the name of its field, a list has one
// entry, bytes are a JSON object. It panics for a type that is not linked.
func Message(d protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err)
	}
	m := kind.New()
	fill(m, levels)
	return m.Interface()
}

func fill(m protoreflect.Message, level int) {
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		choice := fd.ContainingOneof()
		switch {
		case fd.Message() != nil && !fd.IsMap() && level == 0:
		case choice != nil && !choice.IsSynthetic() && m.WhichOneof(choice) != nil:
		case fd.IsMap():
			values := m.Mutable(fd).Map()
			values.Set(scalar(fd.MapKey()).MapKey(), value(fd.MapValue(), values.NewValue, level))
		case fd.IsList():
			list := m.Mutable(fd).List()
			list.Append(value(fd, list.NewElement, level))
		default:
			m.Set(fd, value(fd, func() protoreflect.Value { return m.NewField(fd) }, level))
		}
	}
}

// value returns a value for a field: empty as a filled message, or a scalar.
func value(fd protoreflect.FieldDescriptor, empty func() protoreflect.Value, level int) protoreflect.Value {
	if fd.Message() == nil {
		return scalar(fd)
	}
	v := empty()
	fill(v.Message(), max(level-1, 0))
	return v
}

func scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.5)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(`{}`))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(fd.Enum().Values().Len() - 1).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(fd.Name()))
	}
	panic(fmt.Sprintf("no sample of %s for %s", fd.Kind(), fd.FullName()))
}
