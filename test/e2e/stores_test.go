package e2e_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	busembedded "kaged.dev/pkg/bus/embedded"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// killPostgres kills the private Postgres of a world and returns its process id.
func killPostgres(t *testing.T, w *kagedtest.World) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.DataDir, "postgres", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return pid
}

// kill -9 of the private Postgres while a model answers: Postgres is started again, the run continues to its end with
// every step, the client keeps its socket and gets every frame, and the session accepts the next message.
func TestPostgresDiesDuringARun(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	gate := fakellm.NewGate()
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		switch {
		case strings.Contains(r.LastText(), "again"):
			return fakellm.Step{fakellm.Say("Still here.")}
		case r.Turns() == 0:
			return fakellm.Step{fakellm.Tool("file.create", `{"path":"one.txt","content":"1\n"}`)}
		case r.Turns() == 1:
			return fakellm.Step{fakellm.Wait(gate), fakellm.Tool("file.create", `{"path":"two.txt","content":"2\n"}`)}
		}
		return fakellm.Step{fakellm.Say("Both are there.")}
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	d := w.Up(t, nil)
	s := kagedtest.Open(t, w.SignIn(t), w.Project(t))
	run := s.Send(t, "make two files")
	if err := gate.Reached(t.Context()); err != nil {
		t.Fatal(err)
	}
	killPostgres(t, w)
	logged := func(what string, times int) {
		t.Helper()
		kagedtest.Eventually(t, "the log says: "+what, func() bool { return strings.Count(d.Stderr.String(), what) == times })
	}
	logged("ended by itself and is started again", 1)
	gate.Open() // the step has to be stored during the outage
	if ended := s.Until(t, "run.ended"); !strings.Contains(string(ended.Payload), `"outcome":"completed"`) ||
		!strings.Contains(string(ended.Payload), run) {
		t.Errorf("the run ended with %s", ended.Payload)
	}
	logged("PostgreSQL is ready", 2)
	kagedtest.Eventually(t, "the next message is taken", func() bool {
		return s.Client.Do(t.Context(), "POST", "/api/v1/sessions/"+s.ID+"/messages", map[string]any{"content": "once again"},
			nil) == nil
	})
	if ended := s.Until(t, "run.ended"); !strings.Contains(string(ended.Payload), `"outcome":"completed"`) {
		t.Errorf("the next run ended with %s", ended.Payload)
	}
	s.Contiguous(t)
	s.SameAgain(t)
	page := kagedtest.Get[messagePage](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages")
	var created int
	if len(page.Items) == 4 {
		for _, p := range page.Items[1].Parts {
			if p.Type == "tool_result" && !p.IsError {
				created++
			}
		}
	}
	if created != 2 {
		t.Errorf("messages: %+v", page.Items)
	}
}

// A Postgres that repeatedly ends at its start makes the daemon end with a sentence, instead of being started forever.
func TestPostgresDiesAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := kagedtest.NewWorld(t, "")
	d := w.Up(t, nil)
	for n := 1; n <= 4; n++ {
		dead := killPostgres(t, w)
		kagedtest.Eventually(t, "the next one is there, or the end", func() bool {
			said := d.Stderr.String()
			return strings.Count(said, "PostgreSQL is ready") > n &&
				!strings.Contains(said[strings.LastIndex(said, "PostgreSQL is ready"):], "pid="+strconv.Itoa(dead)) ||
				strings.Contains(said, "again and again")
		})
	}
	if _, code := d.Rest(t); code != 1 ||
		!strings.Contains(d.Stderr.String(), "kaged: The embedded Postgres ends by itself again and again; its log is in "+
			"the data directory.") {
		t.Errorf("the daemon ended with %d and said %s", code, d.Stderr.Tail(5))
	}
}

// NATS is stopped while a model answers, and started again: the run does not wait for it but ends and is stored. The
// client keeps its socket and gets every frame, in order and once, and so does a later client.
func TestNATSGoesAndComesBack(t *testing.T) {
	t.Parallel()
	opts := busembedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Token: "alone"}
	nats, err := busembedded.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nats.Stop() })
	llm := fakellm.Start(t)
	gate := fakellm.NewGate()
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		switch {
		case strings.Contains(r.LastText(), "again"):
			return fakellm.Step{fakellm.Say("Still here.")}
		case r.Turns() == 0:
			return fakellm.Step{
				fakellm.Say("Well. "), fakellm.Wait(gate), fakellm.Deltas(200, 8, 0),
				fakellm.Tool("file.read", `{"path":"go.mod"}`),
			}
		}
		return fakellm.Step{fakellm.Say("Done.")}
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")+"[services.gateway]\ngrace = \"1m\"\n")
	w.Up(t, append(databaseEnv(t), "KAGED_NATS_URL="+nats.URL()))
	s := kagedtest.Open(t, w.SignIn(t), w.Project(t))
	s.Send(t, "write")
	s.Until(t, "message.delta")
	opts.Listen = nats.Addr()
	nats.Stop()
	gate.Open()
	kagedtest.Eventually(t, "the run is over", func() bool {
		return kagedtest.Get[struct{ State string }](t, s.Client, "/api/v1/sessions/"+s.ID).State == "idle"
	})
	page := kagedtest.Get[messagePage](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages")
	if len(page.Items) != 2 || !strings.HasSuffix(page.Items[1].Content, "Done.") {
		t.Errorf("stored while NATS was away: %+v", page.Items)
	}
	if nats, err = busembedded.Start(opts); err != nil {
		t.Fatal(err)
	}
	if ended := s.Until(t, "run.ended"); !strings.Contains(string(ended.Payload), `"outcome":"completed"`) {
		t.Errorf("the run ended with %s", ended.Payload)
	}
	if outcome := s.Run(t, "once again"); outcome != "completed" {
		t.Errorf("the next run %s", outcome)
	}
	text, ends := "", 0
	for i := 0; ends < 2; i++ { // one channel may be ahead of the other
		if i == len(s.Frames) {
			s.Next(t)
		}
		var p struct{ Delta string }
		switch f := s.Frames[i]; f.Type {
		case "message.delta":
			kagedtest.Payload(t, f, &p)
			text += p.Delta
		case "message.end":
			ends++
		}
	}
	s.Contiguous(t)
	if want := "Well. " + fakellm.DeltaText(200, 8) + "Done.Still here."; text != want {
		t.Errorf("the deltas are %q", text)
	}
	s.SameAgain(t)
}

// A client that attaches after its frames have expired is informed and gets the stored messages. A client without any
// frames is not refused (A-WS-REC-03).
func TestResumeFailsOnceFramesAreGone(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.ScriptEach(fakellm.Steps(fakellm.Step{fakellm.Say("Hello.")}))
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")+
		"[services.session-manager]\nframe_retention = \"1s\"\n")
	w.Up(t, databaseEnv(t))
	s := kagedtest.Open(t, w.SignIn(t), w.Project(t))
	s.Run(t, "Hi.")
	s.Socket.Close()
	kagedtest.Eventually(t, "resuming fails", func() bool {
		socket, err := s.Client.Attach(t.Context(), s.ID, map[string]int64{"output": 1, "events": 1}, true)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		f, err := socket.Read()
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == "closing" && !strings.Contains(string(f.Payload), `"code":"resume_failed"`) {
			t.Errorf("closing %s", f.Raw)
		}
		return f.Type == "closing"
	})
	if page := kagedtest.Get[messagePage](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages"); len(page.Items) != 2 {
		t.Errorf("messages: %+v", page.Items)
	}
	s.Attach(t, nil)
	if outcome := s.Run(t, "Hi again."); outcome != "completed" {
		t.Errorf("the next run %s", outcome)
	}
}
