package e2e_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// A session without clients works, ends and is stored. After a restart it continues without a request that loads it
// (H-STREAM-RELAY-01, H-DSL-TRIG-01, H-STREAM-ENTRY-01). A later client gets every frame of it, only of the defined
// kinds, with thinking separate from text, and each message with its stop reason (H-STREAM-EV-02, H-STREAM-EV-04,
// H-STREAM-EV-09, H-STREAM-MAP-02, H-STREAM-LIM-03). The operator's extra request fields are in every request
// (H-PROV-ABS-01).
func TestNobodyWatches(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if r.Header.Get("X-Team") != "blue" {
			t.Errorf("request %d carries %q", r.N, r.Header.Get("X-Team"))
		}
		switch {
		case r.LastText() == "first" && r.Turns() == 0:
			return fakellm.Step{fakellm.Think("Hm."), fakellm.Say("Looking."), fakellm.Tool("file.read", `{"path":"go.mod"}`)}
		case r.LastText() == "second":
			if !strings.Contains(string(r.Body), "Found it.") {
				t.Error("the second message came without the first one's answer")
			}
			return fakellm.Step{fakellm.Say("And then"), fakellm.Stop("length")}
		case r.LastText() == "third":
			return fakellm.Step{fakellm.Status(400, "No.")}
		}
		return fakellm.Step{fakellm.Say("Found it.")}
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")+"headers = {X-Team = \"blue\"}\n")
	env := databaseEnv(t)
	d := w.Up(t, env)
	s := kagedtest.Open(t, w.SignIn(t), w.Project(t))
	s.Socket.Close()
	unwatched := func(text string, messages int) {
		t.Helper()
		s.Send(t, text)
		kagedtest.Eventually(t, "the session is idle", func() bool {
			return kagedtest.Get[struct{ State string }](t, s.Client, "/api/v1/sessions/"+s.ID).State == "idle"
		})
		page := kagedtest.Get[messagePage](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages")
		if len(page.Items) != messages {
			t.Errorf("after %q there are %d messages", text, len(page.Items))
		}
	}
	unwatched("first", 2)
	d.Signal(syscall.SIGTERM)
	if _, code := d.Rest(t); code != 0 {
		t.Fatalf("the daemon ended with %d", code)
	}
	w.Up(t, env)
	s.Client = w.SignIn(t)
	unwatched("second", 4)
	unwatched("third", 6)

	page := kagedtest.Get[messagePage](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages")
	var reasons []string
	for _, m := range page.Items {
		if m.Role == "primary" {
			reasons = append(reasons, m.Metadata.StopReason)
		}
	}
	if want := []string{"stop", "length", "error"}; !slices.Equal(reasons, want) {
		t.Errorf("the messages stopped for %v, want %v", reasons, want)
	}
	checkReplay(t, s)
}

// checkReplay attaches to a session of three messages from its first frame and reads all of them.
func checkReplay(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	s.Attach(t, nil)
	known := []string{
		"message.start", "message.delta", "message.tool_call", "message.tool_output", "message.tool_result", "message.end",
		"run.started", "run.ended", "session.state", "subscribed",
	}
	text, reasons := map[string]string{}, []string{}
	for ended := 0; ended < 3 || len(reasons) < 3; {
		f := s.Next(t)
		if !slices.Contains(known, f.Type) {
			t.Errorf("there is no frame %s: %s", f.Type, f.Raw)
		}
		var p struct {
			Kind, Delta string
			StopReason  string `json:"stop_reason"`
		}
		kagedtest.Payload(t, f, &p)
		switch f.Type {
		case "message.delta":
			text[p.Kind] += p.Delta
		case "message.end":
			reasons = append(reasons, p.StopReason)
		case "run.ended":
			ended++
		}
	}
	s.Contiguous(t)
	if text["thinking"] != "Hm." || text["text"] != "Looking.Found it.And then" || len(text) != 2 {
		t.Errorf("the deltas are %q", text)
	}
	if want := []string{"stop", "length", "error"}; !slices.Equal(reasons, want) {
		t.Errorf("message.end says %v, want %v", reasons, want)
	}
}
