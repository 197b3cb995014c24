package console_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"kaged.dev/pkg/testkit/fakellm"
)

// asks counts the page's requests for the lists of sessions and projects.
const asks = `performance.getEntriesByType("resource")
	.filter(e => /\/api\/v1\/(sessions|projects)(\?|$)/.test(e.name)).length`

// The inbox and the projects follow the system socket: they show the changes of another client, and send no further
// requests for lists.
func TestSystemSocketInThePage(t *testing.T) {
	w := start(t, typed)
	first := w.session(t, "first", "")
	b := newBrowser(t, w)
	b.shows(t, "first")
	b.until(t, "nothing is asked any more", fmt.Sprintf(`(async () => {})() && (window.last !== %[1]s ?
		(window.last = %[1]s, window.since = performance.now(), false) : performance.now() - window.since > 6000)`, asks))
	w.session(t, "second", "")
	b.shows(t, "second")
	w.do(t, http.MethodPut, "/api/v1/sessions/"+first, map[string]any{"label": "renamed"}, nil)
	b.shows(t, "renamed")
	w.do(t, http.MethodPost, "/api/v1/sessions/"+first+"/messages", map[string]any{"content": "clean up"}, nil)
	b.shows(t, "Needs your answer")
	b.until(t, "the title counts", `document.title.startsWith("(1) ")`)

	b.open(t, w, "/projects")
	b.shows(t, "2 sessions")
	w.session(t, "third", "")
	b.shows(t, "3 sessions")
}

// sockets allows the test to cut a page's open sockets.
const sockets = `window.sockets = []; window.WebSocket = class extends WebSocket {
	constructor(...args) { super(...args); window.sockets.push(this) } }`

// byRule are the parameters of network.EmulateNetworkConditionsByRule, with offline in the rules, as newer versions of
// Chromium want it, and beside them, as Debian's older ones do.
type byRule struct {
	Offline bool                 `json:"offline"`
	Rules   []network.Conditions `json:"matchedNetworkConditions"`
}

var emulateByRule = cdp.Command[byRule, network.EmulateNetworkConditionsByRuleResult]{
	Method: network.CommandEmulateNetworkConditionsByRule,
}

// offline disconnects a page from the network, with its open sockets, or connects it again.
func (b *browser) offline(t testing.TB, away bool) {
	t.Helper()
	b.run(t, "network", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{}); err != nil {
			return chromedp.Void{}, err
		}
		rule := network.Conditions{Offline: away, DownloadThroughput: -1, UploadThroughput: -1}
		_, err := cdp.Call(ctx, target, emulateByRule, byRule{Offline: away, Rules: []network.Conditions{rule}})
		if err != nil {
			return chromedp.Void{}, err
		}
		_, err = cdp.Call(ctx, target, network.OverrideNetworkState, network.OverrideNetworkStateParams{
			Offline: away, DownloadThroughput: -1, UploadThroughput: -1,
		})
		return chromedp.Void{}, err
	})
	if away {
		eval[bool](t, b, `window.sockets.forEach(s => s.close()), true`)
	}
}

// before runs a script in each new page before the page's own scripts.
func (b *browser) before(t testing.TB, script string) {
	t.Helper()
	b.run(t, "a script", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return chromedp.Void{}, err
	})
}

// A page without network shows this and keeps its draft. After the reconnection it shows the missed part of the answer,
// once.
func TestOfflineAndBack(t *testing.T) {
	gate := fakellm.NewGate()
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		return fakellm.Step{fakellm.Say("begun "), fakellm.Wait(gate), fakellm.Say("while away "), fakellm.Say("ended")}
	})
	id := w.session(t, "away", "go")
	b := newBrowser(t, w)
	b.before(t, sockets)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "begun")
	b.run(t, "a draft", write(".composer textarea", "a draft"))
	b.offline(t, true)
	b.shows(t, "kaged does not answer")
	gate.Open()
	b.offline(t, false)
	b.shows(t, "begun while away ended")
	b.hides(t, "kaged does not answer")
	if n := eval[int](t, b, `document.querySelector(".rows").innerText.split("while away").length - 1`); n != 1 {
		t.Errorf("the answer is there %d times", n)
	}
	if draft := eval[string](t, b, `document.querySelector(".composer textarea").value`); draft != "a draft" {
		t.Errorf("the draft is %q", draft)
	}
}

// If a different version of the console answers, the page shows this, and loads the new version on request.
func TestANewVersionUnderAnOpenPage(t *testing.T) {
	w := start(t, typed)
	w.session(t, "first", "")
	b := newBrowser(t, w)
	b.shows(t, "first")
	// The daemon is the same, but its answers have the name of another build.
	eval[bool](t, b, `Object.defineProperty(Response.prototype, "headers", { get() {
		return new Headers({ "Content-Type": "application/json", "X-Kaged-Console": "another" });
	}}), true`)
	w.session(t, "second", "")
	b.shows(t, "kaged is another version now.")
	eval[bool](t, b, `window.old = true`)
	b.run(t, "load it", click(".banner button"))
	b.until(t, "the page is new", `!window.old && document.querySelector(".inbox") !== null`)
	b.hides(t, "kaged is another version now.")
	b.shows(t, "second")
}
