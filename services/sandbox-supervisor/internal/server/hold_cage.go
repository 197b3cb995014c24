package server

import (
	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/sandboxwire"
	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// HoldCage holds a cage for as long as the stream lasts.
func (s *Server) HoldCage(
	req *sandboxsupervisorv1.HoldCageRequest,
	stream grpc.ServerStreamingServer[sandboxsupervisorv1.HoldCageEvent],
) error {
	spec := sandboxwire.FromCageSpec(req)
	var checked func() error
	if spec.TellChecked {
		checked = func() error {
			return stream.Send(&sandboxsupervisorv1.HoldCageEvent{
				Event: &sandboxsupervisorv1.HoldCageEvent_Checked{Checked: &sandboxsupervisorv1.CageChecked{}},
			})
		}
	}
	hold, err := s.supervisor.HoldChecked(stream.Context(), spec, checked)
	if err != nil {
		return err
	}
	defer hold.Release()
	opened := sandboxwire.Cage(hold.Info())
	opened.Notes = hold.Notes()
	err = stream.Send(&sandboxsupervisorv1.HoldCageEvent{Event: &sandboxsupervisorv1.HoldCageEvent_Opened{Opened: opened}})
	if err != nil {
		return err
	}
	reason, err := hold.Watch(stream.Context(), func(a contract.Attempt) error {
		return stream.Send(
			&sandboxsupervisorv1.HoldCageEvent{Event: &sandboxsupervisorv1.HoldCageEvent_Network{Network: a.Proto()}},
		)
	})
	if err != nil {
		return fault.From(err)
	}
	return stream.Send(&sandboxsupervisorv1.HoldCageEvent{Event: &sandboxsupervisorv1.HoldCageEvent_Ended{
		Ended: &sandboxsupervisorv1.CageEnded{
			Reason: sandboxwire.Reason(reason),
			Found:  contract.FindingsProto(hold.Found()),
		},
	}})
}
