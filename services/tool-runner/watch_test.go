package toolrunner_test

import (
	"context"
	"testing"
	"time"

	"kaged.dev/pkg/config"
	toolrunner "kaged.dev/services/tool-runner"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// watcher is a stream of the workspace's events between calls.
type watcher struct {
	t      *testing.T
	stream toolrunnerv1.ToolRunnerService_WatchWorkspaceClient
	events chan *toolrunnerv1.WorkspaceEvent
	states chan toolrunnerv1.WorkspaceState
	leave  context.CancelFunc
}

func watch(t *testing.T, c *client) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.WatchWorkspace(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{
		t, stream, make(chan *toolrunnerv1.WorkspaceEvent, 10), make(chan toolrunnerv1.WorkspaceState, 10), cancel,
	}
	w.acknowledge("")
	go func() {
		defer close(w.events)
		for {
			event, err := stream.Recv()
			if err != nil {
				return
			}
			if event.GetState() != toolrunnerv1.WorkspaceState_WORKSPACE_STATE_UNSPECIFIED {
				w.states <- event.GetState()
				continue
			}
			w.events <- event
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range w.events { // until the reader has ended
		}
	})
	return w
}

func (w *watcher) acknowledge(id string) {
	w.t.Helper()
	if err := w.stream.Send(&toolrunnerv1.WatchWorkspaceRequest{Acknowledged: id}); err != nil {
		w.t.Fatal(err)
	}
}

// next returns the next event.
func (w *watcher) next() *toolrunnerv1.WorkspaceEvent {
	w.t.Helper()
	event, ok := <-w.events
	if !ok {
		w.t.Fatal("the stream ended")
	}
	return event
}

// The end of a background process that no call has returned is sent to watchers between runs, as a record. Each watcher
// gets it again with the same id until it is acknowledged, even after a restart of the tool runner and the loss of its
// supervisor, and never after that.
func TestLateEndsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, func(c *toolrunner.Config) { c.LateEvery = config.Duration(20 * time.Millisecond) })
	short := w.background("exit 7")
	long := w.background("sleep 1000")
	first := watch(t, w.client)
	told := first.next()
	fields := told.GetRecord().GetPayload().GetFields()
	if told.GetId() != short || told.GetSessionId() != "s1" || told.GetRunId() != "r1" ||
		told.GetRecord().GetEventType() != "shell.executed" || fields["exit_code"].GetNumberValue() != 7 {
		t.Errorf("got %v, want the end of %s", told, short)
	}
	first.leave()
	w.restartRunner(t)
	second := watch(t, w.client)
	if again := second.next(); again.GetId() != told.GetId() {
		t.Errorf("got %v after a restart, want %s again", again, told.GetId())
	}
	second.acknowledge(told.GetId())
	w.restartBox(t)
	third := watch(t, w.client)
	lost := third.next()
	if lost.GetId() == told.GetId() { // the acknowledgement had not arrived before the restart
		third.acknowledge(lost.GetId())
		lost = third.next()
	}
	if lost.GetId() != long || lost.GetRecord().GetEventType() != "process.lost" {
		t.Errorf("got %v, want the loss of %s", lost, long)
	}
}

// While a run of the session is held, its calls return the ends of processes. When the run ends, the remaining ends are
// sent at once.
func TestLateEndsWaitForTheRun(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, func(c *toolrunner.Config) { c.LateEvery = config.Duration(time.Hour) })
	release, _ := w.holdRun("r1")
	polled := w.background("exit 1")
	rest := w.background("exit 2")
	events := watch(t, w.client)
	w.end(polled)
	for running := 1; running > 0; { // rest ends without a further call
		list, err := w.below.ListProcesses(t.Context(), &sandboxsupervisorv1.ListProcessesRequest{SessionId: "s1"})
		if err != nil {
			t.Fatal(err)
		}
		running = len(list.GetProcesses())
	}
	release()
	if got := events.next(); got.GetId() != rest {
		t.Errorf("got %v, want the end of %s, which no call learned of", got, rest)
	}
}

// A workspace that stops tells its watchers that it drains, and ends when the harness has handed its runs over.
func TestAStoppingWorkspaceDrains(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	first := watch(t, w.client)
	if state := <-first.states; state != toolrunnerv1.WorkspaceState_WORKSPACE_STATE_SERVING {
		t.Errorf("got state %v first", state)
	}
	_, ended := w.client.holdRun("r1")
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		w.client.drain(t.Context())
	}()
	if state := <-first.states; state != toolrunnerv1.WorkspaceState_WORKSPACE_STATE_DRAINING {
		t.Errorf("got state %v, want draining", state)
	}
	select {
	case <-drained:
		t.Error("the workspace has not waited for its run")
	default:
	}
	if _, err := w.client.KeepRun(t.Context(), &toolrunnerv1.KeepRunRequest{SessionId: "s1", RunId: "r1"}); err != nil {
		t.Error(err)
	}
	<-drained
	if err := ended(); err == nil {
		t.Error("the stream of the run is open after the drain")
	}
}
