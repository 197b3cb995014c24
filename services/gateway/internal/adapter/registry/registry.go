// Package registry refuses calls about unregistered projects. A service with the option (kaged.api.v1.of_project)
// stores data of projects but does not know which projects exist, so session-manager is asked before each call.
package registry

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/proto/gen/backends"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// Conn is a connection to a service that checks the project of unary calls.
type Conn struct {
	grpc.ClientConnInterface
	registry sessionmanagerv1.RegistryServiceClient
	fields   map[string]protoreflect.Name // the request field with the project id, by the name of the service
}

// New returns a Conn over base that checks projects in sessionManager.
func New(base, sessionManager grpc.ClientConnInterface) *Conn {
	fields := map[string]protoreflect.Name{}
	for _, b := range backends.All() {
		for _, s := range b.Services {
			if field, _ := proto.GetExtension(s.Options(), apiv1.E_OfProject).(string); field != "" {
				fields[string(s.FullName())] = protoreflect.Name(field)
			}
		}
	}
	return &Conn{base, sessionmanagerv1.NewRegistryServiceClient(sessionManager), fields}
}

// Invoke fails with not_found if the request's project is not registered, and otherwise like the call.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if field := c.fields[service]; field != "" {
		if m, ok := args.(proto.Message); ok {
			r := m.ProtoReflect()
			id := r.Get(r.Descriptor().Fields().ByName(field)).String()
			check := &sessionmanagerv1.CheckProjectRequest{Id: id, Workflow: workflowOf(args)}
			if _, err := c.registry.CheckProject(ctx, check); err != nil {
				return err
			}
		}
	}
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// workflowOf returns the workflow that a request assigns an issue to, or "".
func workflowOf(request any) string {
	update, ok := request.(*apiv1.UpdateIssueRequest)
	if !ok {
		return ""
	}
	name, found := strings.CutPrefix(update.GetAssignment().GetStringValue(), "workflow:")
	if !found {
		return ""
	}
	return name
}
