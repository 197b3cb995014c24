package lsppool_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit"
	"kaged.dev/services/lsp-pool/internal/fakelsp"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// records is a stream of the records that no answer has returned.
type records struct {
	t      *testing.T
	stream lsppoolv1.LSPPoolService_WatchRecordsClient
	leave  context.CancelFunc
	events chan *lsppoolv1.WatchRecordsEvent
	end    error // read after events is closed
}

func (p *pool) watchRecords() *records {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	stream, err := p.WatchRecords(ctx)
	if err != nil {
		cancel()
		p.t.Fatal(err)
	}
	r := &records{t: p.t, stream: stream, leave: cancel, events: make(chan *lsppoolv1.WatchRecordsEvent, 10)}
	r.acknowledge("")
	go func() {
		defer close(r.events)
		for {
			event, err := stream.Recv()
			if err != nil {
				r.end = err
				return
			}
			r.events <- event
		}
	}()
	p.t.Cleanup(func() {
		cancel()
		for range r.events { // until the reader has ended
		}
	})
	return r
}

func (r *records) acknowledge(id string) {
	r.t.Helper()
	if err := r.stream.Send(&lsppoolv1.WatchRecordsRequest{Acknowledged: id}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *records) next() *lsppoolv1.WatchRecordsEvent {
	r.t.Helper()
	event, ok := <-r.events
	if !ok {
		r.t.Fatalf("the stream ended: %v", r.end)
	}
	return event
}

// stopped fails the test unless the next record is the stop of the fake server for a reason, and returns its id.
func (r *records) stopped(reason string) string {
	r.t.Helper()
	event := r.next()
	fields := event.GetRecord().GetPayload().AsMap()
	if event.GetRecord().GetEventType() != "code.lsp.server_stopped" || event.GetId() == "" ||
		event.GetSessionId() != "s1" || event.GetProjectId() != "p1" || fields["reason"] != reason ||
		fields["language"] != "fake" || fields["project_id"] != "p1" {
		r.t.Errorf("got %v, want a stop for %s", event, reason)
	}
	return event.GetId()
}

// T-AUD-06, T-LSP-LIFE-12: each stop is recorded with its reason. The servers of an unloaded project are removed, and
// the answer has their records. Watchers receive the records of other stops.
func TestStopsAreRecorded(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Pull, "")
	path := p.write("a.fake", "one\n")
	watcher := p.watchRecords()
	hover := func() {
		t.Helper()
		res, err := p.ask(lsppoolv1.Action_ACTION_HOVER, path, nil)
		if err != nil || events(res) != "server_spawned" {
			t.Fatalf("the answer has the records %v, %v", res.GetRecords(), err)
		}
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
		watcher.acknowledge(watcher.stopped(want))
		hover()
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

// T-AUD-06: a stopping pool sends the records of its servers' ends before it ends the stream. A record without an
// acknowledgement is sent again by the next pool, with the same id, and never after an acknowledgement.
func TestRecordsOutliveThePool(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Pull, "")
	ask := func() {
		t.Helper()
		if _, err := p.ask(lsppoolv1.Action_ACTION_HOVER, p.write("a.fake", "one\n"), nil); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	var seen []string
	watcher := p.watchRecords()
	p.restart()
	seen = append(seen, watcher.stopped("daemon_shutdown"))
	if event, more := <-watcher.events; more || !errors.Is(fault.From(watcher.end), fault.Unavailable) {
		t.Errorf("got %v, %v at the end of the stream", event, watcher.end)
	}
	again := p.watchRecords()
	seen = append(seen, again.stopped("daemon_shutdown"))
	again.acknowledge(seen[1])
	ask() // unwatched from here
	again.leave()
	p.restart()
	third := p.watchRecords()
	id := third.stopped("daemon_shutdown")
	if id == seen[0] { // the acknowledgement had not arrived before the end
		id = third.stopped("daemon_shutdown")
	}
	if seen[0] != seen[1] || slices.Contains(seen, id) {
		t.Errorf("the first record has the ids %v, the second %s", seen, id)
	}
}

// T-AUD-05: the crash of a server that no query has noticed is recorded with its next stop.
func TestUnnoticedCrash(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Pull, "")
	if _, err := p.ask(lsppoolv1.Action_ACTION_HOVER, p.write("a.fake", "one\n"), nil); err != nil {
		t.Fatal(err)
	}
	kill(t, p.only().GetPid())
	watcher := p.watchRecords()
	for p.only().GetState() == "ready" { // its connection ends after it
	}
	testkit.Stop(t, p.running)
	event := watcher.next()
	fields := event.GetRecord().GetPayload().AsMap()
	if event.GetRecord().GetEventType() != "code.lsp.server_crashed" || fields["restart_count"] != 1.0 {
		t.Errorf("got %v", event)
	}
}
