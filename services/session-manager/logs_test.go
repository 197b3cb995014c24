package sessionmanager

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

func (n *node) logs(user string, req *apiv1.ListProjectLogsRequest) (*apiv1.ListProjectLogsResponse, error) {
	if req.Id == "" {
		req.Id = "music"
	}
	return sessionmanagerv1.NewLogServiceClient(n.conn).ListProjectLogs(as(n.w.t, user), req)
}

// The log of an unregistered project is kept until it ages out. It is not_found meanwhile; its operator reads it after
// loading the project again.
func TestLogsOfAnUnregisteredProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	heard := w.hearLogs()
	n := w.start("a")
	n.session("ada")
	for range 3 {
		<-heard
	}
	before := n.said("ada", &apiv1.ListProjectLogsRequest{})
	if _, err := n.Projects.UnregisterProject(as(t, "ada"), &apiv1.UnregisterProjectRequest{
		Id: "music", Confirm: true,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.logs("ada", &apiv1.ListProjectLogsRequest{}); !errors.Is(err, fault.NotFound) {
		t.Errorf("the log of an unregistered project: %v, want not_found", err)
	}
	n.session("ada")
	after := n.said("ada", &apiv1.ListProjectLogsRequest{})
	if len(before) != 3 || len(after) < len(before) || !slices.Equal(after[:len(before)], before) {
		t.Errorf("before %q, after %q", before, after)
	}
}

// log returns the logger of the node's own lines.
func (n *node) log() *slog.Logger { return n.Service.logs.Tee(n.deps.Log) }

// said returns the selected lines of the project's log, oldest first, without times and ids.
func (n *node) said(user string, req *apiv1.ListProjectLogsRequest) (lines []string) {
	n.w.t.Helper()
	resp, err := n.logs(user, req)
	if err != nil {
		n.w.t.Fatal(err)
	}
	for _, e := range resp.GetItems() {
		lines = append([]string{e.GetLevel() + " " + e.GetSource() + " " + e.GetMessage()}, lines...)
	}
	return lines
}

// hearLogs returns the log entries that gateways receive.
func (w *world) hearLogs() <-chan *apiv1.LogEntry {
	w.t.Helper()
	heard := make(chan *apiv1.LogEntry, 1024)
	conn, err := bus.Connect(w.t.Context(), w.bus)
	if err == nil {
		w.t.Cleanup(conn.Close)
		err = conn.Listen(w.t.Context(), bus.LogSubject, func(data []byte) {
			var n sessionmanagerv1.LogNotice
			if proto.Unmarshal(data, &n) != nil || len(n.GetEntries()) > 0 && n.GetOwnerUserId() != "ada" {
				w.t.Errorf("told %v", &n)
			}
			for _, e := range n.GetEntries() {
				heard <- e
			}
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return heard
}

// A project's log has, for its operator only, its runs and their ends, changes of the project, and the daemon's own
// lines about its sessions. Pages and notices have the same entries with the same ids (A-LOGS-02, A-LOGS-04,
// A-LOGS-08, A-LOGS-09).
func TestLogsOfAProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	heard := w.hearLogs()
	n := w.start("a")
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "one").GetRunId())
	w.harness.expect(func(p *play) {
		key := "sk-ant-api03-" + strings.Repeat("x", 90)
		p.finish(failure(commonv1.ErrorCode_ERROR_CODE_PROVIDER_AUTH_FAILED, "The key "+key+" is not known.", 401))
	})
	n.run("ada", s, n.post("ada", s, "two").GetRunId())
	n.log().Warn("a test says", "session", s, "password", "PASSWORD=secret1", "text", "a\x00b\xff")
	n.log().Info("not about a session", "request_id", "r")
	want := []string{
		"info daemon Project loaded.", "info daemon Project file approved.", "info session Session created.",
		"info session Run started.", "info session Run completed.", "info session Run started.",
		"error session Run failed: The key [masked] is not known.",
		"warn session a test says",
	}
	var told []*apiv1.LogEntry
	for len(told) < len(want) {
		told = append(told, <-heard)
	}
	resp, err := n.logs("ada", &apiv1.ListProjectLogsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := n.said("ada", &apiv1.ListProjectLogsRequest{}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	stored := map[string]*apiv1.LogEntry{}
	for _, e := range resp.GetItems() {
		stored[e.GetId()] = e
	}
	for _, e := range told {
		if !proto.Equal(e, stored[e.GetId()]) {
			t.Errorf("gateways were told %v, stored is %v", e, stored[e.GetId()])
		}
	}
	last := resp.GetItems()[0]
	if got := last.GetContext().AsMap(); got["password"] != "PASSWORD=[masked]" || got["text"] != "a\uFFFDb\uFFFD" ||
		last.GetSessionId() != s || last.GetProjectId() != "music" {
		t.Errorf("the daemon's line is %v", last)
	}
	for name, c := range map[string]struct {
		req  *apiv1.ListProjectLogsRequest
		want int
	}{
		"level warn":      {&apiv1.ListProjectLogsRequest{Level: "warn"}, 2},
		"level debug":     {&apiv1.ListProjectLogsRequest{Level: "debug"}, 8},
		"source daemon":   {&apiv1.ListProjectLogsRequest{Source: "daemon"}, 2},
		"source plugin":   {&apiv1.ListProjectLogsRequest{Source: "plugin"}, 0},
		"the session":     {&apiv1.ListProjectLogsRequest{Session: s}, 6},
		"another session": {&apiv1.ListProjectLogsRequest{Session: "none"}, 0},
		"since a time":    {&apiv1.ListProjectLogsRequest{Since: last.GetTs() + 1}, 0},
		"until a time":    {&apiv1.ListProjectLogsRequest{Until: last.GetTs() + 1}, 8},
		"until the first": {&apiv1.ListProjectLogsRequest{Until: 1}, 0},
	} {
		if got := n.said("ada", c.req); len(got) != c.want {
			t.Errorf("%s: %q, want %d lines", name, got, c.want)
		}
	}
	n.Stop()
	if got := w.start("a").said("ada", &apiv1.ListProjectLogsRequest{}); fmt.Sprint(got[:len(want)]) != fmt.Sprint(want) {
		t.Errorf("after a restart the log says %q", got)
	}
}

// Pages have each entry once, even if entries are added meanwhile. An invalid request is refused with its reason,
// and another operator is refused (A-LOGS-06).
func TestPagesOfLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	heard := w.hearLogs()
	n := w.start("a")
	s := n.session("ada")
	write := func(from, to int) {
		for i := from; i < to; i++ {
			n.log().Warn(fmt.Sprintf("line %03d", i), "session", s)
		}
		for e := range heard {
			if e.GetMessage() == fmt.Sprintf("line %03d", to-1) {
				return
			}
		}
	}
	write(0, 100)
	seen := map[string]bool{}
	req := &apiv1.ListProjectLogsRequest{Level: "warn", Limit: 30}
	for page := 0; ; page++ {
		resp, err := n.logs("ada", req)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetItems() {
			if seen[e.GetMessage()] {
				t.Errorf("%s comes twice", e.GetMessage())
			}
			seen[e.GetMessage()] = true
		}
		if req.Cursor = resp.GetNextCursor(); !resp.GetHasMore() {
			break
		}
		write(100+page, 101+page)
	}
	if len(seen) != 100 {
		t.Errorf("%d lines on the pages, want the 100 that were there", len(seen))
	}
	others := cursorOf("sessions", 5, "x")
	for name, c := range map[string]struct {
		req  *apiv1.ListProjectLogsRequest
		user string
		code fault.Code
	}{
		"level":           {&apiv1.ListProjectLogsRequest{Level: "loud"}, "ada", fault.InvalidParameter},
		"source":          {&apiv1.ListProjectLogsRequest{Source: "moon"}, "ada", fault.InvalidParameter},
		"since":           {&apiv1.ListProjectLogsRequest{Since: -1}, "ada", fault.ValidationFailed},
		"limit":           {&apiv1.ListProjectLogsRequest{Limit: -1}, "ada", fault.ValidationFailed},
		"session":         {&apiv1.ListProjectLogsRequest{Session: "a\x00"}, "ada", fault.ValidationFailed},
		"cursor":          {&apiv1.ListProjectLogsRequest{Cursor: "nonsense"}, "ada", fault.ValidationFailed},
		"another list's":  {&apiv1.ListProjectLogsRequest{Cursor: others}, "ada", fault.ValidationFailed},
		"project":         {&apiv1.ListProjectLogsRequest{Id: "none"}, "ada", fault.NotFound},
		"hostile project": {&apiv1.ListProjectLogsRequest{Id: "a\x00/../b"}, "ada", fault.NotFound},
		"another's":       {&apiv1.ListProjectLogsRequest{}, "eve", fault.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.logs(c.user, c.req)
			refused(t, err, c.code)
		})
	}
	for _, place := range []int64{math.MaxInt64, math.MinInt64} {
		cursor := cursorOf("logs", place, "z")
		if _, err := n.logs("ada", &apiv1.ListProjectLogsRequest{Cursor: cursor}); err != nil {
			t.Errorf("a place that no entry has: %v", err)
		}
	}
}

// cursorOf returns a forged cursor.
func cursorOf(list string, n int64, s string) string {
	text := fmt.Sprintf(`{"v":1,"l":%q,"n":%d,"s":%q}`, list, n, s)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// A flood of lines of one session is cut off with a warning, and does not affect the log of others.
func TestFloodOfLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	heard := w.hearLogs()
	n := w.start("a")
	loud, quiet := n.session("ada"), n.session("ada")
	for range 20_000 {
		n.log().Warn("loud", "session", loud)
	}
	n.log().Warn("quiet", "session", quiet)
	lines := 0
	for e := range heard {
		if e.GetMessage() == "quiet" {
			break
		}
		lines++
	}
	if lines > 600 {
		t.Errorf("%d lines of a flood are kept, want about 200", lines)
	}
}
