package kaged_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/services/kaged/internal/kagedtest"
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

// kill -9 of the private Postgres while a model works: it is started again, the run goes on to its end with every step, the
// client keeps its socket and misses no frame, and the session takes the next message.
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
	gate.Open() // the step has to be stored while nothing can be
	if ended := s.Until(t, "run.ended"); !strings.Contains(string(ended.Payload), `"outcome":"completed"`) || !strings.Contains(string(ended.Payload), run) {
		t.Errorf("the run ended with %s", ended.Payload)
	}
	logged("PostgreSQL is ready", 2)
	kagedtest.Eventually(t, "the next message is taken", func() bool {
		return s.Client.Do(t.Context(), "POST", "/api/v1/sessions/"+s.ID+"/messages", map[string]any{"content": "once again"}, nil) == nil
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

// A Postgres that dies whenever it is started ends the daemon, with a sentence, instead of being started for ever.
func TestPostgresDiesAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := kagedtest.NewWorld(t, "")
	d := w.Up(t, nil)
	for n := 1; n <= 4; n++ {
		dead := killPostgres(t, w)
		kagedtest.Eventually(t, "the next one is there, or the end", func() bool {
			said := d.Stderr.String()
			return strings.Count(said, "PostgreSQL is ready") > n && !strings.Contains(said[strings.LastIndex(said, "PostgreSQL is ready"):], "pid="+strconv.Itoa(dead)) ||
				strings.Contains(said, "again and again")
		})
	}
	if _, code := d.Rest(t); code != 1 || !strings.Contains(d.Stderr.String(), "kaged: The embedded Postgres ends by itself again and again; its log is in the data directory.") {
		t.Errorf("the daemon ended with %d and said %s", code, d.Stderr.Tail(5))
	}
}
