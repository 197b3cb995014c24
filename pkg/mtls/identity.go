package mtls

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// Domain is the suffix of every service name in a certificate.
const Domain = ".kaged"

// Debug is the identity of debugging certificates. Its holder may call every RPC, and it cannot be a server.
const Debug = "debug"

// Services returns the services that certificates may name, without [Debug], in the order of the contract.
func Services() []string {
	return services(func(protoreflect.EnumValueDescriptor) bool { return true })
}

// WorkspaceServices returns those of [Services] that run beside a project's files.
func WorkspaceServices() []string {
	return services(func(v protoreflect.EnumValueDescriptor) bool {
		return proto.GetExtension(v.Options(), commonv1.E_Workspace).(bool)
	})
}

func services(has func(protoreflect.EnumValueDescriptor) bool) (names []string) {
	values := commonv1.Service(0).Descriptor().Values()
	for i := range values.Len() {
		v := values.Get(i)
		if s := commonv1.Service(v.Number()); s != commonv1.Service_SERVICE_UNSPECIFIED && has(v) {
			names = append(names, Name(s))
		}
	}
	return names
}

// Name returns the name of a service in the contract, such as session-manager.
func Name(s commonv1.Service) string {
	name := strings.TrimPrefix(s.String(), "SERVICE_")
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// Identity is the service named by a certificate.
type Identity struct {
	// Service is the name of a service, or Debug.
	Service string
	// Workspace is the workspace of a service that belongs to one, "" for the only workspace and for other services.
	Workspace string
}

// String returns the DNS name: <service>.kaged, or <service>.<workspace>.kaged.
func (i Identity) String() string {
	if i.Workspace != "" {
		return i.Service + "." + i.Workspace + Domain
	}
	return i.Service + Domain
}

// InWorkspace reports whether a service runs beside a project's files.
func InWorkspace(service string) bool {
	return slices.Contains(WorkspaceServices(), service)
}

// Check fails for an identity that a certificate may not have.
func (i Identity) Check() error {
	switch {
	case i.Service != Debug && !slices.Contains(Services(), i.Service):
		return fmt.Errorf("%q is not a service of kaged; they are %s", i.Service, strings.Join(Services(), ", "))
	case i.Workspace == "":
		return nil
	case !InWorkspace(i.Service):
		return fmt.Errorf("%s belongs to no workspace", i.Service)
	case !label(i.Workspace):
		return fmt.Errorf("the name of a workspace has 1 to 63 of a-z, 0-9 and -, and begins and ends without -, unlike %q",
			i.Workspace)
	}
	return nil
}

// label reports whether s is one part of a DNS name, in lower case.
func label(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// IdentityOf returns the identity in a certificate. It fails unless exactly one of its DNS names ends in .kaged and
// names a service.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	var names []string
	for _, name := range cert.DNSNames {
		if strings.HasSuffix(name, Domain) {
			names = append(names, name)
		}
	}
	if len(names) != 1 {
		return Identity{}, fmt.Errorf("the certificate names %d services of kaged (%s), want one such as harness.kaged",
			len(names), strings.Join(cert.DNSNames, ", "))
	}
	service, workspace, _ := strings.Cut(strings.TrimSuffix(names[0], Domain), ".")
	id := Identity{service, workspace}
	if err := id.Check(); err != nil {
		return Identity{}, fmt.Errorf("the certificate names %s: %w", names[0], err)
	}
	if id.String() != names[0] {
		return Identity{}, fmt.Errorf("the certificate names %s, want %s", names[0], id)
	}
	return id, nil
}
