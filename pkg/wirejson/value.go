package wirejson

import (
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"
)

// appendValue appends v as JSON, null if it is empty.
func appendValue(dst []byte, v *structpb.Value) ([]byte, error) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return AppendString(dst, k.StringValue), nil
	case *structpb.Value_NumberValue:
		return appendFloat(dst, k.NumberValue, 64, "value")
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(dst, k.BoolValue), nil
	case *structpb.Value_StructValue:
		return appendStruct(dst, k.StructValue)
	case *structpb.Value_ListValue:
		return appendListValue(dst, k.ListValue)
	}
	return append(dst, "null"...), nil
}

func appendStruct(dst []byte, s *structpb.Struct) ([]byte, error) {
	dst = append(dst, '{')
	var err error
	for i, k := range slices.Sorted(maps.Keys(s.GetFields())) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, k), ':')
		if dst, err = appendValue(dst, s.GetFields()[k]); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendListValue(dst []byte, l *structpb.ListValue) ([]byte, error) {
	dst = append(dst, '[')
	var err error
	for i, v := range l.GetValues() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(dst, v); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}
