//go:build faults

package e2e_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// pointsOfADelegation have the smith's progress when the daemon was killed: the number of its starts, its end, and
// whether its file exists.
var pointsOfADelegation = map[crash.Point]struct {
	began int
	state string
	file  bool
}{
	crash.RequestAudited: {},
	crash.BudgetGranted:  {},
	// The root's first call is settled in the commit that stores the smith's start (ADR 0107).
	crash.BudgetSettled:      {began: 1, state: "failed"},
	crash.AgentStarted:       {began: 1, state: "failed"},
	crash.ChildTurnStored:    {began: 1, state: "failed"},
	crash.ChildResultsStored: {began: 1, state: "failed", file: true},
	crash.AgentEnded:         {began: 1, state: "completed", file: true},
}

// kill -9 of the whole daemon with its stores at every named point of a delegation, under one of the crash policies:
// finished work of the child survives the restart and is not repeated, its invocation has ended once, and no process of
// it is left. Each request sent to a model is charged once; one request that was granted but not sent may be charged
// too. [TestEachServiceKilledAtEachPoint] kills single services under both policies.
func TestKilledInADelegation(t *testing.T) {
	t.Parallel()
	for i, point := range pointsOfTheChild {
		policy, want := []string{"resume", "stop"}[i%2], pointsOfADelegation[point]
		t.Run(string(point)+"/"+policy, func(t *testing.T) {
			t.Parallel()
			llm := fakellm.Start(t)
			llm.Handle(delegating(func(r *fakellm.Request) fakellm.Step {
				if r.Turns() == 0 {
					return fakellm.Step{fakellm.Tool("file.create", `{"path":"made.txt","content":"made\n"}`)}
				}
				return fakellm.Step{fakellm.Say("Made.")}
			}))
			w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
			dir := pairProject(t, w, policy)
			d := w.Up(t, []string{"KAGED_CRASH_AT=" + string(point)})
			s := kagedtest.Open(t, w.SignIn(t), dir)
			path := "/api/v1/sessions/" + s.ID
			budget := map[string]any{"budget": map[string]any{"calls": 100}}
			if err := s.Client.Do(t.Context(), "PUT", path, budget, nil); err != nil {
				t.Fatal(err)
			}
			_ = s.Client.Do(t.Context(), "POST", path+"/messages", map[string]any{"content": "have it done"}, nil)
			s.UntilLost(t)
			if _, code := d.Rest(t); code != 128+int(syscall.SIGKILL) {
				t.Fatalf("the daemon ended with %d instead of being killed", code)
			}
			kagedtest.Eventually(t, "no process of the project is left", func() bool {
				return len(kagedtest.Running(t, dir)) == 0
			})

			w.Up(t, nil)
			s.Client = w.SignIn(t)
			kagedtest.Eventually(t, "the session is idle", func() bool {
				runs := kagedtest.Get[struct{ Items []struct{ State string } }](t, s.Client, path+"/runs").Items
				last := runs[len(runs)-1].State
				return kagedtest.Get[struct{ State string }](t, s.Client, path).State == "idle" &&
					(policy == "stop" && last == "failed" || policy == "resume" && len(runs) == 2 && last == "completed")
			})
			first := kagedtest.Get[struct{ Items []struct{ ID string } }](t, s.Client, path+"/runs").Items[0].ID
			got := kagedtest.Get[invocations](t, s.Client, path+"/invocations?run_id="+first).Items
			if len(got) != want.began || want.began > 0 && got[0].State != want.state {
				t.Errorf("invocations of the killed run: %+v", got)
			}
			all := kagedtest.Get[invocations](t, s.Client, path+"/invocations").Items
			_, err := os.Stat(filepath.Join(dir, "made.txt"))
			if there := want.file || len(all) > want.began; (err == nil) != there {
				t.Errorf("the file: %v, want it there: %v", err, there)
			}
			checkCharged(t, s, llm)
			seen := s.Frames
			s.Frames = nil
			s.Attach(t, nil)
			if outcome := s.Run(t, "once again"); outcome != "completed" {
				t.Errorf("the next run %s", outcome)
			}
			checkCharged(t, s, llm)
			s.Contiguous(t)
			s.BeginsWith(t, seen)
			checkOnce(t, s)
			checkInvocations(t, s)
			s.SameAgain(t)
		})
	}
}

// checkCharged checks that the session's budget was charged once for each request, and for at most one that was not
// sent.
func checkCharged(t *testing.T, s *kagedtest.Session, llm *fakellm.Server) {
	t.Helper()
	b := kagedtest.Get[struct {
		Budget struct{ Spent, Reserved struct{ Calls int } }
	}](t, s.Client, "/api/v1/sessions/"+s.ID).Budget
	if sent := len(llm.Requests()); b.Spent.Calls < sent || b.Spent.Calls > sent+1 || b.Reserved.Calls != 0 {
		t.Errorf("%d calls are charged and %d reserved of %d requests", b.Spent.Calls, b.Reserved.Calls, sent)
	}
}
