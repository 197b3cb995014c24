package sessionmanager

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// An operator sees the use of own model calls since a time, by project and model: only settled calls, and unsettled
// ones as estimates once their run has ended.
func TestGetSpend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("one")
	spend := func(user string, since *int64) (*apiv1.GetSpendResponse, error) {
		return n.Sessions.GetSpend(as(t, user), &apiv1.GetSpendRequest{Since: since})
	}
	s := n.session("ada")
	if _, err := n.budgeted("ada", s, map[string]any{"tokens": 1000}); err != nil {
		t.Fatal(err)
	}
	w.harness.expect(func(p *play) {
		p.model()
		p.claims(1, 60)
		p.settles(1, 30, true)
		p.turn(1, false, text("Hello"))
		p.claims(2, 20)
		if got, err := spend("ada", nil); err != nil || got.GetTotal().GetTokens() != 30 {
			t.Errorf("with a call in flight: got %v, %v, want 30 tokens", got, err)
		}
		p.complete(1)
	})
	n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	got, err := spend("ada", nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := got.GetTotal()
	if sum.GetTokens() != 50 || sum.GetCalls() != 2 || sum.GetEstimated() != 1 || got.GetHasMore() {
		t.Errorf("the total is %v, want 50 tokens of 2 calls, one of them an estimate", sum)
	}
	if g := got.GetGroups(); len(g) != 1 || g[0].GetProjectId() != "music" || !proto.Equal(g[0].GetSum(), sum) {
		t.Errorf("the groups are %v, want the total for music", g)
	}
	if got, err := spend("eve", nil); err != nil || got.GetTotal().GetCalls() != 0 || len(got.GetGroups()) != 0 {
		t.Errorf("another operator sees %v, %v", got, err)
	}
	if got, err := spend("ada", proto.Int64(n.get("ada", s).GetCreatedAt())); err != nil ||
		!proto.Equal(got.GetTotal(), sum) {
		t.Errorf("since the session began: got %v, %v, want %v", got, err, sum)
	}
	for _, wrong := range []int64{-1, 1 << 60} {
		_, err := spend("ada", &wrong)
		refused(t, err, fault.ValidationFailed)
	}
}
