//go:build faults

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// maker is a model that creates one file and ends its turn, and answers "again" with a word.
func maker(r *fakellm.Request) fakellm.Step {
	switch {
	case strings.Contains(r.LastText(), "again"):
		return fakellm.Step{fakellm.Say("Still here.")}
	case r.Turns() == 0:
		return fakellm.Step{fakellm.Say("Making it."), fakellm.Tool("file.create", `{"path":"made.txt","content":"made\n"}`)}
	}
	return fakellm.Step{fakellm.Say("Done.")}
}

// reached is the progress of a run on disk when it was killed at a point. more is set if the point is not in the run
// itself.
type reached struct {
	message, turn, file, results, end bool
	more                              bool
}

var pointsOfARun = map[crash.Point]reached{
	crash.LeaseTaken:         {},
	crash.MessageStored:      {message: true},
	crash.RunDispatched:      {message: true},
	crash.RequestAudited:     {message: true},
	crash.TurnBeforeStore:    {message: true},
	crash.TurnStored:         {message: true, turn: true},
	crash.ResultsBeforeStore: {message: true, turn: true, file: true},
	crash.ResultsStored:      {message: true, turn: true, file: true, results: true},
	crash.RunEndBeforeStore:  {message: true, turn: true, file: true, results: true},
	crash.RunEndStored:       {message: true, turn: true, file: true, results: true, end: true},
	crash.FramesPublished:    {message: true, more: true},
}

// kill -9 of the whole daemon with its stores, at every named point of a run: files on disk survive the restart, the
// session accepts the next message, and reading it calls no model. Every frame that a client has received is repeated
// byte for byte, numbers continue without a gap, and each run has exactly one start and one end.
func TestKilledAtEveryPointOfARun(t *testing.T) {
	t.Parallel()
	for _, point := range crash.Points() {
		want, ofARun := pointsOfARun[point]
		if !ofARun {
			continue
		}
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			llm := fakellm.Start(t)
			llm.Handle(maker)
			w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
			dir := w.Project(t)
			d := w.Up(t, []string{"KAGED_CRASH_AT=" + string(point)})
			s := kagedtest.Create(t, w.SignIn(t), dir)
			if point != crash.LeaseTaken { // attaching a client reaches this point
				s.Attach(t, nil)
			}
			// The answer may be lost with the daemon; stored data may not be lost.
			_ = s.Client.Do(t.Context(), "POST", "/api/v1/sessions/"+s.ID+"/messages", map[string]any{"content": "make it"}, nil)
			if s.Socket != nil {
				s.UntilLost(t)
			}
			if _, code := d.Rest(t); code != 128+int(syscall.SIGKILL) {
				t.Fatalf("the daemon ended with %d instead of being killed", code)
			}
			asked := len(llm.Requests())

			w.Up(t, nil)
			s.Client = w.SignIn(t)
			kagedtest.Eventually(t, "the session is idle", func() bool {
				return kagedtest.Get[struct{ State string }](t, s.Client, "/api/v1/sessions/"+s.ID).State == "idle"
			})
			seen := s.Frames
			s.Frames = nil
			s.Attach(t, nil)
			checkReached(t, s, want)
			if _, err := os.Stat(filepath.Join(dir, "made.txt")); (err == nil) != want.file && !want.more {
				t.Errorf("the file: %v, want it there: %v", err, want.file)
			}
			if n := len(llm.Requests()); n != asked {
				t.Errorf("looking asked the model %d times", n-asked)
			}
			if outcome := s.Run(t, "once again"); outcome != "completed" {
				t.Errorf("the next run %s", outcome)
			}
			s.Contiguous(t)
			s.BeginsWith(t, seen)
			checkOnce(t, s)
			s.SameAgain(t)
		})
	}
}

// checkOnce checks that every run, and each of its messages, has exactly one start and one end.
func checkOnce(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	told := map[string]int{}
	for _, f := range s.Frames {
		var p struct {
			RunID     string `json:"run_id"`
			MessageID string `json:"message_id"`
		}
		switch f.Type {
		case "run.started", "run.ended":
			kagedtest.Payload(t, f, &p)
			told[f.Type+" "+p.RunID]++
		case "message.start", "message.end":
			kagedtest.Payload(t, f, &p)
			told[f.Type+" "+p.MessageID]++
		}
	}
	for what, n := range told {
		kind, id, _ := strings.Cut(what, " ")
		other, paired := strings.CutSuffix(kind, "ended")
		if n != 1 || paired && told[other+"started "+id] != 1 {
			t.Errorf("%s was told %d times, its beginning %d times", what, n, told[other+"started "+id])
		}
	}
}

// checkReached compares the stored session with the expected progress.
func checkReached(t *testing.T, s *kagedtest.Session, want reached) {
	t.Helper()
	page := kagedtest.Get[messagePage](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages")
	if !want.message {
		if len(page.Items) != 0 {
			t.Errorf("messages appeared: %+v", page.Items)
		}
		return
	}
	if len(page.Items) == 0 || page.Items[0].Content != "make it" {
		t.Fatalf("the acknowledged message is lost: %+v", page.Items)
	}
	runs := kagedtest.Get[struct {
		Items []struct {
			State string
			Error *struct{ Code string }
		}
	}](t, s.Client, "/api/v1/sessions/"+s.ID+"/runs")
	if len(runs.Items) != 1 {
		t.Fatalf("runs: %+v", runs.Items)
	}
	if want.more {
		return
	}
	if r := runs.Items[0]; want.end && r.State != "completed" ||
		!want.end && (r.State != "failed" || r.Error == nil || r.Error.Code != "interrupted") {
		t.Errorf("the run: %+v", r)
	}
	if !want.turn {
		return
	}
	if len(page.Items) != 2 {
		t.Fatalf("the run's message is missing: %+v", page.Items)
	}
	var called, succeeded bool
	for _, p := range page.Items[1].Parts {
		called = called || p.Type == "tool_call" && p.Name == "file.create"
		succeeded = succeeded || p.Type == "tool_result" && !p.IsError
	}
	if !called || succeeded != want.results {
		t.Errorf("parts: %+v, want a result: %v", page.Items[1].Parts, want.results)
	}
}

// A daemon that is killed while it repairs after a crash finishes the repair at its third start.
func TestKilledDuringRecovery(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(maker)
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	d := w.Up(t, []string{"KAGED_CRASH_AT=" + string(crash.ResultsStored)})
	s := kagedtest.Open(t, w.SignIn(t), dir)
	s.Send(t, "make it")
	d.Rest(t)

	second := kagedtest.Command(t, "kaged", append(w.Env, "KAGED_CRASH_AT="+string(crash.RecoveryStored)), "up",
		"--listen", "127.0.0.1:0")
	if _, code := second.Rest(t); code != 128+int(syscall.SIGKILL) {
		t.Fatalf("the second start ended with %d instead of being killed", code)
	}

	w.Up(t, nil)
	s.Client = w.SignIn(t)
	s.Attach(t, nil)
	kagedtest.Eventually(t, "the session is idle", func() bool {
		return kagedtest.Get[struct{ State string }](t, s.Client, "/api/v1/sessions/"+s.ID).State == "idle"
	})
	checkReached(t, s, reached{message: true, turn: true, file: true, results: true})
	if outcome := s.Run(t, "once again"); outcome != "completed" {
		t.Errorf("the next run %s", outcome)
	}
	ends := 0
	for _, f := range s.Frames {
		if f.Type == "run.ended" {
			ends++
		}
	}
	if ends != 2 {
		t.Errorf("%d run.ended frames for two runs", ends)
	}
}

// The end of a session takes effect although its daemon is killed right after the end was stored.
func TestKilledWhileASessionEnds(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	d := w.Up(t, []string{"KAGED_CRASH_AT=" + string(crash.SessionEndStored)})
	s := kagedtest.Open(t, w.SignIn(t), dir)
	_ = s.Client.Do(t.Context(), "DELETE", "/api/v1/sessions/"+s.ID+"?confirm=true", nil, nil)
	d.Rest(t)
	w.Up(t, nil)
	if got := kagedtest.Get[struct{ State string }](t, w.SignIn(t), "/api/v1/sessions/"+s.ID); got.State != "ended" {
		t.Errorf("the session is %s", got.State)
	}
}

// kill -9 around an operator's answer: when the request is stored but not announced, and when the answer is stored but
// not announced. In both cases the command does not run, before or after the restart, and the request is closed.
func TestKilledAroundAnApproval(t *testing.T) {
	t.Parallel()
	for point, want := range map[crash.Point]string{crash.ApprovalStored: "closed", crash.ApprovalAnswered: "approved"} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			p := &pendingApproval{llm: fakellm.Start(t)}
			p.llm.Handle(unlinker)
			p.world = kagedtest.NewWorld(t, kagedtest.FakeModels(p.llm, "anthropic"))
			p.dir = p.world.Project(t)
			kagedtest.Write(t, p.dir, "doomed.txt", "doomed\n")
			p.daemon = p.world.Up(t, []string{"KAGED_CRASH_AT=" + string(point)})
			p.Session = kagedtest.Open(t, p.world.SignIn(t), p.dir)
			_ = p.Client.Do(t.Context(), "POST", "/api/v1/sessions/"+p.ID+"/messages", map[string]any{"content": "clean up"},
				nil)
			if point == crash.ApprovalAnswered {
				var asked struct {
					ApprovalID string `json:"approval_id"`
				}
				kagedtest.Payload(t, p.Until(t, "approval.requested"), &asked)
				p.id = asked.ApprovalID
				_ = p.Client.Do(t.Context(), "POST", p.path(), map[string]any{"decision": "approve"}, nil)
			}
			if _, code := p.daemon.Rest(t); code != 128+int(syscall.SIGKILL) {
				t.Fatalf("the daemon ended with %d instead of being killed", code)
			}
			p.again(t)
			list := kagedtest.Get[struct{ Items []struct{ State string } }](t, p.Client, "/api/v1/sessions/"+p.ID+"/approvals")
			if len(list.Items) != 1 || list.Items[0].State != want {
				t.Errorf("approvals: %+v, want one that is %s", list, want)
			}
			resolved := p.Until(t, "approval.resolved")
			if !strings.Contains(string(resolved.Payload), `"state":"`+want+`"`) {
				t.Errorf("the frame says %s", resolved.Payload)
			}
			if !p.there() || p.events(t)["shell.executed"] != 0 {
				t.Error("the command was run")
			}
			if outcome := p.Run(t, "once again"); outcome != "completed" {
				t.Errorf("the next run %s", outcome)
			}
			p.Contiguous(t)
		})
	}
}
