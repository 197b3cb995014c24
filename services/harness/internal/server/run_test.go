package server

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"kaged.dev/pkg/llm"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A caller that does not read stops the reading of the provider, across all buffers in between, and receives
// everything after it reads again.
func TestBackpressureReachesTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces, size = 1000, 16 << 10
		var taken atomic.Int64
		client := benchClient(t, world{answer: func(_ llm.Request, yield func(llm.Event, error) bool) {
			for range pieces {
				if !yield(llm.Event{TextDelta: strings.Repeat("x", size)}, nil) {
					return
				}
				taken.Add(1)
			}
			yield(llm.Event{Done: &llm.Done{}}, nil)
		}})
		stream := beginRun(t, client, question)
		for {
			ev, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if grant(t, stream, ev) {
				break
			}
		}
		synctest.Wait()
		if n := taken.Load(); n == 0 || n > 100 {
			t.Errorf("%d pieces of %d were read for a caller that reads nothing", n, pieces)
		}
		total := 0
		for {
			ev, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			total += len(ev.GetDelta().GetText())
			if f := ev.GetFinished(); f != nil {
				if f.GetOutcome() != harnessv1.Outcome_OUTCOME_COMPLETED || total != pieces*size {
					t.Errorf("%v after %d bytes", f.GetOutcome(), total)
				}
				return
			}
		}
	})
}
