//go:build faults

package sessionmanager

import (
	"testing"

	"kaged.dev/pkg/crash"
)

// After a kill between a grant and its answer, or after a call was settled with its turn, the next process counts
// each call once: stored turns with their use, the call in flight with its reservation, marked as estimated.
func TestKilledWithABudget(t *testing.T) {
	t.Parallel()
	for point, want := range map[crash.Point][2]int64{
		crash.BudgetGranted: {60, 1}, crash.BudgetSettled: {25, 0}, crash.TurnBeforeStore: {60, 1},
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.network(t)
			first, dead := w.spawn(t, "one", crash.Variable+"="+string(point))
			s := first.session("ada")
			if _, err := first.budgeted("ada", s, map[string]any{"tokens": 100}); err != nil {
				t.Fatal(err)
			}
			w.harness.expect(func(p *play) {
				p.model()
				p.claims(1, 60)
				p.settles(1, 25, true)
				p.turn(1, true, text("Hello"))
				<-p.stream.Context().Done()
				panic(errGone)
			})
			posted := first.post("ada", s, "Go.")
			dead.died(t)
			second := w.start("one")
			second.run("ada", s, posted.GetRunId())
			b := second.get("ada", s).GetBudget()
			if b.GetSpent().GetTokens() != want[0] || b.GetSpent().GetCalls() != 1 || b.GetReserved().GetTokens() != 0 {
				t.Errorf("the session shows %v, want %d tokens", b, want[0])
			}
			var estimated int64
			const counted = "select count(*) from session_manager.spend where estimated and session_id = $1"
			err := w.connect(w.owner).QueryRow(t.Context(), counted, s).Scan(&estimated)
			if err != nil || estimated != want[1] {
				t.Errorf("%d calls are estimated, want %d (%v)", estimated, want[1], err)
			}
		})
	}
}
