package server

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/wirejson"
)

// queryParser sets fields of a request from the query, as strictly as from a body: a parameter appears once and has
// the field's type. Only fields with a single value can be parameters. Unknown parameters are ignored.
type queryParser struct{}

// Parse implements runtime.QueryParameterParser. It fails with fault.ValidationFailed, after [flatten].
func (queryParser) Parse(msg proto.Message, values url.Values, filter *utilities.DoubleArray) error {
	m := msg.ProtoReflect()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if fd == nil || fd.IsList() || fd.IsMap() || fd.Message() != nil || filter.HasCommonPrefix([]string{name}) {
			continue
		}
		if len(values[name]) != 1 {
			return flatten(wirejson.Invalid(name, "%s is given more than once.", name))
		}
		v, err := parameter(fd, name, values[name][0])
		if err != nil {
			return flatten(err)
		}
		m.Set(fd, v)
	}
	return nil
}

func parameter(fd protoreflect.FieldDescriptor, name, value string) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if value != "true" && value != "false" {
			return protoreflect.Value{}, wirejson.Invalid(name, "%s must be true or false.", name)
		}
		return protoreflect.ValueOfBool(value == "true"), nil
	case protoreflect.Int32Kind:
		n, err := integer(name, value, 32)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind:
		n, err := integer(name, value, 64)
		return protoreflect.ValueOfInt64(n), err
	case protoreflect.StringKind:
		if !utf8.ValidString(value) {
			return protoreflect.Value{}, wirejson.Invalid(name, "%s must be valid UTF-8 text.", name)
		}
		return protoreflect.ValueOfString(value), nil
	}
	return protoreflect.Value{}, wirejson.Invalid(name, "%s cannot be a query parameter.", name)
}

func integer(name, value string, bits int) (int64, error) {
	n, err := strconv.ParseInt(value, 10, bits)
	if err != nil {
		return 0, wirejson.Invalid(name, "%s must be a whole number of %d bits.", name, bits)
	}
	return n, nil
}
