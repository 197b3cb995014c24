package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

func fields() []protoreflect.FieldDescriptor {
	return []protoreflect.FieldDescriptor{new(apiv1.MessagePart).ProtoReflect().Descriptor().Fields().ByName("input")}
}

// A field of raw JSON loses its type, and its message's other fields and its description stay.
func TestFree(t *testing.T) {
	const bytes = "        \"input\": {\n          \"type\": \"string\",\n          \"format\": \"byte\",\n"
	const rest = "          \"description\": \"Any.\"\n        }\n      }\n    },\n"
	const other = "    \"v1Other\": {\n" + bytes + rest
	in := "{\n    \"v1MessagePart\": {\n      \"properties\": {\n" + bytes + rest + other
	want := strings.Replace(in, bytes, "        \"input\": {\n", 1)
	if got, err := free(in, fields()); err != nil || string(got) != want {
		t.Errorf("got %v and\n%s\nwant\n%s", err, got, want)
	}
	if got, err := free(want, fields()); err == nil {
		t.Errorf("got no error for a definition in another form, and\n%s", got)
	}
	if got, err := free("{}", fields()); err != nil || string(got) != "{}" {
		t.Errorf("got %s and %v without a definition, want the text as it is", got, err)
	}
}

// A field with a key of its own has it in the definition of its message.
func TestRename(t *testing.T) {
	field := new(apiv1.DslDiagnostic).ProtoReflect().Descriptor().Fields().ByName("doc_link")
	in := "{\n    \"v1DslDiagnostic\": {\n      \"properties\": {\n" +
		"        \"doc_link\": {\n          \"type\": \"string\"\n        }\n      }\n    }\n"
	got, err := rename(in, []protoreflect.FieldDescriptor{field})
	if want := strings.Replace(in, "doc_link", "docLink", 1); err != nil || string(got) != want {
		t.Errorf("got %v and\n%s\nwant\n%s", err, got, want)
	}
}

// The contract has fields with each option; if none is found, the search is wrong.
func TestFieldsWith(t *testing.T) {
	for name, option := range map[string]func(proto.Message) bool{
		"raw_json": isRaw,
		"json_key": hasKey,
	} {
		if len(fieldsWith(option)) == 0 {
			t.Errorf("got no field with %s, want those of the contract", name)
		}
	}
}
