package server

import (
	"sync"

	"google.golang.org/grpc"

	"kaged.dev/pkg/late"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// WatchWorkspace sends a watcher the events between calls.
func (s *Server) WatchWorkspace(
	stream grpc.BidiStreamingServer[toolrunnerv1.WatchWorkspaceRequest, toolrunnerv1.WorkspaceEvent],
) error {
	var mu sync.Mutex // guards sessions
	sessions := map[string]string{}
	ctx, cancel := late.Acknowledge(stream.Context(), func() (string, error) {
		req, err := stream.Recv()
		return req.GetAcknowledged(), err
	}, func(id string) {
		mu.Lock()
		session, sent := sessions[id]
		delete(sessions, id)
		mu.Unlock()
		if sent {
			s.runner.Told(session, id)
		}
	})
	defer cancel()
	state := func(draining bool) error {
		state := toolrunnerv1.WorkspaceState_WORKSPACE_STATE_SERVING
		if draining {
			state = toolrunnerv1.WorkspaceState_WORKSPACE_STATE_DRAINING
		}
		return stream.Send(&toolrunnerv1.WorkspaceEvent{Event: &toolrunnerv1.WorkspaceEvent_State{State: state}})
	}
	return s.runner.Watch(ctx, state, func(l late.Record) error {
		mu.Lock()
		sessions[l.ID] = l.Session
		mu.Unlock()
		return stream.Send(&toolrunnerv1.WorkspaceEvent{
			Id: l.ID, SessionId: l.Session, RunId: l.Run, ProjectId: l.Project,
			Event: &toolrunnerv1.WorkspaceEvent_Record{Record: l.Record.Proto()},
		})
	})
}
