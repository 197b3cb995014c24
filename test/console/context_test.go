package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"kaged.dev/pkg/testkit/fakellm"
)

// pick selects an option by a part of its text.
func (b *browser) pick(t *testing.T, label, option string) {
	t.Helper()
	b.until(t, "the option "+option, fmt.Sprintf(`(() => {
		const s = [...document.querySelectorAll("select")].find(s => (s.labels[0]?.innerText ?? "").startsWith(%[1]q) ||
			s.getAttribute("aria-label") === %[1]q);
		const o = [...s.options].find(o => o.text.includes(%[2]q));
		if (!o) return false;
		s.value = o.value;
		s.dispatchEvent(new Event("change", { bubbles: true }));
		return true })()`, label, option))
}

// The page shows the model's context: the used part of its window, the messages in it, and those that a compaction
// would supersede. The operator pins a message, compacts, reads the superseded messages, undoes the compaction, and
// finds the commands in the ledger.
func TestContext(t *testing.T) {
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if strings.Contains(r.LastText(), "run it") && len(r.Results()) == 0 {
			return fakellm.Step{fakellm.Tool("shell.bash", `{"command":"echo from the ledger"}`)}
		}
		return fakellm.Step{fakellm.Say("An answer of many words. " + strings.Repeat("So many words. ", 4000))}
	})
	id := w.session(t, "context", "keep this one")
	w.idle(t, id)
	for i := range 4 {
		w.do(t, "POST", "/api/v1/sessions/"+id+"/messages", map[string]any{"content": fmt.Sprintf("question %d", i)}, nil)
		w.idle(t, id)
	}
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id+"?view=context")
	b.shows(t, "The next request has about")
	b.shows(t, "keep this one")
	b.run(t, "keep it", click(`.context-list input[type="checkbox"]`))
	b.until(t, "it is kept", `document.querySelector('.context-list input[type="checkbox"]').checked`)

	b.pick(t, "How", "drop the oldest")
	b.run(t, "what would go", click(`//button[.="Preview"]`))
	b.shows(t, "would make way, by drop")
	b.shows(t, "Nothing is done yet.")
	actions := eval[string](t, b, `[...document.querySelectorAll(".context-list li")].map(l => l.innerText).join("\n")`)
	if !strings.Contains(actions, "makes way") || !strings.Contains(actions, "stays") {
		t.Errorf("the messages say %q", actions)
	}
	if strings.Contains(eval[string](t, b, `document.querySelector(".context-list li").innerText`), "makes way") {
		t.Error("the message that has to stay would make way")
	}
	const fill = `document.querySelector(".context meter").value`
	before := eval[float64](t, b, fill)
	b.run(t, "compact", click(`//button[.="Compact now"]`))
	b.shows(t, "an operator asked")
	b.until(t, "the window is less full", fmt.Sprintf("%s < %g", fill, before)) // A-COMP-WS-04
	b.until(t, "messages were taken away", `document.querySelectorAll(".context-list li.gone").length > 0`)
	b.run(t, "what went", click(`//button[.="What went"]`))
	b.until(t, "what went", `document.querySelector(".compaction p.gone") !== null`)
	eval[bool](t, b, `(window.confirm = () => true, true)`)
	b.run(t, "undo", click(`//button[.="Undo"]`))
	b.shows(t, ", undone")
	b.until(t, "all count again", `document.querySelectorAll(".context-list li.gone").length === 0`)

	w.do(t, "POST", "/api/v1/sessions/"+id+"/messages", map[string]any{"content": "run it"}, nil)
	w.idle(t, id)
	b.run(t, "read again", click(`//button[.="Refresh"]`))
	b.shows(t, "echo from the ledger")

	// The same run in the timeline.
	b.open(t, w, "/sessions/"+id+"?view=timeline")
	b.shows(t, "model: step 1")
	b.shows(t, "tools: shell.bash")
	if n := eval[int](t, b, `document.querySelectorAll(".lane-span").length`); n < 2 {
		t.Errorf("%d spans", n)
	}
	b.pick(t, "Run of", "keep this one")
	b.hides(t, "tools: shell.bash")
	b.shows(t, "model: step 1")
}

// The daemon makes each estimate of the model's context anew during a run. The page asks for one when it is opened and
// one after a run; during the run its meter follows the frames of compactions.
func TestContextIsEstimatedAtRest(t *testing.T) {
	gate := fakellm.NewGate()
	w := start(t, func(*fakellm.Request) fakellm.Step {
		return fakellm.Step{fakellm.Say("At work."), fakellm.Wait(gate), fakellm.Say(" Done.")}
	})
	id := w.session(t, "a long talk", "")
	w.fill(t, id, 4000)
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "live")
	const fill = `document.querySelector(".details meter").value`
	const asked = `performance.getEntriesByType("resource").filter(e => e.name.includes("context-estimate")).length`
	b.until(t, "the window is full", fill+" === 1")
	w.do(t, "POST", "/api/v1/sessions/"+id+"/messages", map[string]any{"content": "go on"}, nil)
	b.shows(t, "At work.")
	b.until(t, "the window is less full", fill+" < 1")
	if n := eval[int](t, b, asked); n != 1 {
		t.Errorf("%d estimates are read before the end of the run, want 1", n)
	}
	gate.Open()
	w.idle(t, id)
	b.until(t, "the estimate is read again", asked+" === 2")
}

// The settings show models without their keys and the doctor's report, and sign out every other browser.
func TestSettings(t *testing.T) {
	w := start(t, typed)
	other := newBrowser(t, w)
	w.daemon.LaunchURL = w.launch(t)
	b := newBrowser(t, w)
	b.open(t, w, "/settings")
	b.shows(t, "smart-generalist")
	b.shows(t, "fake:claude-sonnet-4-5")
	b.shows(t, "kept, not shown")
	b.until(t, "the report", `document.body.innerText.includes("Check again") &&
		document.querySelectorAll("td").length > 10`)
	text := b.text()
	if strings.Contains(text, "sk-test") {
		t.Error("a key is shown")
	}
	// The world's data lies in the folder for temporary files, which no cage may show.
	if strings.Contains(text, "belongs to kaged itself") {
		t.Errorf("a cage for a language server is refused:\n%s", text)
	}
	b.run(t, "the agents", chromedp.Navigate("http://"+w.listen+"/projects"))
	eval[bool](t, b, `(window.confirm = () => true, true)`)
	b.run(t, "settings", click(`.rail a[href="/settings"]`))
	b.run(t, "sign out", click(`//button[.="Sign out everywhere else"]`))
	b.shows(t, "Every other browser is signed out.")
	other.shows(t, "This browser is signed out")
	b.open(t, w, "/settings")
	b.shows(t, "API tokens")
}
