package lsppool_test

import (
	"errors"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/lsp-pool/internal/fakelsp"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// T-AUD-06, T-LSP-LIFE-12: each stop is recorded with its reason. The servers of an unloaded project are removed, and
// the answer has their records. The records of other stops are in the next answer.
func TestStopsAreRecorded(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Pull, "")
	path := p.write("a.fake", "one\n")
	hover := func() *lsppoolv1.QueryResponse {
		t.Helper()
		res, err := p.ask(lsppoolv1.Action_ACTION_HOVER, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	hover()
	for reason, want := range map[lsppoolv1.StopReason]string{
		lsppoolv1.StopReason_STOP_REASON_UNSPECIFIED:     "reload",
		lsppoolv1.StopReason_STOP_REASON_DAEMON_SHUTDOWN: "daemon_shutdown",
	} {
		pid := p.only().GetPid()
		res, err := p.StopServers(t.Context(), &lsppoolv1.StopServersRequest{Reason: reason})
		if err != nil || len(res.GetRecords()) != 0 || !gone(pid) {
			t.Errorf("%s: %v, %v", want, res, err)
		}
		next := hover()
		if got := events(next); got != "server_stopped server_spawned" ||
			next.GetRecords()[0].GetPayload().AsMap()["reason"] != want {
			t.Errorf("%s: the next answer carries %s, %v", want, got, next.GetRecords())
		}
	}
	pid := p.only().GetPid()
	unload := &lsppoolv1.StopServersRequest{
		ProjectId: "p1", Root: p.root, Reason: lsppoolv1.StopReason_STOP_REASON_PROJECT_UNLOAD,
	}
	res, err := p.StopServers(t.Context(), unload)
	if err != nil || len(res.GetRecords()) != 1 || !gone(pid) ||
		res.GetRecords()[0].GetPayload().AsMap()["reason"] != "project_unload" {
		t.Errorf("unload: %v, %v", res, err)
	}
	list, err := p.ListServers(t.Context(), &lsppoolv1.ListServersRequest{})
	if err != nil || len(list.GetServers()) != 0 {
		t.Errorf("left are %v, %v", list.GetServers(), err)
	}
	_, err = p.StopServers(t.Context(), &lsppoolv1.StopServersRequest{Reason: 99})
	if !errors.Is(fault.From(err), fault.BadRequest) {
		t.Errorf("an unknown reason: %v", err)
	}
}
