// Package structs converts any Go map to a google.protobuf.Struct. It always succeeds, so that no value of a model, a
// tool or a provider prevents a record or an error from being sent.
package structs

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/jsondepth"
)

// MaxDepth is the maximum nesting of objects and lists in a result of [Of]. Protobuf refuses messages nested more than
// 10,000 levels deep, and each level here is three of them.
const MaxDepth = jsondepth.Max

// Of converts fields to a Struct; nil stays nil. Lists and maps of any Go type become lists and objects. Bytes that are
// not UTF-8 become U+FFFD. A value without a JSON form, or nested deeper than [MaxDepth], becomes a text.
func Of(fields map[string]any) *structpb.Struct {
	if fields == nil {
		return nil
	}
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(fields))}
	for k, v := range fields {
		s.Fields[valid(k)] = value(v, MaxDepth-1)
	}
	return s
}

func value(v any, depth int) *structpb.Value {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String:
		if _, number := v.(json.Number); !number {
			return structpb.NewStringValue(valid(r.String()))
		}
	case reflect.Slice, reflect.Array:
		if r.Type().Elem().Kind() == reflect.Uint8 {
			break // bytes become a text
		}
		if depth <= 0 {
			return tooDeep()
		}
		list := make([]*structpb.Value, r.Len())
		for i := range list {
			list[i] = value(r.Index(i).Interface(), depth-1)
		}
		return structpb.NewListValue(&structpb.ListValue{Values: list})
	case reflect.Map:
		if depth <= 0 {
			return tooDeep()
		}
		fields := make(map[string]*structpb.Value, r.Len())
		for entries := r.MapRange(); entries.Next(); {
			fields[valid(fmt.Sprint(entries.Key().Interface()))] = value(entries.Value().Interface(), depth-1)
		}
		return structpb.NewStructValue(&structpb.Struct{Fields: fields})
	case reflect.Float32, reflect.Float64:
		if f := r.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return structpb.NewStringValue(fmt.Sprint(f))
		}
	}
	if pv, err := structpb.NewValue(v); err == nil {
		return pv
	}
	return structpb.NewStringValue(valid(fmt.Sprint(v)))
}

func tooDeep() *structpb.Value {
	return structpb.NewStringValue(fmt.Sprintf("[nested deeper than %d levels]", MaxDepth))
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
