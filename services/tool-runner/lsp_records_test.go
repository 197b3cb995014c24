package toolrunner_test

import (
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	toolrunner "kaged.dev/services/tool-runner"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// notes is a pool with one record, which it sends to each watcher until it is acknowledged.
type notes struct {
	lsppoolv1.UnimplementedLSPPoolServiceServer
	acknowledged chan string
}

func (n *notes) WatchRecords(
	stream grpc.BidiStreamingServer[lsppoolv1.WatchRecordsRequest, lsppoolv1.WatchRecordsEvent],
) error {
	err := stream.Send(&lsppoolv1.WatchRecordsEvent{
		Id: "record", SessionId: "s1", ProjectId: "p1", Record: contract.NewRecord("code.lsp.server_stopped", "",
			map[string]any{"reason": "idle_timeout"}).Proto(),
	})
	for err == nil {
		var req *lsppoolv1.WatchRecordsRequest
		if req, err = stream.Recv(); req.GetAcknowledged() != "" {
			n.acknowledged <- req.GetAcknowledged()
		}
	}
	return err
}

// T-AUD-06: the late records of language servers reach the watchers of the workspace, also while a run of their session
// is held. The pool may forget a record that the tool runner has on disk, and the tool runner one that its watcher has
// stored.
func TestRecordsOfLanguageServers(t *testing.T) {
	t.Parallel()
	pool := &notes{acknowledged: make(chan string, 10)}
	below := dial(t, func(r grpc.ServiceRegistrar) { lsppoolv1.RegisterLSPPoolServiceServer(r, pool) })
	file := filepath.Join(t.TempDir(), "records.json")
	start := func(deps toolrunner.Deps) (*client, func()) {
		deps.Records = file
		return startOn(t, toolrunner.DefaultConfig(), deps)
	}
	first, stop := start(toolrunner.Deps{LSP: lsppoolv1.NewLSPPoolServiceClient(below)})
	defer stop()
	first.holdRun("r1")
	check := func(w *watcher) string {
		t.Helper()
		event := w.next()
		if event.GetSessionId() != "s1" || event.GetProjectId() != "p1" ||
			event.GetRecord().GetEventType() != "code.lsp.server_stopped" ||
			event.GetRecord().GetPayload().AsMap()["reason"] != "idle_timeout" {
			t.Errorf("got %v", event)
		}
		return event.GetId()
	}
	told := check(watch(t, first))
	if id := <-pool.acknowledged; id != told {
		t.Errorf("the pool's record %s arrived as %s", id, told)
	}
	stop()

	second, stop := start(toolrunner.Deps{}) // the pool has forgotten the record
	defer stop()
	again := watch(t, second)
	if id := check(again); id != told {
		t.Errorf("after a restart the record %s has the id %s", told, id)
	}
	again.acknowledge(told)
	for !empty(t, file) {
	}
}

// empty reports whether a file of records has none.
func empty(t *testing.T, file string) bool {
	t.Helper()
	return read(t, &client{root: filepath.Dir(file)}, filepath.Base(file)) == "[]"
}
