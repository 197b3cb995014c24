//go:build faults

package sessionmanager

import (
	"slices"
	"testing"

	"kaged.dev/pkg/crash"
)

// After a kill before a compaction is committed the conversation is without it, after a kill behind the commit it
// has it. In both cases the next run gets a consistent conversation, which lacks only the steps that the compaction
// superseded.
func TestKilledAtACompaction(t *testing.T) {
	t.Parallel()
	for point, want := range map[crash.Point][]string{
		crash.ResultsBeforeStore: {"user@0: Hi.", "assistant@1: Reading c1. c1"},
		crash.CompactionStored: {
			"user@0: Hi.", "system@0: The older part is gone.", "assistant@2: Reading c2. c2", "tool@2: content c2",
		},
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.primary("include_tool_results_in_context: true")
			w.network(t)
			first, dead := w.spawn(t, "one", crash.Variable+"="+string(point))
			s := first.session("ada")
			w.harness.expect(func(p *play) {
				compacting("another")(p)
				<-p.stream.Context().Done()
				panic(errGone)
			})
			first.post("ada", s, "Hi.")
			dead.died(t)
			given := make(chan *play, 1)
			w.harness.expect(func(p *play) { given <- p; sayHello(p) })
			second := w.start("one")
			second.run("ada", s, second.post("ada", s, "More.").GetRunId())
			got := shown(<-given)
			if n := len(want); len(got) <= n || !slices.Equal(got[:n], want) {
				t.Errorf("the next run is given %q, want %q first", got, want)
			}
		})
	}
}
