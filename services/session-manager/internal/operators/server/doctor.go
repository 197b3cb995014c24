package server

import (
	"context"

	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/operators/core/doctor"
)

// Doctor is the gRPC service DoctorService. Its handlers convert messages and call core.
type Doctor struct {
	sessionmanagerv1.UnimplementedDoctorServiceServer
	doctor  *doctor.Doctor
	version string
}

// NewDoctor returns a Doctor of a version of kaged.
func NewDoctor(d *doctor.Doctor, version string) *Doctor { return &Doctor{doctor: d, version: version} }

// GetDoctor runs all checks.
func (s *Doctor) GetDoctor(ctx context.Context, _ *apiv1.GetDoctorRequest) (*apiv1.GetDoctorResponse, error) {
	r := s.doctor.Look(ctx, ident.CallerFrom(ctx).UserID)
	return &apiv1.GetDoctorResponse{
		Ok: r.OK, Version: s.version, Cages: r.Cages.Proto(), Checks: r.ChecksProto(),
		LanguageServers: r.ServersProto(),
	}, nil
}
