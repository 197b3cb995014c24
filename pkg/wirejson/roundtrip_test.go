package wirejson_test

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// everything has a field of each kind in protobuf.
var everything = func() protoreflect.MessageDescriptor {
	const text = `
name: "everything.proto" package: "test" syntax: "proto3"
message_type {
  name: "Everything"
  field { name: "bool" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
  field { name: "int32" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "sint32" number: 3 type: TYPE_SINT32 label: LABEL_OPTIONAL }
  field { name: "sfixed32" number: 4 type: TYPE_SFIXED32 label: LABEL_OPTIONAL }
  field { name: "int64" number: 5 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "uint32" number: 6 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "uint64" number: 7 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "float" number: 8 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "double" number: 9 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "string" number: 10 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "bytes" number: 11 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "enum" number: 12 type: TYPE_ENUM type_name: ".test.Colour" label: LABEL_OPTIONAL }
  field { name: "self" number: 13 type: TYPE_MESSAGE type_name: ".test.Everything" label: LABEL_OPTIONAL }
  field { name: "strings" number: 14 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "selves" number: 15 type: TYPE_MESSAGE type_name: ".test.Everything" label: LABEL_REPEATED }
  field { name: "by_int" number: 16 type: TYPE_MESSAGE type_name: ".test.Everything.ByIntEntry" label: LABEL_REPEATED }
  field { name: "by_bool" number: 17 type: TYPE_MESSAGE type_name: ".test.Everything.ByBoolEntry" label: LABEL_REPEATED }
  field { name: "maybe" number: 18 type: TYPE_INT64 label: LABEL_OPTIONAL oneof_index: 1 proto3_optional: true }
  field { name: "left" number: 19 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "right" number: 20 type: TYPE_DOUBLE label: LABEL_OPTIONAL oneof_index: 0 }
  nested_type { name: "ByIntEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_ENUM type_name: ".test.Colour" label: LABEL_OPTIONAL } }
  nested_type { name: "ByBoolEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".test.Everything" label: LABEL_OPTIONAL } }
  oneof_decl { name: "either" }
  oneof_decl { name: "_maybe" }
}
enum_type { name: "Colour"
  value { name: "COLOUR_UNSPECIFIED" number: 0 } value { name: "COLOUR_DARK_RED" number: 1 } value { name: "COLOUR_BLUE" number: 2 } }
`
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(text), &file); err != nil {
		panic(err)
	}
	fd, err := protodesc.NewFile(&file, protoregistry.GlobalFiles)
	if err != nil {
		panic(err)
	}
	return fd.Messages().ByName("Everything")
}()

// For any message, decoding its bytes gives the same message, and encoding that the same bytes.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyMessage(t, everything, 3)
		data, err := wirejson.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(data) {
			t.Fatalf("%s is not JSON", data)
		}
		got := dynamicpb.NewMessage(everything)
		if err := wirejson.Unmarshal(data, got); err != nil {
			t.Fatalf("reading %s: %v", data, err)
		}
		if diff := cmp.Diff(proto.Message(want), proto.Message(got), protocmp.Transform()); diff != "" {
			t.Fatalf("want -, got +:\n%s", diff)
		}
		again, err := wirejson.Marshal(got)
		if err != nil || string(again) != string(data) {
			t.Fatalf("wrote %s, then %s, %v", data, again, err)
		}
	})
}

func anyMessage(t *rapid.T, md protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(md)
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		value := fd
		if fd.IsMap() {
			value = fd.MapValue()
		}
		if !rapid.Bool().Draw(t, "set "+string(fd.Name())) || value.Message() != nil && depth == 0 {
			continue
		}
		switch {
		case fd.IsMap():
			key := anyScalar(t, fd.MapKey()).MapKey()
			m.Mutable(fd).Map().Set(key, anyValue(t, value, depth))
		case fd.IsList():
			for range rapid.IntRange(0, 3).Draw(t, "length") {
				m.Mutable(fd).List().Append(anyValue(t, fd, depth))
			}
		default:
			m.Set(fd, anyValue(t, fd, depth))
		}
	}
	return m
}

func anyValue(t *rapid.T, fd protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	if fd.Message() != nil {
		return protoreflect.ValueOfMessage(anyMessage(t, fd.Message(), depth-1))
	}
	return anyScalar(t, fd)
}

func anyScalar(t *rapid.T, fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int32"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "uint32"))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "uint64"))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(rapid.Float32().Draw(t, "float"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, "double"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(0, 2).Draw(t, "enum")))
	}
	return protoreflect.ValueOfString(rapid.String().Filter(utf8.ValidString).Draw(t, "string"))
}

// For any bytes of a client, decoding them ends with a message or with one of the two codes, and the message can be
// encoded and decoded again.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[[[`, `{"content":"x","max_steps_override":1e2}`, `{"resume_from_seq":{"output":1,"events":0}}`,
		`{"label":{"a":[1,null,{"b":"\ud800"}]}}`, `{"a":1,"a":2}`, "{\"content\":\"\xff\"}", `{"left":"a","right":1}`,
		`{"by_int":{"1":"dark_red","x":"blue"},"by_bool":{"true":{}}}`, `{"bytes":"AA==","double":-0.0,"float":1e39}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range []proto.Message{
			&apiv1.PostMessageRequest{}, &apiv1.UpdateSessionRequest{}, &apiv1.Hello{},
			&structpb.Value{}, dynamicpb.NewMessage(everything),
		} {
			err := wirejson.Unmarshal(data, m)
			if err != nil {
				if !errors.Is(err, fault.BadRequest) && !errors.Is(err, fault.ValidationFailed) {
					t.Fatalf("%q: %v", data, err)
				}
				continue
			}
			out, err := wirejson.Marshal(m)
			if err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			if err := wirejson.Unmarshal(out, m); err != nil {
				t.Fatalf("%q became %q: %v", data, out, err)
			}
		}
	})
}
