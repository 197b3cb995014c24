package sessionmanager

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kaged.dev/pkg/bus"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// BenchmarkStreaming runs 100 sessions that stream 200 deltas each at the same time. It reports the wall time of
// all, and the CPU time of this process, which includes the harness of the test but not Postgres.
func BenchmarkStreaming(b *testing.B) {
	const sessions, pieces = 100, 200
	w := newWorld(b)
	n := w.start("a", func(c *Config) { *c = DefaultConfig() })
	var ids []string
	for range sessions {
		ids = append(ids, n.session("ada"))
	}
	for b.Loop() {
		w.harness.expect(repeat(sessions, func(p *play) {
			p.model()
			for i := range pieces {
				p.delta(fmt.Sprint("piece ", i, " "))
			}
			p.turn(1, false, text("all of it"))
			p.complete(1)
		})...)
		before := cpu()
		begin := time.Now()
		var work sync.WaitGroup
		for _, s := range ids {
			work.Go(func() { n.run("ada", s, n.post("ada", s, "Go.").GetRunId()) })
		}
		work.Wait()
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "wall-ms")
		b.ReportMetric(float64((cpu() - before).Milliseconds()), "cpu-ms")
		for range sessions {
			<-w.harness.began
		}
	}
}

// BenchmarkStep measures one step from the harness's point of view: its turn is reported and stored, its one tool
// returns at once, its results are reported and stored.
func BenchmarkStep(b *testing.B) {
	w := newWorld(b)
	n := w.start("a", func(c *Config) { *c = DefaultConfig() })
	for _, wait := range []bool{true, false} {
		b.Run(fmt.Sprintf("wait=%v", wait), func(b *testing.B) {
			s := n.session("ada")
			done := make(chan struct{})
			w.harness.expect(func(p *play) {
				defer close(done)
				p.model()
				for i := int32(1); b.Loop(); i++ {
					id := fmt.Sprint("c", i)
					p.turn(i, wait, call(id, "file.read", `{"path":"a"}`))
					p.tool(i, id, "file.read", `{"path":"a"}`, "content")
					p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_StepDone{StepDone: &harnessv1.StepDone{Step: i}}})
					if !wait {
						p.awaitStored(i, harnessv1.StepPart_STEP_PART_TURN)
					}
					p.awaitStored(i, harnessv1.StepPart_STEP_PART_RESULTS)
				}
				p.complete(1)
			})
			n.post("ada", s, "Go.")
			<-done
		})
	}
}

// BenchmarkRequest measures the delay of a model call before it is sent: its audit record is stored, and in a
// metered run the budget must allow it.
func BenchmarkRequest(b *testing.B) {
	w := newWorld(b)
	n := w.start("a", func(c *Config) { *c = DefaultConfig() })
	for _, metered := range []bool{false, true} {
		b.Run(fmt.Sprintf("metered=%v", metered), func(b *testing.B) {
			s := n.session("ada")
			if metered {
				if _, err := n.budgeted("ada", s, map[string]any{"calls": 1_000_000}); err != nil {
					b.Fatal(err)
				}
			}
			done := make(chan struct{})
			var waits []time.Duration
			w.harness.expect(func(p *play) {
				defer close(done)
				p.model()
				for i := int32(1); b.Loop(); i++ {
					begin := time.Now()
					for _, r := range auditRecords("agent.pre_generation_step", "agent.request") {
						p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Audit{Audit: r}})
					}
					p.claims(i, 10)
					waits = append(waits, time.Since(begin))
					p.settles(i, 5, false)
				}
				p.turn(1, false, text("Done."))
				p.complete(1)
			})
			n.post("ada", s, "Go.")
			<-done
			b.ReportMetric(median(waits), "median-us")
		})
	}
}

// BenchmarkFirstToken measures the time from a posted message to the harness, and from the harness's first delta to
// the stream of frames: session-manager's part of the time to first token.
func BenchmarkFirstToken(b *testing.B) {
	w := newWorld(b)
	n := w.start("a", func(c *Config) { *c = DefaultConfig() })
	seen := make(chan time.Time, 1)
	live := w.frames.Live(func(batch bus.Batch) {
		if batch.Channel == "output" && strings.Contains(string(batch.Body), "message.delta") {
			seen <- time.Now()
		}
	}, func() {})
	defer live.Close()
	var there, back []time.Duration
	var s string
	for i := 0; b.Loop(); i++ {
		if i%20 == 0 { // a conversation of up to 20 messages
			s = n.session("ada")
			if _, err := live.Follow(b.Context(), s); err != nil {
				b.Fatal(err)
			}
			hold, err := n.tryAttach("ada", s, false)
			if err != nil {
				b.Fatal(err)
			}
			defer hold.cancel()
		}
		var begun, sent time.Time
		w.harness.expect(func(p *play) {
			begun = time.Now()
			p.model()
			sent = time.Now()
			p.delta("Hello")
			p.turn(1, false, text("Hello"))
			p.complete(1)
		})
		begin := time.Now()
		posted := n.post("ada", s, "Go.")
		arrived := <-seen
		n.run("ada", s, posted.GetRunId())
		<-w.harness.began
		there, back = append(there, begun.Sub(begin)), append(back, arrived.Sub(sent))
	}
	b.ReportMetric(median(there), "there-us")
	b.ReportMetric(median(back), "back-us")
}

func median(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Microseconds())
}

// BenchmarkIdle measures the memory of an idle session that a socket holds.
func BenchmarkIdle(b *testing.B) {
	const sessions = 500
	w := newWorld(b)
	n := w.start("a", func(c *Config) { *c = DefaultConfig() })
	for b.Loop() {
		var ids []string
		for range sessions {
			ids = append(ids, n.session("ada"))
		}
		before := used()
		for _, s := range ids {
			hold, err := n.tryAttach("ada", s, false)
			if err != nil {
				b.Fatal(err)
			}
			defer hold.cancel()
		}
		b.ReportMetric(float64(used()-before)/sessions/1024, "KiB/session")
	}
}

// used returns the memory in use, which includes both ends of the connections.
func used() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
