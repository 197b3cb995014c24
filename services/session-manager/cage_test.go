package sessionmanager

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

func (p *play) cage(c *harnessv1.CageChanged, event string) {
	c.AgentPath, c.Audit = "primary", auditRecords(event)[0]
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Cage{Cage: c}})
}

// A caged agent is pending until its cage exists and caged from then on; its cage's events and network attempts are
// shown and audited (A-SESS-GET-04).
func TestCageOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.primary("cage: {seccomp: default}")
	n := w.start("a")
	s := n.session("ada")
	made, stored := make(chan struct{}), make(chan struct{})
	w.harness.expect(func(p *play) {
		<-made
		p.cage(&harnessv1.CageChanged{Status: "caged", Tier: "userns", Summary: "fs none"}, "cage.opened")
		p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Network{Network: &harnessv1.NetworkTried{
			AgentPath: "primary", Attempt: &commonv1.NetworkAttempt{At: 5, Target: "a:1", Rule: "No.", Count: 2},
			Audit: auditRecords("net.denied")[0],
		}}})
		p.model()
		p.turn(1, true, call("c1", "file.read", `{}`))
		close(stored)
		p.hang()
		p.cage(&harnessv1.CageChanged{Status: "caged", Ended: "walltime"}, "cage.ended")
		p.finish(&harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_FAILED, Error: fault.New(fault.Timeout, "It is over.").Proto(),
		})
	})
	run := n.post("ada", s, "Hi.").GetRunId()
	if got := n.get("ada", s); got.GetCageStatus() != "pending" {
		t.Errorf("before its cage is made: %q", got.GetCageStatus())
	}
	close(made)
	<-stored
	if got := n.get("ada", s); got.GetCageStatus() != "caged" {
		t.Errorf("in its cage: %q", got.GetCageStatus())
	}
	cancelled, err := n.Sessions.CancelRun(as(t, "ada"), &apiv1.CancelRunRequest{SessionId: s, RunId: run})
	if err != nil || cancelled.GetRun().GetCageStatus() != "caged" {
		t.Errorf("%v, %v", cancelled, err)
	}
	if got := n.get("ada", s); got.CageStatus != nil {
		t.Errorf("without a run: %q", got.GetCageStatus())
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	for _, want := range []string{
		`run.cage {"run_id":"` + run + `","agent_path":"primary","cage_status":"caged","tier":"userns","policy":"fs none"}`,
		`net.attempt {"run_id":"` + run + `","agent_path":"primary","at":5,"target":"a:1","allowed":false,"rule":"No.",` +
			`"count":2}`,
		`run.cage {"run_id":"` + run + `","agent_path":"primary","cage_status":"caged","ended":"walltime"}`,
	} {
		if !slices.Contains(events, want) {
			t.Errorf("no %s in %q", want, events)
		}
	}
	recorded, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s, EventType: "cage.*,net.*"})
	if err != nil || len(recorded.GetItems()) != 3 {
		t.Errorf("recorded %v, %v", recorded, err)
	}
}

// An agent without a cage is uncaged. If cages are switched off, an agent with a cage is uncaged once the harness
// has reported that.
func TestUncagedRuns(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(*play){
		"no cage": sayHello,
		"no sandbox": func(p *play) {
			p.cage(&harnessv1.CageChanged{Status: "uncaged"}, "subagent.spawn.uncaged")
			sayHello(p)
		},
	} {
		w := newWorld(t)
		if name == "no sandbox" {
			w.primary("cage: {seccomp: default}")
		}
		n := w.start("a")
		s := n.session("ada")
		w.harness.expect(play)
		if run := n.run("ada", s, n.post("ada", s, "Hi.").GetRunId()); run.GetCageStatus() != "uncaged" {
			t.Errorf("%s: %q", name, run.GetCageStatus())
		}
	}
}

// Running commands are listed only for their operator, of one session or of all. If a workspace is unreachable the
// list fails instead of being empty.
func TestListProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	first, second, foreign := n.session("ada"), n.session("ada"), ident.New()
	w.tools.runs = []string{first, foreign, second}
	list := func(user, session string) (*apiv1.ListProcessesResponse, error) {
		return n.Sessions.ListProcesses(as(t, user), &apiv1.ListProcessesRequest{SessionId: session})
	}
	sessions := func(resp *apiv1.ListProcessesResponse) (of []string) {
		for i, p := range resp.GetProcesses() {
			of = append(of, p.GetSessionId())
			if resp.GetCages()[i].GetSessionId() != p.GetSessionId() {
				t.Errorf("the cages are those of others: %v", resp)
			}
		}
		return of
	}
	all, err := list("ada", "")
	if d := cmp.Diff([]string{first, second}, sessions(all)); d != "" || err != nil {
		t.Error(d, err)
	}
	one, err := list("ada", second)
	if d := cmp.Diff([]string{second}, sessions(one)); d != "" || err != nil {
		t.Error(d, err)
	}
	want := &commonv1.RunningProcess{
		Id: "p", SessionId: second, ProjectId: "music", RunId: "r", AgentPath: "primary", CageId: proto.String("c"), Pid: 7,
		Command:   "sleep 1",
		StartedAt: 1, MemoryBytes: 2, CpuMs: 3, Background: true,
	}
	if d := cmp.Diff(want, one.GetProcesses()[0], protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if nobodys, err := list("eve", ""); err != nil || len(nobodys.GetProcesses())+len(nobodys.GetCages()) > 0 {
		t.Errorf("%v, %v", nobodys, err)
	}
	for _, session := range []string{first, foreign, "\x00"} {
		_, err = list("eve", session)
		refused(t, err, fault.NotFound)
	}
	w.tools.mu.Lock()
	w.tools.away = true
	w.tools.mu.Unlock()
	_, err = list("ada", "")
	refused(t, err, fault.Unavailable)
}
