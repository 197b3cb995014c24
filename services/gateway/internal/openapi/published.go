package openapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/proto/gen/backends"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// Published returns the current parts of the API that clients can see, a line each, sorted: these routes, and the
// messages, fields, values and error codes of the contract.
func Published(routes []string) []string {
	p := publication{}
	for _, route := range routes {
		p["route "+route] = true
	}
	codes := commonv1.ErrorCode(0).Descriptor().Values()
	for i := range codes.Len() {
		p["error "+strings.ToLower(strings.TrimPrefix(string(codes.Get(i).Name()), "ERROR_CODE_"))] = true
	}
	for _, backend := range backends.All() {
		for _, service := range backend.Services {
			for i := range service.Methods().Len() {
				p.message(service.Methods().Get(i).Output())
			}
		}
	}
	for _, file := range []protoreflect.FileDescriptor{
		apiv1.File_kaged_api_v1_daemon_proto, apiv1.File_kaged_api_v1_error_proto, apiv1.File_kaged_api_v1_frame_proto,
		apiv1.File_kaged_api_v1_operator_proto,
	} {
		for i := range file.Messages().Len() {
			p.message(file.Messages().Get(i))
		}
	}
	return slices.Sorted(maps.Keys(p))
}

// publication is a set of lines.
type publication map[string]bool

// message adds the fields of a message and of the messages in its fields.
func (p publication) message(m protoreflect.MessageDescriptor) {
	if !strings.HasPrefix(string(m.FullName()), "kaged.") || p["message "+string(m.FullName())] {
		return
	}
	p["message "+string(m.FullName())] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		p[fmt.Sprintf("field %s.%s %s", m.FullName(), f.Name(), kindOf(f))] = true
		if f.IsMap() {
			f = f.MapValue()
		}
		if f.Message() != nil {
			p.message(f.Message())
		}
		if e := f.Enum(); e != nil && e.FullName() != commonv1.ErrorCode(0).Descriptor().FullName() {
			for j := range e.Values().Len() {
				p[fmt.Sprintf("value %s %s", e.FullName(), e.Values().Get(j).Name())] = true
			}
		}
	}
}

func kindOf(f protoreflect.FieldDescriptor) string {
	one := func(f protoreflect.FieldDescriptor) string {
		switch {
		case proto.GetExtension(f.Options(), commonv1.E_RawJson).(bool):
			return "google.protobuf.Value" // clients see any JSON
		case f.Message() != nil:
			return string(f.Message().FullName())
		case f.Enum() != nil:
			return string(f.Enum().FullName())
		}
		return f.Kind().String()
	}
	switch {
	case f.IsMap():
		return "map of " + one(f.MapValue())
	case f.IsList():
		return "list of " + one(f)
	}
	return one(f)
}
