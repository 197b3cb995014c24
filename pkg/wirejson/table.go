package wirejson

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// table holds the facts about a message type for encoding and decoding, computed once.
type table struct {
	fields []field
	byName map[string]int // index into fields
}

type field struct {
	fd       protoreflect.FieldDescriptor
	name     string
	key      string // the quoted name with the colon
	kind     protoreflect.Kind
	enum     *enumTable
	list     bool
	mapped   bool
	presence bool // unset and empty are distinguishable
	skip     bool // leave the key out while unset or empty
	member   bool // whether it belongs to a oneof
	raw      bool // the bytes are JSON
}

type enumTable struct {
	names  map[protoreflect.EnumNumber]string
	values map[string]protoreflect.EnumNumber
	zero   string
}

// tables holds *table by protoreflect.MessageDescriptor, enums *enumTable by protoreflect.EnumDescriptor. They are
// filled on first use and immutable.
var tables, enums sync.Map

func tableOf(md protoreflect.MessageDescriptor) *table {
	if t, ok := tables.Load(md); ok {
		return t.(*table)
	}
	t := newTable(md)
	tables.Store(md, t)
	return t
}

func newTable(md protoreflect.MessageDescriptor) *table {
	fds := md.Fields()
	t := &table{fields: make([]field, fds.Len()), byName: make(map[string]int, fds.Len())}
	for i := range t.fields {
		fd := fds.Get(i)
		oneof := fd.ContainingOneof()
		name := Key(fd)
		t.byName[name] = i
		t.fields[i] = field{
			fd:       fd,
			name:     name,
			key:      `"` + name + `":`,
			kind:     fd.Kind(),
			list:     fd.IsList(),
			mapped:   fd.IsMap(),
			presence: fd.HasPresence(),
			skip:     proto.GetExtension(fd.Options(), commonv1.E_OmitEmpty).(bool),
			member:   oneof != nil && !oneof.IsSynthetic(),
			raw:      fd.Kind() == protoreflect.BytesKind && proto.GetExtension(fd.Options(), commonv1.E_RawJson).(bool),
		}
		if ed := fd.Enum(); ed != nil {
			t.fields[i].enum = enumOf(ed)
		}
	}
	return t
}

// Key returns the key of a field in JSON: its (kaged.common.v1.json_key), or its name.
func Key(fd protoreflect.FieldDescriptor) string {
	if key, _ := proto.GetExtension(fd.Options(), commonv1.E_JsonKey).(string); key != "" {
		return key
	}
	return string(fd.Name())
}

func enumOf(ed protoreflect.EnumDescriptor) *enumTable {
	if t, ok := enums.Load(ed); ok {
		return t.(*enumTable)
	}
	t := newEnumTable(ed)
	enums.Store(ed, t)
	return t
}

func newEnumTable(ed protoreflect.EnumDescriptor) *enumTable {
	values := ed.Values()
	t := &enumTable{
		names:  make(map[protoreflect.EnumNumber]string, values.Len()),
		values: make(map[string]protoreflect.EnumNumber, values.Len()),
	}
	prefix := enumPrefix(values)
	for i := range values.Len() {
		v := values.Get(i)
		name, _ := proto.GetExtension(v.Options(), commonv1.E_JsonValue).(string)
		if name == "" {
			name = strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
		}
		if _, alias := t.names[v.Number()]; !alias {
			t.names[v.Number()] = name
		}
		t.values[name] = v.Number()
	}
	t.zero = t.names[values.Get(0).Number()]
	return t
}

// enumPrefix is the part of the zero value's name before UNSPECIFIED; by the style of the protos it is every value's
// prefix.
func enumPrefix(values protoreflect.EnumValueDescriptors) string {
	prefix, _ := strings.CutSuffix(string(values.Get(0).Name()), "UNSPECIFIED")
	return prefix
}

// name returns the spelling of n, the zero value's for an unknown number.
func (t *enumTable) name(n protoreflect.EnumNumber) string {
	if name, ok := t.names[n]; ok {
		return name
	}
	return t.zero
}

// EnumName returns the name of an enum's value in JSON.
func EnumName(ed protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	return enumOf(ed).name(n)
}
