// Package schema derives the JSON Schema for the model and the typed parameters of a tool from one definition: a Go
// struct and its tags.
//
// A field's name is its json tag; a field without omitempty is required. Further tags: doc (description), default, min,
// max, enum (comma separated). Objects take no other properties. Integers are [Int], which reads 3.0 as 3, as JSON
// Schema does.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/jsondepth"
)

// Schema is the schema of one Go type, or of parameters that are known only at run time. It is immutable and safe for
// concurrent use.
type Schema struct {
	document map[string]any
	compiled func() *jsonschema.Schema
	defaults map[int]reflect.Value // by field index
	plain    map[string]int        // index by name of the fields of type string or bool
}

// Of returns the schema of T, a struct. It panics on a type that it cannot describe, which is a defect in the program.
func Of[T any]() *Schema {
	typ := reflect.TypeFor[T]()
	document := object(typ)
	// The schema is compiled at its first use, because a command that calls one tool does not need the schemas of all
	// tools.
	compiled := sync.OnceValue(func() *jsonschema.Schema {
		compiled, err := compile(document)
		if err != nil {
			panic(fmt.Sprintf("schema of %s: %v", typ, err))
		}
		return compiled
	})
	return &Schema{document: document, compiled: compiled, defaults: defaults(typ), plain: plainFields(typ)}
}

// New returns the schema of document, which describes an object. [Schema.Decode] decodes it into maps.
func New(document map[string]any) (*Schema, error) {
	compiled, err := compile(document)
	if err != nil {
		return nil, err
	}
	return &Schema{document: document, compiled: func() *jsonschema.Schema { return compiled }}, nil
}

func compile(document map[string]any) (*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	// The compiler needs numbers of the types that its own reader returns.
	if err := compiler.AddResource("params.json", normal(document)); err != nil {
		return nil, err
	}
	return compiler.Compile("params.json")
}

// Document returns the schema as plain JSON values. The caller must not change it.
func (s *Schema) Document() map[string]any { return s.document }

// Input is the input of a call.
type Input struct {
	// Text is the input as the model wrote it.
	Text []byte
	// Value is the parsed text, of plain JSON types, with numbers as int64 or float64. Err is the reason for no value.
	Value any
	Err   error
}

// Parse parses the input of a call.
func Parse(text []byte) *Input {
	value, err := parse(text)
	return &Input{text, value, err}
}

// Decode validates input against the schema and reads it into into, a pointer to the schema's type, or to a map for a
// schema without a type; what the map holds is part of input.Value. Absent fields get their defaults. Blank input
// counts as an empty object, because some models call a tool without parameters in this way. Decode fails with
// invalid_params, also for input that nests deeper than [jsondepth.Max]; details.fields has the error of each field.
func (s *Schema) Decode(input *Input, into any) error {
	if len(bytes.TrimSpace(input.Text)) == 0 {
		input = Parse([]byte("{}"))
	}
	if depth := jsondepth.Of(input.Text); depth > jsondepth.Max {
		return fault.New(fault.InvalidParams, "The input nests %d levels deep, and the limit is %d. Pass a flatter value, "+
			"or the nested one as a text.",
			depth, jsondepth.Max).
			With("limit", jsondepth.Max)
	}
	value, err := input.Value, input.Err
	if err != nil {
		return notJSON(err)
	}
	if err := s.Check(value); err != nil {
		return err
	}
	target := reflect.ValueOf(into).Elem()
	if target.Kind() == reflect.Map {
		target.Set(reflect.ValueOf(s.withDefaults(value.(map[string]any))).Convert(target.Type()))
		return nil
	}
	for i, v := range s.defaults {
		target.Field(i).Set(v)
	}
	if s.fill(target, value.(map[string]any)) {
		return nil
	}
	if err := json.Unmarshal(input.Text, into); err != nil {
		return notJSON(err)
	}
	return nil
}

// fill sets the fields of a struct if all values are of plain fields, and reports whether it did. It saves reading the
// input again, which for a long text takes as long as the first time.
func (s *Schema) fill(target reflect.Value, values map[string]any) bool {
	for name, value := range values {
		i, plain := s.plain[name]
		if !plain || reflect.TypeOf(value) != target.Field(i).Type() {
			return false
		}
	}
	for name, value := range values {
		target.Field(s.plain[name]).Set(reflect.ValueOf(value))
	}
	return true
}

// plainFields returns the fields of a struct that encoding/json sets to the very value that it reads.
func plainFields(typ reflect.Type) map[string]int {
	plain := map[string]int{}
	for f := range fields(typ) {
		switch typ.Field(f.index).Type {
		case reflect.TypeFor[string](), reflect.TypeFor[bool]():
			plain[f.name] = f.index
		}
	}
	return plain
}

// withDefaults returns an object that the schema has accepted, with the defaults of absent properties.
func (s *Schema) withDefaults(values map[string]any) map[string]any {
	values = maps.Clone(values)
	properties, _ := s.document["properties"].(map[string]any)
	for name, property := range properties {
		if _, given := values[name]; given {
			continue
		}
		if p, _ := property.(map[string]any); p["default"] != nil {
			values[name] = p["default"]
		}
	}
	return values
}

// Check validates a value of plain JSON types (numbers as int64 or float64) and fails as [Schema.Decode] does.
func (s *Schema) Check(value any) error {
	if err := s.compiled().Validate(value); err != nil {
		return invalid(err)
	}
	return nil
}

// parse reads exactly one JSON value. Numbers become int64 or float64, because exact arithmetic on hostile numbers,
// such as 1e999999999, takes too long.
func parse(input []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	return plain(value)
}

func plain(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("the number %.40s is out of range", v)
		}
		return f, nil
	case []any:
		for i := range v {
			if v[i], err = plain(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = plain(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// normal returns document in the form in which the decoder would have read it.
func normal(document map[string]any) any {
	text, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	value, err := parse(text)
	if err != nil {
		panic(err)
	}
	return value
}

func object(typ reflect.Type) map[string]any {
	properties, required := map[string]any{}, []any{}
	for f := range fields(typ) {
		property := describe(f.typ)
		f.annotate(property)
		properties[f.name] = property
		if f.required {
			required = append(required, f.name)
		}
	}
	document := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		document["required"] = required
	}
	return document
}

func describe(typ reflect.Type) map[string]any {
	switch {
	case typ == reflect.TypeFor[Int]():
		return map[string]any{"type": "integer"}
	case typ == reflect.TypeFor[Pairs]():
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}, "minProperties": 1}
	case typ.Kind() == reflect.Pointer:
		return describe(typ.Elem())
	case typ.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case typ.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case typ.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	case typ.Kind() >= reflect.Int && typ.Kind() <= reflect.Int64:
		return map[string]any{"type": "integer"}
	case typ.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": describe(typ.Elem())}
	case typ.Kind() == reflect.Map && typ.Key().Kind() == reflect.String:
		return map[string]any{"type": "object", "additionalProperties": describe(typ.Elem())}
	case typ.Kind() == reflect.Struct:
		return object(typ)
	case typ.Kind() == reflect.Interface:
		return map[string]any{} // any value
	}
	panic("schema: cannot describe " + typ.String())
}

type field struct {
	index    int
	name     string
	typ      reflect.Type
	tag      reflect.StructTag
	required bool
}

// fields yields the fields of a struct that are part of its JSON.
func fields(typ reflect.Type) func(func(field) bool) {
	return func(yield func(field) bool) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" || name == "" {
				continue
			}
			if !yield(field{i, name, f.Type, f.Tag, !strings.Contains(options, "omitempty")}) {
				return
			}
		}
	}
}

// annotate adds the field's tags to a property.
func (f field) annotate(property map[string]any) {
	if doc := f.tag.Get("doc"); doc != "" {
		property["description"] = doc
	}
	if text, ok := f.tag.Lookup("default"); ok {
		property["default"] = literal(f.typ, text)
	}
	for tag, keyword := range map[string]string{"min": "minimum", "max": "maximum"} {
		if text, ok := f.tag.Lookup(tag); ok {
			property[keyword] = literal(f.typ, text)
		}
	}
	if enum := f.tag.Get("enum"); enum != "" {
		var values []any
		for v := range strings.SplitSeq(enum, ",") {
			values = append(values, v)
		}
		property["enum"] = values
	}
}

func defaults(typ reflect.Type) map[int]reflect.Value {
	values := map[int]reflect.Value{}
	for f := range fields(typ) {
		if text, ok := f.tag.Lookup("default"); ok {
			values[f.index] = reflect.ValueOf(literal(f.typ, text)).Convert(f.typ)
		}
	}
	return values
}

// literal reads a tag's text as a value of the field's type.
func literal(typ reflect.Type, text string) any {
	switch typ.Kind() {
	case reflect.String:
		return text
	case reflect.Bool:
		return text == "true"
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic("schema: bad tag value " + text)
		}
		return f
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("schema: bad tag value " + text)
	}
	return n
}
