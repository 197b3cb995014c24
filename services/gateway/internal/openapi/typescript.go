package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	contract "kaged.dev/proto"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"

	"kaged.dev/pkg/frametype"
)

// TypeScript returns the types for @kaged/client: the messages, the routes with parameters, body and answer, and
// the frames of the sockets by type.
func TypeScript() (string, error) {
	text, err := Document("", false)
	if err != nil {
		return "", err
	}
	var d struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]typed }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return "", err
	}
	frames, schemas, err := frameSchemas(text)
	if err != nil {
		return "", err
	}
	maps.Copy(d.Components.Schemas, schemas)
	renamed := func(name string) string {
		if _, ok := schemas["Frame"+name]; ok {
			return "Frame" + name
		}
		return name
	}
	var out strings.Builder
	out.WriteString("// Generated from the contract by services/gateway/internal/openapi; do not edit.\n\n")
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		s := d.Components.Schemas[name]
		if strings.HasSuffix(name, "Input") && !used(text, name) {
			continue
		}
		fmt.Fprintf(&out, "%sexport interface %s %s\n\n", doc(s.Description, ""), name, s.interfaceOf(""))
	}
	out.WriteString("/** Routes maps \"METHOD /path\" to parameters, body and answer. */\nexport interface Routes {\n")
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			d.Paths[path][method].typescript(&out, strings.ToUpper(method), path)
		}
	}
	for _, list := range []struct {
		doc, name string
		frames    []frametype.Type
	}{
		{"Frames maps the types of frames to their payloads.", "Frames", frames},
		{"SystemFrames maps the types of frames of the system socket to their payloads.", "SystemFrames", frametype.System()},
	} {
		fmt.Fprintf(&out, "}\n\n/** %s */\nexport interface %s {\n", list.doc, list.name)
		for _, t := range list.frames {
			fmt.Fprintf(&out, "  %q: %s;\n", t.Name, renamed(t.Message))
		}
	}
	out.WriteString("}\n")
	return out.String(), nil
}

// used reports whether a description refers to a schema.
func used(document []byte, name string) bool {
	return strings.Contains(string(document), `"#/components/schemas/`+name+`"`)
}

// frameSchemas returns the frame types and the schemas of their payloads. A message with the name of a different
// message of the document gets the prefix Frame.
func frameSchemas(document []byte) ([]frametype.Type, map[string]typed, error) {
	var known struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(document, &known); err != nil {
		return nil, nil, err
	}
	b := &builder{schemas: object{}, paths: object{}}
	if err := json.Unmarshal(contract.Comments, &b.comments); err != nil {
		return nil, nil, err
	}
	messages := apiv1.File_kaged_api_v1_frame_proto.Messages()
	var all []frametype.Type
	for _, t := range frametype.All() {
		m := messages.ByName(protoreflect.Name(t.Message))
		if m == nil {
			continue // its message belongs to another proto file
		}
		b.ref(m, false)
		all = append(all, t)
	}
	for _, t := range frametype.System() {
		if m := apiv1.File_kaged_api_v1_system_socket_proto.Messages().ByName(protoreflect.Name(t.Message)); m != nil {
			b.ref(m, false)
		}
	}
	text, err := json.Marshal(b.schemas)
	if err != nil {
		return nil, nil, err
	}
	for name, schema := range b.schemas {
		other, taken := known.Components.Schemas[name]
		if mine, err := json.Marshal(schema); err != nil || !taken || sameJSON(mine, other) {
			continue
		}
		b.schemas["Frame"+name] = schema
		delete(b.schemas, name)
		text = bytes.ReplaceAll(text, []byte(`/schemas/`+name+`"`), []byte(`/schemas/Frame`+name+`"`))
		text = bytes.ReplaceAll(text, []byte(`"`+name+`":{`), []byte(`"Frame`+name+`":{`))
	}
	var schemas map[string]typed
	return all, schemas, json.Unmarshal(text, &schemas)
}

func sameJSON(a []byte, b any) bool {
	var parsed any
	return json.Unmarshal(a, &parsed) == nil && reflect.DeepEqual(parsed, b)
}

// typed is a schema with the keywords that types need.
type typed struct {
	schema
	Items                *typed
	AnyOf                []typed
	Properties           map[string]typed
	Required             []string
	AdditionalProperties json.RawMessage
}

// interfaceOf returns an object schema as the body of a TypeScript interface.
func (s typed) interfaceOf(indent string) string {
	if len(s.Properties) == 0 {
		return "{}"
	}
	var out strings.Builder
	out.WriteString("{\n")
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[key]
		optional := "?"
		if slices.Contains(s.Required, key) {
			optional = ""
		}
		fmt.Fprintf(&out, "%s%s  %s%s: %s;\n", doc(p.Description, indent+"  "), indent, key, optional,
			p.typescript(indent+"  "))
	}
	out.WriteString(indent + "}")
	return out.String()
}

func (s typed) typescript(indent string) string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case len(s.AnyOf) > 0:
		var kinds []string
		for _, one := range s.AnyOf {
			kinds = append(kinds, one.typescript(indent))
		}
		return strings.Join(kinds, " | ")
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			values = append(values, strconv.Quote(v))
		}
		return strings.Join(values, " | ")
	case s.Items != nil:
		of := s.Items.typescript(indent)
		if strings.Contains(of, " ") {
			return "Array<" + of + ">"
		}
		return of + "[]"
	case len(s.Properties) > 0:
		return s.interfaceOf(indent)
	}
	switch kind := s.Type.(type) {
	case string:
		return s.basic(kind, indent)
	case []any:
		var kinds []string
		for _, one := range kind {
			kinds = append(kinds, s.basic(fmt.Sprint(one), indent))
		}
		return strings.Join(kinds, " | ")
	}
	return "unknown"
}

func (s typed) basic(kind, indent string) string {
	switch kind {
	case "integer":
		return "number"
	case "array":
		return "unknown[]"
	case "object":
		var values typed
		if json.Unmarshal(s.AdditionalProperties, &values) == nil {
			return "Record<string, " + values.typescript(indent) + ">"
		}
		return "Record<string, unknown>"
	}
	return kind
}

// doc returns a description as a doc comment.
func doc(text, indent string) string {
	if text == "" {
		return ""
	}
	return indent + "/** " + strings.ReplaceAll(text, "*/", "* /") + " */\n"
}

// typescript writes a route as a property of Routes. Path parameters are required.
func (o operation) typescript(out *strings.Builder, method, path string) {
	var params []string
	for _, p := range o.Parameters {
		optional := "?"
		if p.In == "path" {
			optional = ""
		}
		params = append(params, fmt.Sprintf("%s%s: %s", p.Name, optional, typed{schema: p.Schema}.typescript("")))
	}
	body := "undefined"
	if media, ok := o.RequestBody.Content["application/json"]; ok {
		body = "{}"
		if len(media.Schema.Properties) > 0 {
			var fields []string
			for _, key := range slices.Sorted(maps.Keys(media.Schema.Properties)) {
				fields = append(fields, fmt.Sprintf("%s?: %s", key, ofSchema(media.Schema.Properties[key])))
			}
			body = "{ " + strings.Join(fields, "; ") + " }"
		}
	}
	var answers []string
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		media, ok := o.Responses[status].Content["application/json"]
		if !ok || !strings.HasPrefix(status, "2") {
			continue
		}
		if kind := ofSchema(media.Schema); !slices.Contains(answers, kind) {
			answers = append(answers, kind)
		}
	}
	if len(answers) == 0 {
		answers = []string{"string"}
	}
	fmt.Fprintf(out, "%s  %q: {\n    params: { %s };\n    body: %s;\n    answer: %s;\n  };\n",
		doc(o.Description, "  "), method+" "+path,
		strings.Join(params, "; "), body, strings.Join(answers, " | "))
}

// ofSchema returns the TypeScript type of a schema.
func ofSchema(s schema) string { return widen(s).typescript("") }

func widen(s schema) typed {
	t := typed{schema: s}
	if s.Items != nil {
		items := widen(*s.Items)
		t.Items = &items
	}
	for _, one := range s.AnyOf {
		t.AnyOf = append(t.AnyOf, widen(one))
	}
	if len(s.Properties) > 0 {
		t.Properties = map[string]typed{}
		for key, p := range s.Properties {
			t.Properties[key] = widen(p)
		}
	}
	return t
}
