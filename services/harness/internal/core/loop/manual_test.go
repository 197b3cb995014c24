package loop

import (
	"context"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// granted grants each call.
func granted(_ context.Context, w contract.CallWanted) (contract.CallGranted, error) {
	return contract.CallGranted{Call: w.Call}, nil
}

// A summary between runs waits for the grant of its call, which carries the record of the request, and the call is
// settled with its use. If a budget refuses the call, the compaction drops without a request.
func TestSummariesBetweenRunsAreCounted(t *testing.T) {
	t.Parallel()
	order := contract.CompactOrder{ID: "cmp_x", Strategy: contract.StrategySummarize}
	t.Run("granted", func(t *testing.T) {
		t.Parallel()
		b, summarizer := summarizing(t, 0, says("It was about words."))
		between(b, 9)
		var wanted []contract.CallWanted
		out, err := Compact(t.Context(), b.deps, b.start, order, func(
			ctx context.Context, w contract.CallWanted,
		) (contract.CallGranted, error) {
			if summarizer.calls() != 0 {
				t.Error("the request left before its grant")
			}
			wanted = append(wanted, w)
			return granted(ctx, w)
		})
		if err != nil || summarizer.calls() != 1 {
			t.Fatalf("%d requests, %v", summarizer.calls(), err)
		}
		var settled []contract.CallSettled
		for _, e := range out.Calls {
			if e, ok := e.(contract.CallSettled); ok {
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
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		b, summarizer := summarizing(t, 0, says("It was about words."))
		between(b, 9)
		b.start.Metered = true
		out, err := Compact(t.Context(), b.deps, b.start, order, func(
			_ context.Context, w contract.CallWanted,
		) (contract.CallGranted, error) {
			return contract.CallGranted{Call: w.Call, Err: fault.New(fault.BudgetExceeded, "All is spent.")}, nil
		})
		if err != nil || summarizer.calls() != 0 {
			t.Fatalf("%d requests, %v", summarizer.calls(), err)
		}
		last := out.Stages[len(out.Stages)-1]
		if last.Phase != contract.CompactionCompleted || last.Fallback != contract.StrategyDrop ||
			!strings.Contains(last.Reason, "All is spent.") {
			t.Errorf("%+v", last)
		}
		for _, e := range out.Calls {
			if _, ok := e.(contract.CallSettled); ok {
				t.Errorf("a refused call is settled: %+v", e)
			}
		}
	})
}
