package rpc

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// Options are the options of a method in the contract.
type Options struct {
	// WithoutOperator and WithoutStorage are the options of kaged.common.v1 with these names.
	WithoutOperator, WithoutStorage bool
}

// OptionsOf returns the options of a method with the full name "/package.Service/Method". An unknown method has no
// options.
func OptionsOf(fullMethod string) Options {
	m := methodOf(fullMethod)
	if m == nil {
		return Options{}
	}
	of := func(option protoreflect.ExtensionType) bool {
		return proto.GetExtension(m.Options(), option).(bool)
	}
	return Options{WithoutOperator: of(commonv1.E_WithoutOperator), WithoutStorage: of(commonv1.E_WithoutStorage)}
}
