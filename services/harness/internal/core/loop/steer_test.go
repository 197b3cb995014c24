package loop

import (
	"context"
	"slices"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// The operator's messages that come with the results of a step follow those results, in order and in every later
// request. The last step of a run is marked as the last.
func TestSteered(t *testing.T) {
	b := newBench(t, wants(call("c1", "file.read", "{}")), wants(call("c2", "file.read", "{}")), wants(call("c3",
		"file.read", "{}")))
	b.start.MaxSteps = 3
	b.sink.store = func(_ context.Context, half Half) (Stored, error) {
		if half.Part == ResultsPart && half.Step == 1 {
			return Stored{Steers: []contract.Steer{{MessageID: "m1", Text: "Use tabs."}, {
				MessageID: "m2",
				Text:      "Be\xff brief.",
			}}}, nil
		}
		return Stored{}, nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	want := []string{"user", "assistant", "tool", "user: Use tabs.", "user: Be\uFFFD brief."}
	for i, req := range b.model.requests[1:] {
		var got []string
		for _, m := range req.Messages {
			if text := textOf(m.Blocks); m.Role == llm.RoleUser && len(got) > 0 {
				got = append(got, "user: "+text)
			} else {
				got = append(got, string(m.Role))
			}
		}
		if !slices.Equal(got[:min(len(got), len(want))], want) || len(got) != len(want)+2*i {
			t.Errorf("request %d has %q", i+2, got)
		}
	}
	var last []bool
	for _, e := range of[contract.StepDone](b.sink) {
		last = append(last, e.Last)
	}
	if !slices.Equal(last, []bool{false, false, true}) {
		t.Errorf("the steps say %v of being the last", last)
	}
}
