package loop

import (
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
)

// A summary between runs comes with its call: wanted with the record of the request, and settled with its use. Under
// a budget of the session or the operator it needs a run, and the compaction drops instead, without a request.
func TestSummariesBetweenRunsAreCounted(t *testing.T) {
	t.Parallel()
	order := contract.CompactOrder{ID: "cmp_x", Strategy: contract.StrategySummarize}
	t.Run("granted", func(t *testing.T) {
		t.Parallel()
		b, summarizer := summarizing(t, 0, says("It was about words."))
		between(b, 9)
		out, err := Compact(t.Context(), b.deps, b.start, order)
		if err != nil || summarizer.calls() != 1 {
			t.Fatalf("%d requests, %v", summarizer.calls(), err)
		}
		var wanted []contract.CallWanted
		var settled []contract.CallSettled
		for _, e := range out.Calls {
			switch e := e.(type) {
			case contract.CallWanted:
				wanted = append(wanted, e)
			case contract.CallSettled:
				settled = append(settled, e)
			}
		}
		if len(wanted) != 1 || len(settled) != 1 || wanted[0].Call != settled[0].Call {
			t.Fatalf("wanted %+v, settled %+v", wanted, settled)
		}
		if w := wanted[0]; w.Agent != "primary" || w.Model != "cheap:wide" || w.Amount.Calls != 1 || len(w.Audit) != 1 ||
			w.Audit[0].Type != requestLeft {
			t.Errorf("wanted %+v", w)
		}
		if s := settled[0]; s.Estimated || s.Amount.Tokens != used.TotalInput()+used.Output || s.Amount.Calls != 1 {
			t.Errorf("settled %+v", s)
		}
	})
	t.Run("under a budget", func(t *testing.T) {
		t.Parallel()
		b, summarizer := summarizing(t, 0, says("It was about words."))
		between(b, 9)
		b.start.Metered = true
		out, err := Compact(t.Context(), b.deps, b.start, order)
		if err != nil || summarizer.calls() != 0 {
			t.Fatalf("%d requests, %v", summarizer.calls(), err)
		}
		last := out.Stages[len(out.Stages)-1]
		if last.Phase != contract.CompactionCompleted || last.Fallback != contract.StrategyDrop ||
			!strings.Contains(last.Reason, "needs a run") {
			t.Errorf("%+v", last)
		}
		for _, e := range out.Calls {
			if _, ok := e.(contract.CallWanted); ok {
				t.Errorf("a refused call is kept: %+v", e)
			}
		}
	})
}
