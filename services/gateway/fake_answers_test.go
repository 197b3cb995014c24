package gateway_test

import (
	"context"
	"slices"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// answering registers services on a fake. RPCs with an HTTP route answer as set by [manager.replies], so a new
// route needs no method in the fake. Other RPCs call the manager's methods.
type answering struct {
	grpc.ServiceRegistrar
	manager *manager
}

// RegisterService implements grpc.ServiceRegistrar.
func (a answering) RegisterService(desc *grpc.ServiceDesc, impl any) {
	own := *desc
	own.Methods = slices.Clone(desc.Methods)
	for i, method := range own.Methods {
		name := protoreflect.FullName(desc.ServiceName).Append(protoreflect.Name(method.MethodName))
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			panic(err)
		}
		if rpc := found.(protoreflect.MethodDescriptor); proto.HasExtension(rpc.Options(), annotations.E_Http) {
			own.Methods[i].Handler = a.manager.handler(rpc)
		}
	}
	a.ServiceRegistrar.RegisterService(&own, impl)
}

// handler returns a handler that answers calls of rpc with [manager.reply].
func (m *manager) handler(rpc protoreflect.MethodDescriptor) grpc.MethodHandler {
	info := &grpc.UnaryServerInfo{
		Server: m, FullMethod: "/" + string(rpc.Parent().FullName()) + "/" + string(rpc.Name()),
	}
	handle := func(ctx context.Context, req any) (any, error) {
		return m.reply(ctx, req.(proto.Message), rpc.Output().FullName())
	}
	return func(_ any, ctx context.Context, dec func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		input, err := protoregistry.GlobalTypes.FindMessageByName(rpc.Input().FullName())
		if err != nil {
			return nil, err
		}
		req := input.New().Interface()
		if err := dec(req); err != nil {
			return nil, err
		}
		if intercept == nil {
			return handle(ctx, req)
		}
		return intercept(ctx, req, info, handle)
	}
}

// reply stores the request of an RPC with a route, and answers it. want is the expected type of the answer.
func (m *manager) reply(ctx context.Context, req proto.Message, want protoreflect.FullName) (proto.Message, error) {
	m.mu.Lock()
	m.asked = append(m.asked, req)
	m.callers = append(m.callers, ident.CallerFrom(ctx))
	answer := m.answer
	m.mu.Unlock()
	if answer == nil {
		return nil, fault.New(fault.NotFound, "The test has no answer to this.")
	}
	msg, err := answer(ctx, req)
	if err != nil {
		return nil, err
	}
	if got := msg.ProtoReflect().Descriptor().FullName(); got != want {
		return nil, fault.New(fault.Internal, "The test answers with a %s, want %s.", got, want)
	}
	return msg, nil
}
