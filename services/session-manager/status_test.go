package sessionmanager

import (
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// A project's status has the number of its sessions by state, its agents' answers and their cost, and its last ten
// runs, newest first (A-STAT-01 to A-STAT-08).
func TestProjectStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	status := func(user string) (*apiv1.GetProjectStatusResponse, error) {
		return n.Sessions.GetProjectStatus(as(t, user), &apiv1.GetProjectStatusRequest{Id: "music"})
	}
	idle, ended, busy := n.session("ada"), n.session("ada"), n.session("ada")
	empty, err := status("ada")
	if err != nil || empty.GetSessions().GetTotal() != 3 || empty.GetActivity().GetBudget_24H().GetTotalCost() != 0 ||
		len(empty.GetRecentRuns()) != 0 {
		t.Fatal(empty, err)
	}
	var last *apiv1.PostMessageResponse
	for range 12 {
		last = n.post("ada", idle, "Say hello.")
		n.run("ada", idle, last.GetRunId())
	}
	if _, err := n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: ended, Confirm: true}); err != nil {
		t.Fatal(err)
	}
	for range 12 {
		w.harness.next()
	}
	w.harness.expect(func(p *play) { p.hang(); p.crash() })
	working := n.post("ada", busy, "Wait.")
	w.harness.next()
	got, err := status("ada")
	if err != nil {
		t.Fatal(err)
	}
	counts, activity := got.GetSessions(), got.GetActivity()
	if counts.GetRunning() != 1 || counts.GetIdle() != 1 || counts.GetEnded() != 1 || counts.GetTotal() != 3 {
		t.Errorf("sessions %v", counts)
	}
	if activity.GetToolCalls_24H() != 12 || activity.GetBudget_24H().GetTotalCost() != 9 ||
		activity.GetBudget_24H().GetTotalTokensIn() != 144 || activity.GetBudget_24H().GetTotalTokensOut() != 60 {
		t.Errorf("activity %v", activity)
	}
	recent := got.GetRecentRuns()
	if len(recent) != 10 || recent[0].GetId() != working.GetRunId() || recent[0].CostTotal != nil ||
		recent[0].DurationMs != nil ||
		recent[1].GetId() != last.GetRunId() || recent[1].GetCostTotal() != 0.75 || recent[1].DurationMs == nil {
		t.Errorf("recent %v", recent)
	}
	_, err = status("eve")
	refused(t, err, fault.NotFound)
}
