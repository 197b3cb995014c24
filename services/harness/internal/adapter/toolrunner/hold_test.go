package toolrunner

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// holdCounter is a tool runner that counts the holds of its workspace.
type holdCounter struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	began, ended chan struct{}
}

func (h *holdCounter) HoldWorkspace(
	_ *toolrunnerv1.HoldWorkspaceRequest, stream grpc.ServerStreamingServer[toolrunnerv1.HoldWorkspaceEvent],
) error {
	h.began <- struct{}{}
	defer func() { h.ended <- struct{}{} }()
	if err := stream.Send(&toolrunnerv1.HoldWorkspaceEvent{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (h *holdCounter) HoldRun(
	*toolrunnerv1.HoldRunRequest, grpc.ServerStreamingServer[toolrunnerv1.HoldRunEvent],
) error {
	return context.Canceled // the run has ended
}

// The first run makes this process hold the workspace, and the hold lasts across runs until Close.
func TestWorkspacesAreHeldBetweenRuns(t *testing.T) {
	t.Parallel()
	h := &holdCounter{began: make(chan struct{}, 10), ended: make(chan struct{}, 10)}
	w := serve(t, h, 0)
	caller := &contract.Caller{SessionID: "s", RunID: "r"}
	for range 3 {
		tools, err := w.Open("")
		if err != nil {
			t.Fatal(err)
		}
		tools.HoldRun(t.Context(), caller, func() {}, func(contract.DebugEvent) {})
	}
	if len(h.began) != 1 || len(h.ended) != 0 {
		t.Errorf("%d streams began and %d ended, want one that lasts", len(h.began), len(h.ended))
	}
	w.Close()
	<-h.ended
}
