// Command freejson corrects the OpenAPI description where protoc-gen-openapiv2 does not know kaged's options: a field
// with (kaged.common.v1.raw_json) holds bytes on the wire and any JSON for clients, and one with
// (kaged.common.v1.json_key) has another key than its name. It runs after buf, in the root of the repository.
package main

import (
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "kaged.dev/proto/gen/backends" // registers every message with a route
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

const file = "proto/gen/openapi/kaged.swagger.json"

func main() {
	text, err := os.ReadFile(file)
	if err == nil {
		text, err = free(string(text), fieldsWith(isRaw))
	}
	if err == nil {
		text, err = rename(string(text), fieldsWith(hasKey))
	}
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func isRaw(options proto.Message) bool { return proto.GetExtension(options, commonv1.E_RawJson).(bool) }

func hasKey(options proto.Message) bool { return proto.GetExtension(options, commonv1.E_JsonKey) != "" }

// fieldsWith returns the fields of public messages whose options are as wanted.
func fieldsWith(wanted func(options proto.Message) bool) []protoreflect.FieldDescriptor {
	var raw []protoreflect.FieldDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("kaged.api.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			fields := f.Messages().Get(i).Fields()
			for j := range fields.Len() {
				if wanted(fields.Get(j).Options()) {
					raw = append(raw, fields.Get(j))
				}
			}
		}
		return true
	})
	return raw
}

// free removes the type of each field from its message's definition: a schema without one takes any JSON. A message
// without a definition is not part of a route. It fails if a definition has the field in another form.
func free(text string, fields []protoreflect.FieldDescriptor) ([]byte, error) {
	return inDefinition(text, fields, `("%s": \{\n)\s+"type": "string",\n\s+"format": "byte",\n`,
		func(_ protoreflect.FieldDescriptor, key string) string { return key })
}

// rename gives each field of a definition its key. It fails if a definition does not have the field.
func rename(text string, fields []protoreflect.FieldDescriptor) ([]byte, error) {
	return inDefinition(text, fields, `("%s": \{\n)`, func(f protoreflect.FieldDescriptor, key string) string {
		return strings.Replace(key, string(f.Name()), proto.GetExtension(f.Options(), commonv1.E_JsonKey).(string), 1)
	})
}

// inDefinition replaces the match of a pattern with a field's name, in the definition of its message, by a form of the
// pattern's group.
func inDefinition(
	text string, fields []protoreflect.FieldDescriptor, pattern string,
	become func(f protoreflect.FieldDescriptor, group string) string,
) ([]byte, error) {
	for _, f := range fields {
		defined := regexp.MustCompile(`\n    "(v1|kagedApiV1)` + string(f.Parent().Name()) + `": \{\n`)
		start := defined.FindStringIndex(text)
		if start == nil {
			continue
		}
		end := start[1] + strings.Index(text[start[1]:], "\n    }")
		found := regexp.MustCompile(fmt.Sprintf(pattern, f.Name())).FindStringSubmatchIndex(text[start[1]:end])
		if found == nil {
			return nil, fmt.Errorf("%s: its definition does not have it in the form that is corrected", f.FullName())
		}
		text = text[:start[1]+found[0]] + become(f, text[start[1]+found[2]:start[1]+found[3]]) + text[start[1]+found[1]:]
	}
	return []byte(text), nil
}
