package gateway_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/bustest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

const projectLogs = "/api/v1/projects/p/logs/stream"

// logs opens a stream of a project's log.
func (c *client) logs(t *testing.T, query string) *sse {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.d.base+projectLogs+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
	} {
		if got := resp.Header.Get(name); resp.StatusCode != 200 || got != want {
			t.Fatalf("%d, %s is %q, want %q", resp.StatusCode, name, got, want)
		}
	}
	s := &sse{t, bufio.NewReader(resp.Body)}
	s.next() // the first comment
	return s
}

// ended fails the test unless the stream ends without a further event.
func (s *sse) ended() {
	s.t.Helper()
	if rest, err := io.ReadAll(s.body); err != nil || strings.Contains(string(rest), "event:") {
		s.t.Errorf("got %q, %v, want the end of the stream", rest, err)
	}
}

func logEntry(id, level, source, project string) *apiv1.LogEntry {
	return &apiv1.LogEntry{Id: id, Ts: 5, Level: level, Source: source, Message: "two\nlines", ProjectId: project}
}

func logged(t *testing.T, nats *bustest.Private, owner string, entries ...*apiv1.LogEntry) {
	t.Helper()
	tell(t, nats, bus.LogSubject, &sessionmanagerv1.LogNotice{OwnerUserId: owner, Entries: entries})
}

// A reader of a project's log gets the new entries of its level and source, one line each, and no entry of another
// project or operator. Lost notices end every stream (A-LOGS-01 to A-LOGS-04, A-LOGS-07, A-LOGS-09).
func TestLogStream(t *testing.T) {
	t.Parallel()
	nats := bustest.Server(t)
	d := start(t, setup{config: quick(nil), nats: nats}).ready()
	d.manager.replies(&apiv1.ListProjectLogsResponse{}, nil)
	c := d.operator()
	owner := c.userID()
	all, warnings, plugins := c.logs(t, ""), c.logs(t, "?level=warn"), c.logs(t, "?source=plugin")
	logged(t, nats, "eve", logEntry("1", "error", "plugin", "p"))
	logged(t, nats, owner, logEntry("2", "error", "plugin", "other"))
	logged(t, nats, owner, logEntry("3", "info", "session", "p"), logEntry("4", "warn", "daemon", "p"))
	logged(t, nats, owner, logEntry("5", "error", "plugin", "p"))
	event := func(id, level, source string) string {
		return `event: log|data: {"id":"` + id + `","ts":5,"level":"` + level + `","source":"` + source +
			`","message":"two\nlines","projectId":"p"}`
	}
	for name, stream := range map[string]struct {
		from *sse
		want []string
	}{
		"all": {all, []string{
			event("3", "info", "session"), event("4", "warn", "daemon"), event("5", "error", "plugin"),
		}},
		"warnings": {warnings, []string{event("4", "warn", "daemon"), event("5", "error", "plugin")}},
		"plugins":  {plugins, []string{event("5", "error", "plugin")}},
	} {
		for _, want := range stream.want {
			if got := stream.from.next(); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	}
	tell(t, nats, bus.LogSubject, &sessionmanagerv1.LogNotice{})
	for _, s := range []*sse{all, warnings, plugins} {
		s.ended()
	}
}

// Invalid requests are refused before the stream begins. A stopping gateway ends the streams without an event
// (A-LOGS-06, A-LOGS-07, A-ERR-CODE-13).
func TestLogStreamRefusals(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: quick(nil), nats: bustest.Server(t)}).ready()
	c := d.operator()
	d.manager.replies(nil, fault.New(fault.InvalidParameter, "level must be one."))
	c.get(projectLogs+"?level=loud").refused(t, "no level", 400, "invalid_parameter")
	d.manager.replies(nil, fault.New(fault.NotFound, "There is no project."))
	c.get(projectLogs).refused(t, "an unknown project", 404, "not_found")
	c.get(projectLogs+"?level=warn&level=info").refused(t, "two levels", 400, "validation_failed")
	d.client().get(projectLogs).refused(t, "a stranger", 401, "unauthenticated")
	d.manager.replies(&apiv1.ListProjectLogsResponse{}, nil)
	s := c.logs(t, "?level=error")
	asked := &apiv1.ListProjectLogsRequest{Id: "p", Level: "error", Limit: 1}
	if got := d.manager.asked; len(got) != 1 || !proto.Equal(got[0], asked) {
		t.Errorf("session-manager was asked %v, want %v", got, asked)
	}
	d.service().Drain(t.Context())
	s.ended()
	c.get(projectLogs).refused(t, "a gateway that stops", 503, "unavailable")
}

// A reader that does not read loses its stream once too many entries wait, without delaying other readers
// (A-LOGS-07).
func TestSlowReaderOfALog(t *testing.T) {
	t.Parallel()
	nats := bustest.Server(t)
	d := start(t, setup{config: quick(nil), nats: nats}).ready()
	d.manager.replies(&apiv1.ListProjectLogsResponse{}, nil)
	c := d.operator()
	owner := c.userID()
	slow, quickReader := c.logs(t, ""), c.logs(t, "")
	long := logEntry("x", "info", "session", "p")
	long.Message = strings.Repeat("x", 16<<10)
	batch := make([]*apiv1.LogEntry, 16)
	for i := range batch {
		batch[i] = long
	}
	for range 128 { // 32 MB, each batch once the quick reader has the one before it
		logged(t, nats, owner, batch...)
		for range batch {
			if got := quickReader.next(); !strings.HasPrefix(got, "event: log") {
				t.Fatalf("the reader beside a slow one got %.80q, want an entry", got)
			}
		}
	}
	// It ends when its queue is full, or breaks off when a write to it takes too long.
	read, err := io.Copy(io.Discard, slow.body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || read > 16<<20 {
		t.Errorf("the slow reader got %d bytes, %v, want its end after a few", read, err)
	}
}

// Signing a browser out ends its streams of logs.
func TestSignedOutReaderOfALog(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: quick(nil), nats: bustest.Server(t)}).ready()
	d.manager.replies(&apiv1.ListProjectLogsResponse{}, nil)
	s := d.operator().logs(t, "")
	if got := d.operator().do("POST", "/api/v1/auth/rotate", ""); got.status != 200 {
		t.Fatalf("signing the others out: %d %s", got.status, got.body)
	}
	s.ended()
}
