package wirejson

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
)

// Marshal returns m as JSON, null for nil. Its only error is fault.Internal, for a number that JSON does not allow.
func Marshal(m proto.Message) ([]byte, error) {
	return Append(nil, m)
}

// Append appends m as JSON to dst and returns the extended slice; see [Marshal]. With an error it returns dst
// unchanged.
func Append(dst []byte, m proto.Message) ([]byte, error) {
	if m == nil {
		return append(dst, "null"...), nil
	}
	out, err := appendMessage(dst, m.ProtoReflect())
	if err != nil {
		return dst, err
	}
	return out, nil
}

func appendMessage(dst []byte, m protoreflect.Message) ([]byte, error) {
	if !m.IsValid() {
		return append(dst, "null"...), nil
	}
	switch v := m.Interface().(type) {
	case *structpb.Value:
		return appendValue(dst, v)
	case *structpb.Struct:
		return appendStruct(dst, v)
	case *structpb.ListValue:
		return appendListValue(dst, v)
	}
	t := tableOf(m.Descriptor())
	dst = append(dst, '{')
	first := true
	for i := range t.fields {
		f := &t.fields[i]
		set := true
		if f.presence || f.skip {
			set = m.Has(f.fd)
			if !set && (f.skip || f.member) {
				continue
			}
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, f.key...)
		if !set {
			dst = append(dst, "null"...)
			continue
		}
		var err error
		if dst, err = f.append(dst, m.Get(f.fd)); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func (f *field) append(dst []byte, v protoreflect.Value) ([]byte, error) {
	switch {
	case f.list:
		return f.appendList(dst, v.List())
	case f.mapped:
		return f.appendMap(dst, v.Map())
	case f.raw:
		return appendRaw(dst, v.Bytes()), nil
	}
	return appendScalar(dst, f.kind, f.enum, v, f.name)
}

func (f *field) appendList(dst []byte, list protoreflect.List) ([]byte, error) {
	dst = append(dst, '[')
	var err error
	for i := range list.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendScalar(dst, f.kind, f.enum, list.Get(i), f.name); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func (f *field) appendMap(dst []byte, m protoreflect.Map) ([]byte, error) {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	value := f.fd.MapValue()
	var enum *enumTable
	if ed := value.Enum(); ed != nil {
		enum = enumOf(ed)
	}
	dst = append(dst, '{')
	var err error
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, k.String()), ':')
		if dst, err = appendScalar(dst, value.Kind(), enum, m.Get(k), f.name); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// appendScalar appends one value that is neither list nor map; name is the field for an error.
func appendScalar(
	dst []byte, kind protoreflect.Kind, enum *enumTable, v protoreflect.Value, name string,
) ([]byte, error) {
	switch kind {
	case protoreflect.StringKind:
		return AppendString(dst, v.String()), nil
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool()), nil
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Sint32Kind, protoreflect.Sint64Kind,
		protoreflect.Sfixed32Kind, protoreflect.Sfixed64Kind:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case protoreflect.FloatKind:
		return appendFloat(dst, v.Float(), 32, name)
	case protoreflect.DoubleKind:
		return appendFloat(dst, v.Float(), 64, name)
	case protoreflect.EnumKind:
		return AppendString(dst, enum.name(v.Enum())), nil
	case protoreflect.BytesKind:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes())
		return append(dst, '"'), nil
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return appendMessage(dst, v.Message())
	}
	return dst, fault.New(fault.Internal, "The field %s has a type without a JSON form.", name)
}
