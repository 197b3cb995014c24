package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/testkit/fakellm"
)

// BenchmarkBursts repeats the burst of BenchmarkFigures in new sessions, each time in the console and then in a bare
// page on the same kind of socket, because the 95th percentile of a single burst scatters by half on a busy machine.
// It reports the medians, the highest values, and the share of messages that took more than 30 ms to the next paint.
// A round takes 45 s on two processors:
// go test -run - -bench Bursts -benchtime 5x ./test/console.
func BenchmarkBursts(b *testing.B) {
	const turns, deltas = 10_000, 100 * 200
	w := start(b, func(r *fakellm.Request) fakellm.Step {
		if strings.Contains(r.LastText(), "burst") {
			return fakellm.Step{fakellm.Deltas(deltas, 10, 10*time.Second/deltas), fakellm.Say(" the end of the burst")}
		}
		return fakellm.Step{fakellm.Say("An answer.")}
	})
	page := newBrowser(b, w)
	page.before(b, observed)
	page.slow(b, slowdown)
	var console, slow, share, bare, bareSlow []float64
	for b.Loop() {
		id := w.session(b, "burst", "")
		w.fill(b, id, turns)
		page.open(b, w, "/sessions/"+id)
		page.shows(b, fmt.Sprintf("Answer %d", turns))
		before, began := page.metric(b, "TaskDuration"), time.Now()
		w.do(b, "POST", "/api/v1/sessions/"+id+"/messages", map[string]any{"content": "burst"}, nil)
		w.idle(b, id)
		page.until(b, "the end of the burst", `document.querySelector(".rows").textContent.includes("the end of the burst")`)
		share = append(share, 100*(page.metric(b, "TaskDuration")-before)/time.Since(began).Seconds())
		console = append(console, eval[float64](b, page, `p95(window.latency)`))
		slow = append(slow, eval[float64](b, page, slowShare))

		id = w.session(b, "burst", "")
		w.fill(b, id, turns)
		page.bare(b, w, id)
		bare = append(bare, eval[float64](b, page, `p95(window.latency)`))
		bareSlow = append(bareSlow, eval[float64](b, page, slowShare))
		page.leaveBare(b)
		n := len(console) - 1
		b.Logf("p95 %.1f ms, %.1f %% slow, %.0f %% of the time; bare page %.1f ms, %.1f %% slow",
			console[n], slow[n], share[n], bare[n], bareSlow[n])
	}
	b.ReportMetric(middle(console), "message-to-paint-p95-ms")
	b.ReportMetric(slices.Max(console), "message-to-paint-p95-most-ms")
	b.ReportMetric(middle(slow), "over-30-ms-percent")
	b.ReportMetric(middle(share), "task-percent")
	b.ReportMetric(middle(bare), "floor-message-to-paint-p95-ms")
	b.ReportMetric(slices.Max(bare), "floor-message-to-paint-p95-most-ms")
	b.ReportMetric(middle(bareSlow), "floor-over-30-ms-percent")
}

// slowShare is the percentage of messages that were painted after more than 30 ms.
const slowShare = `100 * window.latency.filter(ms => ms > 30).length / window.latency.length`

// middle returns the median.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
