// Command freejson corrects the OpenAPI description: a field with the option (kaged.common.v1.raw_json) holds bytes on
// the wire and any JSON for clients, and protoc-gen-openapiv2 knows the bytes alone. It runs after buf, in the root of
// the repository.
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
		text, err = free(string(text), rawFields())
	}
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// rawFields returns the fields with the option, of public messages.
func rawFields() []protoreflect.FieldDescriptor {
	var raw []protoreflect.FieldDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("kaged.api.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			fields := f.Messages().Get(i).Fields()
			for j := range fields.Len() {
				if proto.GetExtension(fields.Get(j).Options(), commonv1.E_RawJson).(bool) {
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
	for _, f := range fields {
		defined := regexp.MustCompile(`\n    "(v1|kagedApiV1)` + string(f.Parent().Name()) + `": \{\n`)
		start := defined.FindStringIndex(text)
		if start == nil {
			continue
		}
		end := start[1] + strings.Index(text[start[1]:], "\n    }")
		typed := regexp.MustCompile(`("` + string(f.Name()) + `": \{\n)\s+"type": "string",\n\s+"format": "byte",\n`)
		found := typed.FindStringSubmatchIndex(text[start[1]:end])
		if found == nil {
			return nil, fmt.Errorf("%s: its definition has no bytes of that name", f.FullName())
		}
		text = text[:start[1]+found[3]] + text[start[1]+found[1]:]
	}
	return []byte(text), nil
}
