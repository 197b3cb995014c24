//go:build faults

package sessionmanager

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/crash"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// A steering message is in the conversation once, at whatever moment the holder is killed: after it was stored,
// before and after the boundary that delivers it, and around the end of a run that ends first.
func TestKilledWhileSteered(t *testing.T) {
	t.Parallel()
	for point, c := range map[crash.Point]struct {
		boundary bool
		want     []string
	}{
		crash.SteerStored: {true, []string{
			"user: Write.", "assistant calls c1", "tool answers c1",
			"user: Use tabs.",
		}},
		crash.ResultsBeforeStore: {true, []string{
			"user: Write.", "assistant calls c1", "tool answers c1",
			"user: Use tabs.",
		}},
		crash.ResultsStored: {true, []string{
			"user: Write.", "assistant calls c1", "tool answers c1",
			"user: Use tabs.",
		}},
		crash.RunEndBeforeStore: {false, []string{"user: Write.", "assistant: Done.", "user: Use tabs."}},
		crash.RunEndStored:      {false, []string{"user: Write.", "assistant: Done.", "user: Use tabs."}},
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.network(t)
			first, p := w.spawn(t, "one", crash.Variable+"="+string(point))
			s := first.session("ada")
			working, on := make(chan struct{}), make(chan struct{})
			w.harness.expect(func(p *play) {
				p.model()
				if c.boundary {
					oneStep(p, 1, working, on)
					p.hang()
				}
				working <- struct{}{}
				<-on
				p.turn(1, true, text("Done."))
				p.complete(1)
			})
			first.post("ada", s, "Write.")
			<-working
			_, err := first.trySteer("ada", s, "Use tabs.")
			if (err != nil) != (point == crash.SteerStored) {
				t.Errorf("the answer is %v", err)
			}
			close(on)
			p.died(t)
			w.harness.next()

			second := w.start("one")
			if second.get("ada", s).GetState() == apiv1.SessionState_SESSION_STATE_QUEUED {
				if _, err := second.resume("ada", s); err != nil {
					t.Fatal(err)
				}
			} else {
				second.post("ada", s, "Go on.")
				c.want = append(c.want, "user: Go on.")
			}
			if d := cmp.Diff(c.want, said(w.harness.next().history)); d != "" {
				t.Error(d)
			}
		})
	}
}
