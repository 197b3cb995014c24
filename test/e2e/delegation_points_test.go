//go:build faults

package e2e_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// Each turn of the model in these tests has the use turnUse, which costs turnUSD.
var turnUse = llm.Usage{Input: 1000, Output: 100}

const turnUSD = (1000*3 + 100*15) / 1e6

// progress is the stored part of a delegation after its session-manager was killed at a point: the number of begun
// invocations, the possible states of the first one after the recovery, and whether the child's command has run.
type progress struct {
	began  int
	states string
	ran    bool
}

// pointsOfATree are the named points of a run that delegates, and its progress there.
var pointsOfATree = map[crash.Point]progress{
	crash.MessageStored:      {},
	crash.RunDispatched:      {},
	crash.RequestAudited:     {},
	crash.BudgetGranted:      {},
	crash.TurnBeforeStore:    {},
	crash.TurnStored:         {began: 1, states: "failed"}, // stored together with the child's start
	crash.BudgetSettled:      {began: 1, states: "failed"},
	crash.AgentStarted:       {began: 1, states: "failed"},
	crash.ChildTurnStored:    {began: 1, states: "failed"},
	crash.ChildResultsStored: {began: 1, states: "failed", ran: true},
	crash.AgentEnded:         {began: 1, states: "completed", ran: true},
	crash.ResultsBeforeStore: {began: 1, states: "failed completed", ran: true}, // the child's end may share the commit
	crash.ResultsStored:      {began: 1, states: "completed", ran: true},
	crash.RunEndBeforeStore:  {began: 1, states: "completed", ran: true},
	crash.RunEndStored:       {began: 1, states: "completed", ran: true},
}

// pointsOfTheChild are the points that are about delegation and budgets. At these each service is killed; at the others
// only the services that a run cannot lose.
var pointsOfTheChild = []crash.Point{
	crash.RequestAudited, crash.BudgetGranted, crash.BudgetSettled, crash.AgentStarted, crash.ChildTurnStored,
	crash.ChildResultsStored, crash.AgentEnded,
}

// victims are the services with the effect of their death on a run: without a name here a run does not notice.
var victims = map[string]string{
	"session-manager": "ends it", "harness": "ends it",
	"tool-runner": "ends the child", "sandbox-supervisor": "ends the child",
}

// trapped is a deployment of single services with a trap, and a project for each crash policy. Its tests run one after
// the other.
type trapped struct {
	*constellation
	t    *testing.T // of the whole deployment
	llm  *fakellm.Server
	trap string
	dirs map[string]string
}

var caseName = regexp.MustCompile(`case-[0-9]+`)

// appender is the model of both agents: the root passes the operator's words to the smith. The smith appends a line to
// the file that they name.
func appender(r *fakellm.Request) fakellm.Step {
	step := delegating(func(r *fakellm.Request) fakellm.Step {
		if r.Turns() == 0 {
			command := "echo made >>" + caseName.FindString(r.LastText())
			return fakellm.Step{fakellm.Tool("shell.bash", fmt.Sprintf(`{"command":%q}`, command))}
		}
		return fakellm.Step{fakellm.Say("Made.")}
	})(r)
	if !smiths(r) && r.Turns() == 0 {
		step = fakellm.Step{fakellm.Tool("agent-smith", `{"prompt":"`+r.LastText()+`"}`)}
	}
	return append(fakellm.Step{fakellm.Usage(turnUse)}, step...)
}

func startTrapped(t *testing.T) *trapped {
	t.Helper()
	c := &trapped{t: t, llm: fakellm.Start(t), trap: filepath.Join(t.TempDir(), "trap"), dirs: map[string]string{}}
	c.llm.Handle(appender)
	c.constellation = startAlone(t, c.llm, crash.TrapVariable+"="+c.trap)
	for _, policy := range []string{"stop", "resume"} {
		c.dirs[policy] = pairProjectIn(t, c.World, policy, policy)
	}
	return c
}

// set sets the trap: at a point, the victim is killed.
func (c *trapped) set(t *testing.T, point crash.Point, victim string) {
	t.Helper()
	next := c.trap + ".next"
	if err := os.WriteFile(next, fmt.Appendln(nil, point, c.processes[victim].PID()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, c.trap); err != nil {
		t.Fatal(err)
	}
}

// kill -9 of each service at each named point of a delegation, under both crash policies. Finished steps are kept and
// not repeated, a command runs at most once per stored call, and a call of unknown effects is marked. Each turn
// costs once, each request is charged once, and no process and no cage is left.
func TestEachServiceKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, lane := range [][]string{
		{"session-manager", "gateway", "lsp-pool"}, {"harness", "tool-runner", "sandbox-supervisor", "dap-pool", "issue"},
	} {
		t.Run(lane[0], func(t *testing.T) {
			t.Parallel()
			c, n := startTrapped(t), 0
			for _, victim := range lane {
				for _, point := range crash.Points() {
					for _, policy := range policiesAt(point, victim) {
						n++
						t.Run(victim+"/"+string(point)+"/"+policy, func(t *testing.T) {
							c.killed(t, victim, point, policy, fmt.Sprintf("case-%d", n))
						})
					}
				}
			}
		})
	}
}

// policiesAt returns the crash policies under which a service is killed at a point. Both policies are the same for a
// service that a run does not need: one is enough.
func policiesAt(point crash.Point, victim string) []string {
	_, ofATree := pointsOfATree[point]
	about := slices.Index(pointsOfTheChild, point)
	switch effect := victims[victim]; {
	case ofATree && effect == "ends it", about >= 0 && effect == "ends the child":
		return []string{"stop", "resume"}
	case about >= 0:
		return []string{"stop", "resume"}[about%2 : about%2+1]
	}
	return nil
}

func (c *trapped) killed(t *testing.T, victim string, point crash.Point, policy, name string) {
	s := kagedtest.Open(t, c.SignIn(t), c.dirs[policy])
	path := "/api/v1/sessions/" + s.ID
	budget := map[string]any{"budget": map[string]any{"calls": 100}}
	if err := s.Client.Do(t.Context(), "PUT", path, budget, nil); err != nil {
		t.Fatal(err)
	}
	before := len(c.llm.Requests())
	c.set(t, point, victim)
	// The answer may be lost with the victim; the stored message may not be lost.
	_ = s.Client.Do(t.Context(), "POST", path+"/messages", map[string]any{"content": "have it done, " + name}, nil)
	c.processes[victim].Rest(t)
	c.start(c.t, victim)
	c.serves(t, victim)
	if victim == "gateway" {
		s.Client = c.SignIn(t)
		s.Attach(t, s.Seen())
	}
	cut := victims[victim] == "ends it" && point != crash.RunEndStored
	if victim == "harness" && point == crash.RunEndBeforeStore {
		cut = false // the harness has reported the end
	}
	runs := 1
	if cut && policy == "resume" {
		runs = 2
	}
	// A harness that is gone before it gets the run is waited for.
	waits := victim == "harness" && point == crash.MessageStored
	states := ended(t, s, func(states []string) bool {
		return len(states) == runs || waits && slices.Equal(states, []string{"completed"})
	})
	cut = cut && !(waits && states[0] == "completed")
	want := "completed"
	if cut {
		want = "failed"
	}
	if states[0] != want || states[len(states)-1] != "completed" && policy == "resume" {
		t.Errorf("the runs are %v, want the first one %s", states, want)
	}
	c.checkKept(t, s, policy, name, before)
	first := kagedtest.Get[struct{ Items []struct{ ID string } }](t, s.Client, path+"/runs").Items[0].ID
	got := kagedtest.Get[invocations](t, s.Client, path+"/invocations?run_id="+first).Items
	reached := pointsOfATree[point]
	switch {
	case !cut && victims[victim] == "ends the child": // or the child has begun after the restart
		reached = progress{began: 1, states: "failed completed"}
	case !cut:
		reached = progress{began: 1, states: "completed", ran: true}
	case victim == "harness": // its last words may have been under way
		reached = progress{began: len(got), states: "failed completed", ran: reached.ran}
	}
	if len(got) != reached.began || len(got) > 1 || len(got) > 0 && !strings.Contains(reached.states, got[0].State) {
		t.Errorf("invocations of the first run: %+v, want %+v", got, reached)
	}
	if ran := lines(t, c.dirs[policy], name); reached.ran && ran != 1 || ran > 1 {
		t.Errorf("the command ran %d times, want %+v", ran, reached)
	}
	if outcome := s.Run(t, "once again"); outcome != "completed" {
		t.Errorf("the next run %s", outcome)
	}
	s.Contiguous(t)
	checkOnce(t, s)
	checkInvocations(t, s)
	s.SameAgain(t)
}

// ended waits until a session is idle after all of its runs, and returns their states.
func ended(t *testing.T, s *kagedtest.Session, all func(states []string) bool) (states []string) {
	t.Helper()
	path := "/api/v1/sessions/" + s.ID
	kagedtest.Eventually(t, "the session is idle after its runs", func() bool {
		var list struct{ Items []struct{ State string } }
		var session struct{ State string }
		if s.Client.Do(t.Context(), "GET", path+"/runs", nil, &list) != nil {
			return false // the service may have just started
		}
		states = nil
		for _, run := range list.Items {
			if run.State == "running" || run.State == "pending" {
				return false
			}
			states = append(states, run.State)
		}
		return all(states) && s.Client.Do(t.Context(), "GET", path, nil, &session) == nil && session.State == "idle"
	})
	return states
}

// lines returns how often the smith's command of a case has run.
func lines(t *testing.T, dir, name string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(data), "made\n")
}

// turns are the stored turns of an agent with their results.
type turns []struct {
	Parts []struct {
		Type, ID, Name string
		CallID         string `json:"tool_call_id"`
		IsError        bool   `json:"is_error"`
	}
}

// checkKept compares the records of a session that is idle with its effects and its requests: the message is kept, each
// stored turn costs once, each request is charged once, and at most one request that was not sent is charged. The
// smith's command ran once for each stored result, and at most once for each call that is marked as interrupted.
func (c *trapped) checkKept(t *testing.T, s *kagedtest.Session, policy, name string, before int) {
	t.Helper()
	path := "/api/v1/sessions/" + s.ID
	if page := kagedtest.Get[messagePage](t, s.Client, path+"/messages"); len(page.Items) == 0 ||
		!strings.HasSuffix(page.Items[0].Content, name) {
		t.Errorf("the message is lost: %+v", page.Items)
	}
	stored, cost := 0, 0.0
	for _, run := range kagedtest.Get[struct{ Items []struct{ ID string } }](t, s.Client, path+"/runs").Items {
		r := kagedtest.Get[struct {
			Steps turns
			Cost  float64 `json:"cost_total"`
		}](t, s.Client, path+"/runs/"+run.ID)
		stored, cost = stored+len(r.Steps), cost+r.Cost
	}
	did, unknown := 0, map[string]bool{}
	for _, i := range kagedtest.Get[invocations](t, s.Client, path+"/invocations").Items {
		steps := kagedtest.Get[struct {
			Steps turns `json:"run_steps"`
		}](t, s.Client, path+"/invocations/"+i.ID).Steps
		stored += len(steps)
		for _, step := range steps {
			for _, p := range step.Parts {
				switch {
				case p.Type == "tool_call":
					unknown[p.ID] = true
				case p.Type == "tool_result" && !p.IsError:
					did++
					delete(unknown, p.CallID)
				}
			}
		}
	}
	if want := float64(stored) * turnUSD; math.Abs(cost-want) > 1e-9 {
		t.Errorf("%d turns are stored and cost %f, want %f", stored, cost, want)
	}
	if ran := lines(t, c.dirs[policy], name); ran < did || ran > did+len(unknown) {
		t.Errorf("the command ran %d times, with %d results and %d calls of unknown effect", ran, did, len(unknown))
	}
	budget := kagedtest.Get[struct {
		Budget struct {
			Spent, Reserved struct {
				Calls int
				USD   float64
			}
		}
	}](t, s.Client, path).Budget
	sent := len(c.llm.Requests()) - before
	if budget.Spent.Calls < sent || budget.Spent.Calls > sent+1 || budget.Reserved.Calls != 0 ||
		budget.Spent.USD < cost-1e-9 {
		t.Errorf("%+v is charged for %d requests and turns of %f USD", budget, sent, cost)
	}
	kagedtest.Eventually(t, "no process and no cage is left", func() bool {
		var now runsNow
		err := s.Client.Do(t.Context(), "GET", path+"/processes", nil, &now) // the service may have just started
		return err == nil && len(now.Processes)+len(now.Cages) == 0 && len(kagedtest.Running(t, c.dirs[policy])) == 0
	})
}
