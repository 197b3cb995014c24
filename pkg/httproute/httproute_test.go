package httproute_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"kaged.dev/pkg/httproute"
)

// An RPC has the route of its option, and those of the additional bindings after it.
func TestOf(t *testing.T) {
	t.Parallel()
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, annotations.E_Http, &annotations.HttpRule{
		Pattern: &annotations.HttpRule_Patch{Patch: "/files/{path=**}"}, Body: "*", ResponseBody: "file",
		AdditionalBindings: []*annotations.HttpRule{{Pattern: &annotations.HttpRule_Get{Get: "/f/{path}"}}},
	})
	got := httproute.Of(method(t, options))
	want := []httproute.Route{
		{Method: "PATCH", Path: "/files/{path=**}", Body: "*", Answer: "file"}, {Method: "GET", Path: "/f/{path}"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if p, of := got[0].Pattern(), got[0].Template(); p != "PATCH /files/{path...}" || of != "/files/{path}" {
		t.Errorf("got the pattern %s and the template %s", p, of)
	}
	if got := httproute.Of(method(t, nil)); got != nil {
		t.Errorf("got %v for an RPC without a route", got)
	}
}

// method returns an RPC with options.
func method(t *testing.T, options *descriptorpb.MethodOptions) protoreflect.MethodDescriptor {
	t.Helper()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Package: proto.String("a"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{{
				Name: proto.String("R"), InputType: proto.String(".a.M"), OutputType: proto.String(".a.M"), Options: options,
			}},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Services().Get(0).Methods().Get(0)
}
