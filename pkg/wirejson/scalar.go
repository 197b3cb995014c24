package wirejson

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
)

// unprocessable is the HTTP status of a number out of range.
const unprocessable = 422

// Invalid returns the fault.ValidationFailed of one field: path goes into details.fields.
func Invalid(path, format string, args ...any) *fault.Error {
	return fault.New(fault.ValidationFailed, format, args...).With("fields", []string{path})
}

func invalid(at *path, format string, args ...any) error {
	return Invalid(at.String(), format, args...)
}

func mismatch(at *path, want string, got json.Token) error {
	if at == nil {
		return fault.New(fault.ValidationFailed, "The JSON must be %s, not %s.", want, describe(got)).
			With("fields", []string{})
	}
	return invalid(at, "%s must be %s, not %s.", at, want, describe(got))
}

func describe(tok json.Token) string {
	switch tok {
	case nil:
		return "null"
	case json.Delim('{'):
		return "an object"
	case json.Delim('['):
		return "an array"
	}
	switch tok.(type) {
	case string:
		return "a string"
	case json.Number:
		return "a number"
	}
	return "a boolean"
}

// scalar decodes a value that is neither list, map nor message.
func scalar(tok json.Token, fd protoreflect.FieldDescriptor, enum *enumTable, at *path) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if b, ok := tok.(bool); ok {
			return protoreflect.ValueOfBool(b), nil
		}
		return protoreflect.Value{}, mismatch(at, "true or false", tok)
	case protoreflect.StringKind:
		if s, ok := tok.(string); ok {
			return protoreflect.ValueOfString(s), nil
		}
		return protoreflect.Value{}, mismatch(at, "a string", tok)
	case protoreflect.BytesKind:
		return bytesOf(tok, at)
	case protoreflect.EnumKind:
		return enumValue(tok, enum, at)
	}
	n, ok := tok.(json.Number)
	if !ok {
		return protoreflect.Value{}, mismatch(at, "a number", tok)
	}
	return number(string(n), fd.Kind(), at)
}

func bytesOf(tok json.Token, at *path) (protoreflect.Value, error) {
	s, ok := tok.(string)
	if !ok {
		return protoreflect.Value{}, mismatch(at, "a base64 string", tok)
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return protoreflect.Value{}, invalid(at, "%s is not base64.", at)
	}
	return protoreflect.ValueOfBytes(b), nil
}

func enumValue(tok json.Token, enum *enumTable, at *path) (protoreflect.Value, error) {
	s, ok := tok.(string)
	if !ok {
		return protoreflect.Value{}, mismatch(at, "a string", tok)
	}
	n, ok := enum.values[s]
	if !ok {
		names := strings.Join(slices.Sorted(maps.Keys(enum.values)), ", ")
		return protoreflect.Value{}, invalid(at, "%s must be one of %s.", at, names)
	}
	return protoreflect.ValueOfEnum(n), nil
}

func number(s string, kind protoreflect.Kind, at *path) (protoreflect.Value, error) {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		n, err := signed(s, 32, at)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		n, err := signed(s, 64, at)
		return protoreflect.ValueOfInt64(n), err
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		n, err := unsigned(s, 32, at)
		return protoreflect.ValueOfUint32(uint32(n)), err
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		n, err := unsigned(s, 64, at)
		return protoreflect.ValueOfUint64(n), err
	case protoreflect.FloatKind:
		f, err := floating(s, 32, at)
		return protoreflect.ValueOfFloat32(float32(f)), err
	case protoreflect.DoubleKind:
		f, err := floating(s, 64, at)
		return protoreflect.ValueOfFloat64(f), err
	}
	return protoreflect.Value{}, fault.New(fault.Internal, "The field %s has a type without a JSON form.", at)
}

func signed(s string, bits int, at *path) (int64, error) {
	n, err := strconv.ParseInt(s, 10, bits)
	if err == nil {
		return n, nil
	}
	f, err := whole(s, at)
	if err != nil {
		return 0, err
	}
	if n := int64(f); math.Abs(f) <= 1<<53 && (bits == 64 || n == int64(int32(n))) {
		return n, nil
	}
	return 0, outOfRange(at)
}

func unsigned(s string, bits int, at *path) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, bits)
	if err == nil {
		return n, nil
	}
	f, err := whole(s, at)
	if err != nil {
		return 0, err
	}
	if n := uint64(max(f, 0)); f >= 0 && f <= 1<<53 && (bits == 64 || n == uint64(uint32(n))) {
		return n, nil
	}
	return 0, outOfRange(at)
}

// whole parses an integer that is not in plain digits, such as 1.0 or 1e3, or that is out of range.
func whole(s string, at *path) (float64, error) {
	f, err := floating(s, 64, at)
	if err != nil {
		return 0, err
	}
	if f != math.Trunc(f) {
		return 0, invalid(at, "%s must be a whole number.", at)
	}
	return f, nil
}

func floating(s string, bits int, at *path) (float64, error) {
	f, err := strconv.ParseFloat(s, bits)
	if errors.Is(err, strconv.ErrRange) {
		return 0, outOfRange(at)
	}
	if err != nil {
		return 0, invalid(at, "%s must be a number.", at)
	}
	return f, nil
}

func outOfRange(at *path) error {
	return Invalid(at.String(), "%s is out of range.", at).WithHTTP(unprocessable)
}

func mapKey(key string, fd protoreflect.FieldDescriptor, at *path) (protoreflect.MapKey, error) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(key).MapKey(), nil
	case protoreflect.BoolKind:
		if key == "true" || key == "false" {
			return protoreflect.ValueOfBool(key == "true").MapKey(), nil
		}
		return protoreflect.MapKey{}, invalid(at, "%s must be true or false.", at)
	}
	if strings.Trim(key, "-0123456789") != "" {
		return protoreflect.MapKey{}, invalid(at, "%s must be a whole number.", at)
	}
	v, err := number(key, fd.Kind(), at)
	if err != nil {
		return protoreflect.MapKey{}, err
	}
	return v.MapKey(), nil
}

// value decodes any JSON. A large integer has the precision of a float64, because google.protobuf.Value has no other.
func (d decoder) value(tok json.Token, v *structpb.Value, at *path) error {
	switch t := tok.(type) {
	case nil:
		v.Kind = &structpb.Value_NullValue{}
	case bool:
		v.Kind = &structpb.Value_BoolValue{BoolValue: t}
	case string:
		v.Kind = &structpb.Value_StringValue{StringValue: t}
	case json.Number:
		f, err := floating(string(t), 64, at)
		if err != nil {
			return err
		}
		v.Kind = &structpb.Value_NumberValue{NumberValue: f}
	case json.Delim:
		if t == '[' {
			list := &structpb.ListValue{}
			v.Kind = &structpb.Value_ListValue{ListValue: list}
			return d.listValue(list, at)
		}
		s := &structpb.Struct{}
		v.Kind = &structpb.Value_StructValue{StructValue: s}
		return d.structure(s, at)
	}
	return nil
}

func (d decoder) listValue(l *structpb.ListValue, at *path) error {
	return d.array(at, func(at *path, tok json.Token) error {
		v := &structpb.Value{}
		l.Values = append(l.Values, v)
		return d.value(tok, v, at)
	})
}

func (d decoder) structure(s *structpb.Struct, at *path) error {
	s.Fields = map[string]*structpb.Value{}
	return d.object(at, func(at *path, tok json.Token) error {
		if _, twice := s.Fields[at.key]; twice {
			return invalid(at, "%s is given twice.", at)
		}
		v := &structpb.Value{}
		s.Fields[at.key] = v
		return d.value(tok, v, at)
	})
}
