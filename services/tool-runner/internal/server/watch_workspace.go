package server

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"kaged.dev/services/tool-runner/internal/core"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// WatchWorkspace sends a watcher the events between calls.
//
// Goroutines: one that reads acknowledgements, which ends with the stream.
func (s *Server) WatchWorkspace(
	stream grpc.BidiStreamingServer[toolrunnerv1.WatchWorkspaceRequest, toolrunnerv1.WorkspaceEvent],
) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	var mu sync.Mutex // guards sessions
	sessions := map[string]string{}
	go func() {
		defer cancel()
		for {
			req, err := stream.Recv()
			if err != nil {
				return
			}
			mu.Lock()
			session := sessions[req.GetAcknowledged()]
			delete(sessions, req.GetAcknowledged())
			mu.Unlock()
			if session != "" {
				s.runner.Told(session, req.GetAcknowledged())
			}
		}
	}()
	state := func(draining bool) error {
		state := toolrunnerv1.WorkspaceState_WORKSPACE_STATE_SERVING
		if draining {
			state = toolrunnerv1.WorkspaceState_WORKSPACE_STATE_DRAINING
		}
		return stream.Send(&toolrunnerv1.WorkspaceEvent{Event: &toolrunnerv1.WorkspaceEvent_State{State: state}})
	}
	return s.runner.Watch(ctx, state, func(l core.Late) error {
		mu.Lock()
		sessions[l.ID] = l.Session
		mu.Unlock()
		return stream.Send(&toolrunnerv1.WorkspaceEvent{
			Id: l.ID, SessionId: l.Session, RunId: l.Run, Event: &toolrunnerv1.WorkspaceEvent_Record{Record: l.Record.Proto()},
		})
	})
}
