package sessionmanager

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// A new session is idle, has no run, returns its label also as its name, and is listed newest first. A-SESS-NEW-01,
// A-SESS-NEW-02, A-SESS-LIST-01, A-SESS-LIST-02, A-CONTRA-03, A-WIRE-PAGE-01.
func TestCreateAndList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	n.session("ada")
	for _, req := range []*apiv1.CreateSessionRequest{
		{Name: " deploy "}, {Label: "deploy"}, {Name: "deploy", Label: "deploy"},
	} {
		req.ProjectId = "music"
		created, err := n.Sessions.CreateSession(as(t, "ada"), req)
		if err != nil || created.GetName() != "deploy" || created.GetLabel() != "deploy" || !ident.Valid(created.GetId()) ||
			created.GetState() != apiv1.SessionState_SESSION_STATE_IDLE || created.GetProjectId() != "music" {
			t.Errorf("created = %v, %v", created, err)
		}
	}
	n.session("ada")
	var ids []string
	pages := 0
	for req := (&apiv1.ListSessionsRequest{ProjectId: "music", Limit: 2}); ; pages++ {
		resp, err := n.Sessions.ListSessions(as(t, "ada"), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range resp.GetItems() {
			ids = append(ids, s.GetId())
		}
		if !resp.GetHasMore() {
			if resp.NextCursor != nil {
				t.Error("the last page has a cursor")
			}
			break
		}
		req.Cursor = resp.GetNextCursor()
	}
	if len(ids) != 5 || pages != 2 {
		t.Errorf("%d sessions on %d pages", len(ids), pages+1)
	}
	for i := 1; i < len(ids); i++ {
		if ids[i] >= ids[i-1] {
			t.Errorf("the list is not newest first: %v", ids)
		}
	}
	if len(w.harness.began) != 0 {
		t.Error("a run began")
	}
}

// The first message names a session without a name by its first line, at most 120 characters long. A given name
// stays, and a name that is cleared later stays cleared.
func TestFirstMessageNamesASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	for _, c := range []struct{ message, want string }{
		{"  Fix the test.\nIt fails.", "Fix the test."},
		{strings.Repeat("ä", 121), strings.Repeat("ä", 119) + "…"},
		{"\n \nsecond", "second"},
	} {
		s := n.session("ada")
		n.post("ada", s, c.message)
		if got := n.get("ada", s); got.GetName() != c.want || got.GetLabel() != c.want {
			t.Errorf("%q names the session %q", c.message, got.GetName())
		}
	}
	s := n.session("ada")
	for i, label := range []string{"mine", ""} {
		if _, err := n.Sessions.UpdateSession(as(t, "ada"), &apiv1.UpdateSessionRequest{
			Id: s, Label: structpb.NewStringValue(label),
		}); err != nil {
			t.Fatal(err)
		}
		w.harness.expect(func(p *play) { p.model(); p.turn(1, false, text("Done.")); p.complete(1) })
		n.run("ada", s, n.post("ada", s, "Fix it.").GetRunId())
		if got := n.get("ada", s); got.GetName() != label {
			t.Errorf("after message %d the session is named %q, want %q", i+1, got.GetName(), label)
		}
	}
}

// Every invalid request is refused with a code and a sentence. A-SESS-NEW-04, A-SESS-NEW-05, A-WIRE-PAGE-04.
func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	foreign := n.session("eve")
	for name, c := range map[string]struct {
		req  *apiv1.CreateSessionRequest
		code fault.Code
	}{
		"unknown project": {&apiv1.CreateSessionRequest{ProjectId: "nope"}, fault.NotFound},
		"hostile project": {&apiv1.CreateSessionRequest{ProjectId: "a\x00b"}, fault.NotFound},
		"long name": {
			&apiv1.CreateSessionRequest{ProjectId: "music", Name: strings.Repeat("ä", 121)}, fault.ValidationFailed,
		},
		"NUL in the name":  {&apiv1.CreateSessionRequest{ProjectId: "music", Name: "a\x00"}, fault.ValidationFailed},
		"two names":        {&apiv1.CreateSessionRequest{ProjectId: "music", Name: "a", Label: "b"}, fault.ValidationFailed},
		"unknown source":   {&apiv1.CreateSessionRequest{ProjectId: "music", ResumeFrom: ident.New()}, fault.NotFound},
		"hostile source":   {&apiv1.CreateSessionRequest{ProjectId: "music", ResumeFrom: "\x00"}, fault.NotFound},
		"another's source": {&apiv1.CreateSessionRequest{ProjectId: "music", ResumeFrom: foreign}, fault.NotFound},
	} {
		_, err := n.Sessions.CreateSession(as(t, "ada"), c.req)
		if fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := n.Sessions.CreateSession(t.Context(), &apiv1.CreateSessionRequest{ProjectId: "music"})
	refused(t, err, fault.Unauthenticated)
	_, err = n.Sessions.ListSessions(as(t, "ada"), &apiv1.ListSessionsRequest{ProjectId: "music", Cursor: "junk"})
	refused(t, err, fault.ValidationFailed)
	_, err = n.Sessions.ListSessions(as(t, "ada"), &apiv1.ListSessionsRequest{ProjectId: "nope"})
	refused(t, err, fault.NotFound)
	w.configure("")
	_, err = n.Sessions.CreateSession(as(t, "ada"), &apiv1.CreateSessionRequest{ProjectId: "music"})
	if f := refused(t, err, fault.ProjectNotReady); f.Details["reason"] != "project_not_ready" {
		t.Errorf("details = %v", f.Details)
	}
	if n.get("ada", s) == nil {
		t.Error("the session is gone")
	}
}

// Another operator's sessions, and unknown ids, are not found by any RPC.
func TestForeignSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	posted := n.post("ada", s, "Hi.")
	n.run("ada", s, posted.GetRunId())
	content := "Mine!"
	for _, id := range []string{s, ident.New(), "", "\x00", strings.Repeat("x", 1000)} {
		ctx := as(t, "eve")
		_, err := n.Sessions.GetSession(ctx, &apiv1.GetSessionRequest{Id: id})
		refused(t, err, fault.NotFound)
		_, err = n.Sessions.UpdateSession(ctx, &apiv1.UpdateSessionRequest{Id: id, Label: structpb.NewStringValue("x")})
		refused(t, err, fault.NotFound)
		_, err = n.Sessions.EndSession(ctx, &apiv1.EndSessionRequest{Id: id, Confirm: true})
		refused(t, err, fault.NotFound)
		_, err = n.Sessions.PostMessage(ctx, &apiv1.PostMessageRequest{SessionId: id, Content: &content})
		refused(t, err, fault.NotFound)
		_, err = n.Sessions.ListMessages(ctx, &apiv1.ListMessagesRequest{SessionId: id})
		refused(t, err, fault.NotFound)
		_, err = n.Sessions.ListRuns(ctx, &apiv1.ListRunsRequest{SessionId: id})
		refused(t, err, fault.NotFound)
		_, err = n.Sessions.GetRun(ctx, &apiv1.GetRunRequest{SessionId: id, RunId: posted.GetRunId()})
		refused(t, err, fault.NotFound)
		_, err = n.Sessions.CancelRun(ctx, &apiv1.CancelRunRequest{SessionId: id, RunId: posted.GetRunId()})
		refused(t, err, fault.NotFound)
		stream, err := n.Attach.Attach(ctx, &sessionmanagerv1.AttachRequest{SessionId: id})
		if err == nil {
			_, err = stream.Recv()
		}
		refused(t, err, fault.NotFound)
	}
	_, err := n.Sessions.GetRun(as(t, "ada"), &apiv1.GetRunRequest{SessionId: s, RunId: ident.New()})
	refused(t, err, fault.NotFound)
}

// An update distinguishes null from absent and an invalid range from an invalid type, and leaves the other fields
// unchanged. A-SESS-PUT-01 to A-SESS-PUT-07, A-CONTRA-04, A-TEST-11.
func TestUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	str, num, null := structpb.NewStringValue, structpb.NewNumberValue, structpb.NewNullValue()
	type req = apiv1.UpdateSessionRequest
	for _, c := range []struct {
		name string
		req  *req
		code fault.Code
		http int
		want string // label, model, steps and tokens after the update
	}{
		{"nothing", &req{}, fault.BadRequest, 0, ""},
		{"label", &req{Label: str("  one ")}, 0, 0, "one . 0 0"},
		{"120 characters", &req{Label: str(strings.Repeat("ä", 120))}, 0, 0, strings.Repeat("ä", 120) + " . 0 0"},
		{"121 characters", &req{Label: str(strings.Repeat("ä", 121))}, fault.ValidationFailed, 0, ""},
		{"label of another type", &req{Label: num(1)}, fault.ValidationFailed, 0, ""},
		{"model", &req{ModelOverride: str("ghost:m")}, 0, 0, strings.Repeat("ä", 120) + " ghost:m 0 0"},
		{"empty label", &req{Label: str("")}, 0, 0, ". ghost:m 0 0"},
		{"model without colon", &req{ModelOverride: str("abc")}, fault.ValidationFailed, 0, ""},
		{"model of another type", &req{ModelOverride: num(1)}, fault.ValidationFailed, 0, ""},
		{"steps 1", &req{MaxStepsOverride: num(1)}, 0, 0, ". ghost:m 1 0"},
		{"steps 100", &req{MaxStepsOverride: num(100)}, 0, 0, ". ghost:m 100 0"},
		{"steps 0", &req{MaxStepsOverride: num(0)}, fault.ValidationFailed, http.StatusUnprocessableEntity, ""},
		{"steps 101", &req{MaxStepsOverride: num(101)}, fault.ValidationFailed, http.StatusUnprocessableEntity, ""},
		{"steps 1e300", &req{MaxStepsOverride: num(1e300)}, fault.ValidationFailed, http.StatusUnprocessableEntity, ""},
		{"steps 1.5", &req{MaxStepsOverride: num(1.5)}, fault.ValidationFailed, 0, ""},
		{"steps as text", &req{MaxStepsOverride: str("x")}, fault.ValidationFailed, 0, ""},
		{"tokens", &req{MaxOutputTokensOverride: num(65536)}, 0, 0, ". ghost:m 100 65536"},
		{
			"tokens 65537", &req{MaxOutputTokensOverride: num(65537)}, fault.ValidationFailed, http.StatusUnprocessableEntity,
			"",
		},
		{
			"cleared", &req{ModelOverride: null, MaxStepsOverride: null, MaxOutputTokensOverride: null, Label: null}, 0, 0,
			". . 0 0",
		},
	} {
		c.req.Id = s
		resp, err := n.Sessions.UpdateSession(as(t, "ada"), c.req)
		if c.code != 0 {
			f := fault.From(err)
			if f == nil || f.Code != c.code || f.HTTP != c.http {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		dot := func(s string) string {
			if s == "" {
				return "."
			}
			return s
		}
		got := resp.GetSession()
		if text := fmt.Sprint(dot(got.GetLabel()), " ", dot(got.GetModelOverride()), " ", got.GetMaxStepsOverride(), " ",
			got.GetMaxOutputTokensOverride()); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
	if n.get("ada", s).UpdatedAt < n.get("ada", s).CreatedAt {
		t.Error("updated_at goes back")
	}
}

// An invalid message is refused before it is stored. A-MSG-POST-01, A-MSG-POST-08.
func TestPostRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", func(c *Config) { c.MaxContent = 100 })
	s := n.session("ada")
	str := func(s string) *string { return &s }
	num := func(n int32) *int32 { return &n }
	type req = apiv1.PostMessageRequest
	for name, c := range map[string]struct {
		req  *req
		code fault.Code
		http int
	}{
		"missing":   {&req{}, fault.ValidationFailed, 0},
		"empty":     {&req{Content: str("")}, fault.ValidationFailed, 0},
		"blank":     {&req{Content: str(" \n")}, fault.ValidationFailed, 0},
		"NUL":       {&req{Content: str("a\x00")}, fault.ValidationFailed, 0},
		"too large": {&req{Content: str(strings.Repeat("a", 101))}, fault.PayloadTooLarge, 0},
		"model":     {&req{Content: str("a"), ModelOverride: str("abc")}, fault.ValidationFailed, 0},
		"steps": {
			&req{Content: str("a"), MaxStepsOverride: num(0)}, fault.ValidationFailed, http.StatusUnprocessableEntity,
		},
		"tokens": {
			&req{Content: str("a"), MaxOutputTokensOverride: num(-1)}, fault.ValidationFailed, http.StatusUnprocessableEntity,
		},
	} {
		c.req.SessionId = s
		_, err := n.Sessions.PostMessage(as(t, "ada"), c.req)
		if f := fault.From(err); f == nil || f.Code != c.code || f.HTTP != c.http {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := n.messages("ada", s); len(got) != 0 {
		t.Errorf("stored: %v", got)
	}
}

// A fork begins with its source's conversation, even if the source has ended, and is independent from then on.
// A-SESS-NEW-04.
func TestFork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "First.").GetRunId())
	w.harness.next()
	if _, err := n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true}); err != nil {
		t.Fatal(err)
	}
	fork, err := n.Sessions.CreateSession(as(t, "ada"), &apiv1.CreateSessionRequest{ProjectId: "music", ResumeFrom: s})
	if err != nil {
		t.Fatal(err)
	}
	n.run("ada", fork.GetId(), n.post("ada", fork.GetId(), "Second.").GetRunId())
	var said []string
	for _, m := range w.harness.next().history {
		said = append(said, m.GetBlocks()[0].GetText().GetText())
	}
	if d := cmp.Diff([]string{"First.", "Hello", "Second."}, said); d != "" {
		t.Error(d)
	}
	copies, originals := n.messages("ada", fork.GetId()), n.messages("ada", s)
	if len(copies) != 4 || len(originals) != 2 || copies[0].GetId() == originals[0].GetId() || copies[0].RunId != nil ||
		copies[1].GetContent() != originals[1].GetContent() || copies[1].GetMetadata().GetModel() != "one" {
		t.Errorf("copies = %v", copies)
	}
	if got := n.get("ada", fork.GetId()).GetMessageCount(); got != 4 {
		t.Errorf("%d messages", got)
	}
}

// Messages are listed in order, from the first or after a given one, and newest first; then each page has the
// number of turns before it. A-MSG-LIST-01, A-MSG-LIST-06.
func TestListMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	for range 3 {
		n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	}
	all := n.messages("ada", s)
	if len(all) != 6 {
		t.Fatalf("%d messages", len(all))
	}
	list := func(req *apiv1.ListMessagesRequest) (ids []string) {
		req.SessionId = s
		for {
			resp, err := n.Sessions.ListMessages(as(t, "ada"), req)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range resp.GetItems() {
				ids = append(ids, m.GetId())
			}
			if !resp.GetHasMore() {
				return ids
			}
			req.Cursor = resp.GetNextCursor()
		}
	}
	var ids []string
	for _, m := range all {
		ids = append(ids, m.GetId())
	}
	if d := cmp.Diff(ids, list(&apiv1.ListMessagesRequest{Limit: 4})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(ids[3:], list(&apiv1.ListMessagesRequest{Since: ids[2], Limit: 1})); d != "" {
		t.Error(d)
	}
	if got := list(&apiv1.ListMessagesRequest{Since: ids[5]}); len(got) != 0 {
		t.Errorf("after the last: %v", got)
	}
	var back []string
	var before []int32
	for req := (&apiv1.ListMessagesRequest{SessionId: s, Limit: 2, NewestFirst: true}); ; {
		resp, err := n.Sessions.ListMessages(as(t, "ada"), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range resp.GetItems() {
			back = append(back, m.GetId())
		}
		before = append(before, resp.GetTurnsBefore())
		if !resp.GetHasMore() {
			break
		}
		req.Cursor = resp.GetNextCursor()
		_, err = n.Sessions.ListMessages(as(t, "ada"), &apiv1.ListMessagesRequest{SessionId: s, Cursor: req.GetCursor()})
		refused(t, err, fault.ValidationFailed)
	}
	slices.Reverse(back)
	if d := cmp.Diff(ids, back) + cmp.Diff([]int32{2, 1, 0}, before); d != "" {
		t.Error(d)
	}
	got := list(&apiv1.ListMessagesRequest{Since: ids[3], NewestFirst: true})
	if !slices.Equal(got, []string{ids[5], ids[4]}) {
		t.Errorf("the newest after the fourth: %v", got)
	}
	for _, since := range []string{ident.New(), "\x00", "x"} {
		_, err := n.Sessions.ListMessages(as(t, "ada"), &apiv1.ListMessagesRequest{SessionId: s, Since: since})
		refused(t, err, fault.ValidationFailed)
	}
	resp, err := n.Sessions.ListRuns(as(t, "ada"), &apiv1.ListRunsRequest{SessionId: s, Limit: 2})
	if err != nil || len(resp.GetItems()) != 2 || !resp.GetHasMore() ||
		resp.GetItems()[0].GetTriggerMessageId() != ids[0] ||
		resp.GetItems()[0].DurationMs == nil || resp.GetItems()[0].GetSteps() != 1 {
		t.Errorf("runs = %v, %v", resp.GetItems(), err)
	}
}

// Many simultaneous messages are accepted a few at a time, and each is answered.
func TestACrowdStartsByAndBy(t *testing.T) {
	t.Parallel()
	n := newWorld(t).start("a")
	var crowd sync.WaitGroup
	for range 8 {
		s := n.session("ada")
		crowd.Go(func() {
			if run := n.run("ada", s, n.post("ada", s, "Go.").GetRunId()); run.GetOutcome() != "completed" {
				t.Errorf("run = %v", run)
			}
		})
	}
	crowd.Wait()
}
