// Command protoc-gen-kaged-comments writes the comments of the public contract, by full name, as JSON: descriptors at
// run time lack them. buf runs it with all files at once.
package main

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	protogen.Options{}.Run(func(gen *protogen.Plugin) error {
		gen.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		comments := table{}
		for _, file := range gen.Files {
			if !strings.HasPrefix(string(file.Desc.Package()), "kaged.") {
				continue
			}
			comments.messages(file.Messages)
			comments.enums(file.Enums)
			for _, s := range file.Services {
				for _, m := range s.Methods {
					comments.add(string(m.Desc.FullName()), m.Comments)
				}
			}
		}
		text, err := json.MarshalIndent(comments, "", " ")
		if err != nil {
			return err
		}
		_, err = gen.NewGeneratedFile("openapi/comments.json", "").Write(append(text, '\n'))
		return err
	})
}

// table is comments by the full name of the declaration.
type table map[string]string

func (t table) add(name string, c protogen.CommentSet) {
	if text := strings.Join(strings.Fields(string(c.Leading)), " "); text != "" {
		t[name] = text
	}
}

func (t table) messages(list []*protogen.Message) {
	for _, m := range list {
		t.add(string(m.Desc.FullName()), m.Comments)
		for _, f := range m.Fields {
			t.add(string(f.Desc.FullName()), f.Comments)
		}
		t.enums(m.Enums)
		t.messages(m.Messages)
	}
}

func (t table) enums(list []*protogen.Enum) {
	for _, e := range list {
		t.add(string(e.Desc.FullName()), e.Comments)
		for _, v := range e.Values {
			t.add(string(v.Desc.FullName()), v.Comments)
		}
	}
}
