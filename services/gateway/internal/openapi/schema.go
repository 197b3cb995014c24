package openapi

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/wirejson"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// ref returns a reference to the schema of a message, and adds the schema if it is missing. Schemas of input have
// no required keys.
func (b *builder) ref(m protoreflect.MessageDescriptor, input bool) object {
	switch m.FullName() {
	case "google.protobuf.Value":
		return object{}
	case "google.protobuf.Struct":
		return object{"type": "object"}
	case "google.protobuf.ListValue":
		return object{"type": "array"}
	}
	name := string(m.Name())
	if input {
		name += "Input"
	}
	if _, known := b.schemas[name]; !known {
		b.schemas[name] = object{} // ends the recursion of a message that contains itself
		b.schemas[name] = b.message(m, input, nil)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// body returns the schema of a request's body. It leaves out the fields that are in the path.
func (b *builder) body(m protoreflect.MessageDescriptor, inPath map[protoreflect.Name]bool) object {
	return b.message(m, true, inPath)
}

func (b *builder) message(m protoreflect.MessageDescriptor, input bool, without map[protoreflect.Name]bool) object {
	properties, required := object{}, []any{}
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		if without[fd.Name()] {
			continue
		}
		key := wirejson.Key(fd)
		oneof := fd.ContainingOneof()
		skipped := proto.GetExtension(fd.Options(), commonv1.E_OmitEmpty).(bool) || oneof != nil &&
			!oneof.IsSynthetic()
		schema := b.field(fd, input)
		if input || fd.HasPresence() && !skipped {
			schema = nullable(schema)
		}
		properties[key] = described(schema, b.comments[string(fd.FullName())])
		if !input && !skipped {
			required = append(required, key)
		}
	}
	schema := described(object{"type": "object", "properties": properties}, b.comments[string(m.FullName())])
	if len(required) > 0 {
		schema["required"] = required
	}
	if b.strict && !input {
		schema["additionalProperties"] = false
	}
	return schema
}

func described(schema object, text string) object {
	if text == "" {
		return schema
	}
	schema["description"] = text // OpenAPI 3.1 allows it beside a $ref
	return schema
}

// nullable returns a schema that also accepts null.
func nullable(schema object) object {
	if len(schema) == 0 {
		return schema // an empty schema accepts null already
	}
	if kind, ok := schema["type"].(string); ok && schema["enum"] == nil {
		schema["type"] = []any{kind, "null"}
		return schema
	}
	return object{"anyOf": []any{schema, object{"type": "null"}}}
}

func (b *builder) field(fd protoreflect.FieldDescriptor, input bool) object {
	switch {
	case fd.IsList():
		return object{"type": "array", "items": b.one(fd, input)}
	case fd.IsMap():
		return object{"type": "object", "additionalProperties": b.one(fd.MapValue(), input)}
	}
	return b.one(fd, input)
}

// one returns the schema of a single value of a field, ignoring that the field repeats.
func (b *builder) one(fd protoreflect.FieldDescriptor, input bool) object {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return object{"type": "number"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.BytesKind:
		if proto.GetExtension(fd.Options(), commonv1.E_RawJson).(bool) {
			return object{}
		}
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.EnumKind:
		return object{"type": "string", "enum": names(fd.Enum(), input)}
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return b.ref(fd.Message(), input)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return object{"type": "integer", "format": "int32"}
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return object{"type": "integer", "minimum": 0}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return object{"type": "integer", "format": "int64"}
	}
	return object{}
}

// names returns the values of an enum in their JSON form. Input does not accept the unspecified value.
func names(e protoreflect.EnumDescriptor, input bool) []any {
	var list []any
	for i := range e.Values().Len() {
		if n := e.Values().Get(i).Number(); n != 0 || !input {
			list = append(list, wirejson.EnumName(e, n))
		}
	}
	return list
}
