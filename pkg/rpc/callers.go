package rpc

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// healthService is the service that every identity may call, because clients check the health of replicas.
const healthService = "grpc.health.v1.Health"

// CallersOf returns the services that may call a method between hosts, by the options callers and only_callers of the
// contract. An unknown method has no caller.
func CallersOf(fullMethod string) []string {
	m := methodOf(fullMethod)
	if m == nil {
		return nil
	}
	list := proto.GetExtension(m.Options(), commonv1.E_OnlyCallers).([]commonv1.Service)
	if len(list) == 0 {
		list = proto.GetExtension(m.Parent().Options(), commonv1.E_Callers).([]commonv1.Service)
	}
	var names []string
	for _, s := range list {
		names = append(names, mtls.Name(s))
	}
	return names
}

// methodOf returns the descriptor of a method by its full name, nil for an unknown one.
func methodOf(fullMethod string) protoreflect.MethodDescriptor {
	name := strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	m, _ := found.(protoreflect.MethodDescriptor)
	return m
}

// isHealth reports whether a method belongs to the health service.
func isHealth(fullMethod string) bool { return strings.HasPrefix(fullMethod, "/"+healthService+"/") }

// permit applies the caller table. It fails with forbidden, details.reason caller_not_allowed.
func permit(id mtls.Identity, fullMethod string) error {
	if id.Service == mtls.Debug || isHealth(fullMethod) {
		return nil
	}
	callers := CallersOf(fullMethod)
	if slices.Contains(callers, id.Service) {
		return nil
	}
	who := "a debugging certificate"
	if len(callers) > 0 {
		who = strings.Join(callers, ", ") + " and " + who
	}
	return fault.New(fault.Forbidden, "The certificate of %s may not call %s; allowed are %s.", id, fullMethod, who).
		With("reason", "caller_not_allowed")
}

// beside refuses services of another workspace than the called service's: services of a workspace call each other only
// within it. It fails with forbidden, details.reason other_workspace.
func beside(caller, called mtls.Identity) error {
	if !mtls.InWorkspace(caller.Service) || !mtls.InWorkspace(called.Service) || caller.Workspace == called.Workspace {
		return nil
	}
	return fault.New(fault.Forbidden, "The certificate of %s may not call %s: they are of different workspaces.", caller,
		called).With("reason", "other_workspace")
}

// IdentityOf returns the identity of a call's certificate, the zero Identity for a call over a socket or in this
// process.
func IdentityOf(ctx context.Context) mtls.Identity {
	from, _ := peer.FromContext(ctx)
	if from == nil {
		return mtls.Identity{}
	}
	v, _ := from.AuthInfo.(verdict)
	return v.identity
}

// methods calls f with each method of kaged's own services.
func methods(f func(m protoreflect.MethodDescriptor)) {
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(file.Package()), "kaged.") {
			return true
		}
		for i := range file.Services().Len() {
			list := file.Services().Get(i).Methods()
			for j := range list.Len() {
				f(list.Get(j))
			}
		}
		return true
	})
}
