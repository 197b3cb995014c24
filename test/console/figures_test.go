package console_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kaged.dev/pkg/testkit/fakellm"
)

// slowdown is the factor by which the browser's CPU is slowed down, to that of a weak laptop.
const slowdown = 4

// observed makes a page record its long tasks, and for each delta of the socket the time until the next paint. It
// adds one task to each frame.
const observed = `
	window.long = []; window.latency = [];
	const painted = new MessageChannel();
	let waiting = [], drawn = [];
	painted.port1.onmessage = () => {
		const now = performance.now();
		for (const at of drawn) window.latency.push(now - at);
		drawn = [];
	};
	new PerformanceObserver(l => window.long.push(...l.getEntries().map(e => e.duration)))
		.observe({ type: "longtask", buffered: true });
	window.WebSocket = class extends WebSocket {
		constructor(...args) {
			super(...args);
			this.addEventListener("message", e => {
				if (!e.data.includes('"message.delta"')) return;
				if (waiting.push(performance.now()) > 1) return;
				requestAnimationFrame(() => {
					drawn.push(...waiting);
					waiting = [];
					painted.port2.postMessage(0);
				});
			});
		}
	};
	window.p95 = list => [...list].sort((a, b) => a - b)[Math.floor(list.length * 0.95)] ?? 0;`

// slow slows the browser down.
func (b *browser) slow(t testing.TB, rate float64) {
	t.Helper()
	b.run(t, "slow down", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, target, performance.Enable, performance.EnableParams{}); err != nil {
			return chromedp.Void{}, err
		}
		_, err := cdp.Call(ctx, target, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: rate})
		return chromedp.Void{}, err
	})
}

// uncached makes the browser load every file again, as for a new operator.
func (b *browser) uncached(t testing.TB, yes bool) {
	t.Helper()
	b.run(t, "cache", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		params := network.SetCacheDisabledParams{CacheDisabled: yes}
		_, err := cdp.Call(ctx, target, network.SetCacheDisabled, params)
		return chromedp.Void{}, err
	})
}

// metric returns a metric of the page, such as TaskDuration.
func (b *browser) metric(t testing.TB, name string) (value float64) {
	t.Helper()
	b.run(t, "metrics", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		got, err := cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
		for _, m := range got.Metrics {
			if m.Name == name {
				value = m.Value
			}
		}
		return chromedp.Void{}, err
	})
	return value
}

// rendererPSS returns the memory of the largest renderer of the test's browser, in MB.
func rendererPSS(t testing.TB) float64 {
	t.Helper()
	most := 0
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		args, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(args), "--type=renderer") {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "smaps_rollup"))
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
				n, _ := strconv.Atoi(fields[1])
				most = max(most, n)
			}
		}
	}
	return float64(most) / 1024
}

// scroll scrolls through a list by 120 pixels per frame, and returns the times between frames in milliseconds.
const scroll = `new Promise(done => {
	const list = document.querySelector(".rows"), times = [];
	let last = performance.now(), from = last;
	const step = now => {
		times.push(now - last);
		last = now;
		list.scrollTop -= 120;
		if (now - from > 8000)
			return done({ p95: p95(times.slice(1)), frames: times.length, longest: Math.max(0, ...window.long) });
		requestAnimationFrame(step);
	};
	window.long = [];
	requestAnimationFrame(step);
})`

// BenchmarkFigures measures the console in a browser with a slowed CPU, beside bare pages in the same browser, whose
// figures begin with floor-:
// go test -run - -bench Figures -benchtime 1x ./test/console.
func BenchmarkFigures(b *testing.B) {
	const turns, deltas = 10_000, 100 * 200
	w := start(b, func(r *fakellm.Request) fakellm.Step {
		// The note of a compaction before the talk quotes the burst.
		if strings.Contains(r.LastText(), "talk") {
			return fakellm.Step{fakellm.Deltas(100, 10, 100*time.Millisecond), fakellm.Say(" the end of the talk")}
		}
		if strings.Contains(r.LastText(), "burst") {
			return fakellm.Step{fakellm.Deltas(deltas, 10, 10*time.Second/deltas), fakellm.Say(" the end of the burst")}
		}
		return fakellm.Step{fakellm.Say("An answer.")}
	})
	id, second := w.session(b, "long", ""), w.session(b, "long too", "")
	w.fill(b, id, turns)
	w.fill(b, second, turns)
	bare := floor(b, turns, deltas, 10*time.Second)
	page := newBrowser(b, w)
	page.before(b, observed)
	page.slow(b, slowdown)
	for b.Loop() {
		page.uncached(b, true)
		for name, view := range map[string]string{"inbox": "/", "session": "/sessions/" + id} {
			page.open(b, w, view)
			page.until(b, "it can be used", `performance.getEntriesByName("kaged:interactive").length > 0 &&
				performance.getEntriesByName("first-contentful-paint").length > 0`)
			for unit, value := range map[string]string{
				"first-paint-ms": `performance.getEntriesByName("first-contentful-paint")[0].startTime`,
				"interactive-ms": `performance.getEntriesByName("kaged:interactive")[0].startTime`,
				"first-load-KB": `performance.getEntriesByType("resource").filter(e => e.name.includes("/static/") &&
					e.responseEnd <= performance.getEntriesByName("kaged:interactive")[0].startTime)
					.reduce((sum, e) => sum + e.encodedBodySize, 0) / 1024`,
			} {
				b.ReportMetric(eval[float64](b, page, value), name+"-"+unit)
			}
		}
		page.uncached(b, false)

		page.open(b, w, "/sessions/"+second)
		page.shows(b, fmt.Sprintf("Answer %d", turns))
		before, began := page.metric(b, "TaskDuration"), time.Now()
		w.do(b, "POST", "/api/v1/sessions/"+second+"/messages", map[string]any{"content": "burst"}, nil)
		w.idle(b, second) // asked of kaged: a question to the page would be work for it
		page.until(b, "the end of the burst", `document.querySelector(".rows").textContent.includes("the end of the burst")`)
		b.ReportMetric(100*(page.metric(b, "TaskDuration")-before)/time.Since(began).Seconds(), "burst-task-percent")
		b.ReportMetric(rendererPSS(b), "burst-renderer-pss-MB")
		b.ReportMetric(eval[float64](b, page, `p95(window.latency)`), "burst-message-to-paint-p95-ms")

		// A stream with the pace of a person who reads along.
		eval[bool](b, page, `(window.latency = [], true)`)
		w.do(b, "POST", "/api/v1/sessions/"+second+"/messages", map[string]any{"content": "talk"}, nil)
		w.idle(b, second)
		page.until(b, "the end of the talk", `document.querySelector(".rows").textContent.includes("the end of the talk")`)
		b.ReportMetric(eval[float64](b, page, `p95(window.latency)`), "talk-message-to-paint-p95-ms")

		page.open(b, w, "/sessions/"+id)
		page.shows(b, fmt.Sprintf("Answer %d", turns))
		page.scrolled(b, "scroll-reading")
		page.run(b, "all of it", click(".session-top h1"), chromedp.KeyEvent(kb.Home))
		page.until(b, "the first turn", `document.querySelector(".talk-bar").innerText.startsWith("turns 1 to ")`)
		page.run(b, "to the end", chromedp.KeyEvent(kb.End))
		page.scrolled(b, "scroll")
		b.ReportMetric(rendererPSS(b), "all-turns-renderer-pss-MB")
		page.beside(b, w, id)
		page.floors(b, bare) // last: its 10,000 turns stay in the renderer's memory
	}
}

// scrolled reports how a list is scrolled.
func (b *browser) scrolled(t *testing.B, name string) {
	t.Helper()
	before := b.metric(t, "TaskDuration")
	got := eval[struct{ P95, Frames, Longest float64 }](t, b, scroll)
	t.ReportMetric(got.P95, name+"-raf-p95-ms")
	t.ReportMetric(got.Longest, name+"-longest-task-ms")
	t.ReportMetric(1000*(b.metric(t, "TaskDuration")-before)/got.Frames, name+"-task-ms/frame")
}

// beside reports the figures of a bare page that follows the socket of a session during a burst of it.
func (b *browser) beside(t *testing.B, w *world, session string) {
	t.Helper()
	t.ReportMetric(b.bare(t, w, session), "floor-session-burst-task-percent")
	t.ReportMetric(eval[float64](t, b, `p95(window.latency)`), "floor-session-burst-message-to-paint-p95-ms")
	b.leaveBare(t)
}

// bare opens a bare page that follows the socket of a session during a burst of it, until leaveBare. It returns the
// percentage of the time that the page's tasks took.
func (b *browser) bare(t testing.TB, w *world, session string) float64 {
	t.Helper()
	// A file of the daemon, so that requests carry the sign-in.
	b.run(t, "open a bare page", bypassCSP(true), chromedp.Navigate("http://"+w.listen+"/static/manifest.json"))
	eval[bool](t, b, fmt.Sprintf(bareSession, session))
	eval[bool](t, b, `(window.latency = [], true)`)
	before, began := b.metric(t, "TaskDuration"), time.Now()
	w.do(t, "POST", "/api/v1/sessions/"+session+"/messages", map[string]any{"content": "burst"}, nil)
	w.idle(t, session)
	b.until(t, "the end of the burst", `document.querySelector(".rows").textContent.includes("the end of the burst")`)
	return 100 * (b.metric(t, "TaskDuration") - before) / time.Since(began).Seconds()
}

func (b *browser) leaveBare(t testing.TB) {
	t.Helper()
	b.run(t, "leave the bare page", bypassCSP(false))
}

func bypassCSP(yes bool) step {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, cdppage.SetBypassCSP, cdppage.SetBypassCSPParams{Enabled: yes})
		return chromedp.Void{}, err
	}
}

// floors reports the figures of the bare pages with a server of their own.
func (b *browser) floors(t *testing.B, url string) {
	t.Helper()
	visit := func(path string) {
		b.run(t, "open "+path, chromedp.Navigate(url+path), chromedp.WaitVisible(chromedp.CSS(".rows")))
	}
	visit("/empty")
	b.scrolled(t, "floor-empty")
	visit("/laid-out")
	b.scrolled(t, "floor-scroll-laid-out")
	visit("/windowed")
	b.scrolled(t, "floor-scroll-windowed")
	visit("/scroll")
	b.scrolled(t, "floor-scroll-content-visibility")
	visit("/burst")
	before, began := b.metric(t, "TaskDuration"), time.Now()
	eval[bool](t, b, `new Promise(done => {
		go();
		const look = () => window.over ? done(true) : setTimeout(look, 200);
		look();
	})`)
	t.ReportMetric(100*(b.metric(t, "TaskDuration")-before)/time.Since(began).Seconds(), "floor-burst-task-percent")
	t.ReportMetric(eval[float64](t, b, `p95(window.latency)`), "floor-burst-message-to-paint-p95-ms")
}
