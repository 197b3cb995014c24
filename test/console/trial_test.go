package console_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// tried are the answers of a first trial.
func tried(r *fakellm.Request) fakellm.Step {
	switch text := r.LastText(); {
	case strings.Contains(text, "count"):
		return fakellm.Step{fakellm.Say("I count: "), fakellm.Deltas(100_000, 12, 20*time.Millisecond)}
	case strings.Contains(text, "Comments on your changes"):
		return fakellm.Step{fakellm.Say("I have read the comment.")}
	case r.Turns() == 0:
		return fakellm.Step{fakellm.Tool("file.write", `{"path":"notes.md","content":"one\ntwo\n"}`)}
	case r.Turns() == 1:
		return fakellm.Step{fakellm.Tool("shell.bash", `{"command":"unlink doomed.txt"}`)}
	}
	return fakellm.Step{fakellm.Say("All done.")}
}

var controlEnter = chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl))

// tabTo presses Tab until an expression about the focused element, e, is true.
func (b *browser) tabTo(t testing.TB, what, expression string) {
	t.Helper()
	for range 60 {
		b.run(t, what, chromedp.KeyEvent(kb.Tab))
		if eval[bool](t, b, `(e => Boolean(`+expression+`))(document.activeElement)`) {
			return
		}
	}
	t.Fatalf("the Tab key does not come to %s", what)
}

// A new operator with only the URL and a keyboard registers a project, starts a task, allows a command, reviews the
// changes, comments on a line, stops a run and exports the session. For a folder without a project file the page names
// the command that writes one. After each step an element has the keyboard focus.
func TestFirstTrialByKeyboard(t *testing.T) {
	w := start(t, tried)
	kagedtest.Write(t, w.dir, "doomed.txt", "doomed\n")
	b := newBrowser(t, w)
	b.shows(t, "Welcome to kaged")
	b.tabTo(t, "the folder", `e.ariaLabel === "Folder of a project"`)
	b.run(t, "a folder without a project", chromedp.KeyEvent(filepath.Dir(w.dir)+kb.Enter))
	b.shows(t, "kaged init "+filepath.Dir(w.dir))
	b.until(t, "the field waits", `document.activeElement.ariaLabel === "Folder of a project"`)
	b.run(t, "the project", chromedp.KeyEvent("/"+filepath.Base(w.dir)+kb.Enter))
	b.shows(t, "New session")

	b.run(t, "to the inbox", chromedp.KeyEvent("gi"))
	b.until(t, "a task can be given", `document.querySelector(".starter textarea:enabled")`)
	b.tabTo(t, "the task", `e.closest(".starter textarea")`)
	b.run(t, "a task", chromedp.KeyEvent("tidy up"), controlEnter)
	b.until(t, "the question", `document.querySelector(".ask")`)
	b.shows(t, "none: it runs with every right that you have")
	b.until(t, "the card takes answers", `(window.shown ??= performance.now(), performance.now() - window.shown > 600)`)
	b.run(t, "to the question", chromedp.KeyEvent("a"))
	b.tabTo(t, "the answer", `e.closest(".ask .allow")`)
	b.run(t, "allow", chromedp.KeyEvent(" "))
	b.shows(t, "All done.")
	b.until(t, "the keyboard is in the field to write", `document.activeElement.closest(".composer textarea")`)

	b.run(t, "out of the field", chromedp.Focus(chromedp.CSS("#main")))
	b.tabTo(t, "the changes", `e.innerText === "Changes"`)
	b.run(t, "the changes", chromedp.KeyEvent(kb.Enter))
	b.until(t, "a line that was added", `document.querySelector(".review-file .line.add")`)
	b.tabTo(t, "a line", `e.closest(".num-button")`)
	b.run(t, "comment", chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent("Why?"),
		controlEnter)
	b.until(t, "the keyboard is at the line again", `document.activeElement.closest(".num-button.has")`)
	b.run(t, "send", chromedp.Focus(chromedp.CSS(".review-bar .primary")), chromedp.KeyEvent(kb.Enter))
	b.shows(t, "I have read the comment.")
	b.until(t, "the keyboard is in the field to write", `document.activeElement.closest(".composer textarea")`)

	b.run(t, "a long run", chromedp.KeyEvent("count"), controlEnter)
	b.shows(t, "I count:")
	b.run(t, "stop", chromedp.Focus(chromedp.CSS("button.stop")), chromedp.KeyEvent(kb.Enter))
	b.shows(t, "Stopped. The completed work is kept.")
	b.until(t, "the keyboard is in the field to write", `document.activeElement.closest(".composer textarea")`)

	eval[bool](t, b, `(() => { const make = URL.createObjectURL;
		URL.createObjectURL = blob => { blob.text().then(text => window.saved = text); return make(blob) }; return true })()`)
	b.run(t, "out of the field", chromedp.Focus(chromedp.CSS("#main")))
	b.tabTo(t, "the export", `e.innerText === "Export Markdown"`)
	b.run(t, "export", chromedp.KeyEvent(kb.Enter))
	b.until(t, "the session is saved", `["tidy up", "unlink doomed.txt", "I have read the comment."]
		.every(one => saved.includes(one))`)
	b.open(t, w, eval[string](t, b, `location.pathname`))
	b.shows(t, "Stopped. The completed work is kept.")
}

// On the smallest phone the buttons that answer a request are in view at once, and every part of the request can be
// scrolled to above them; a comment fits into the window.
func TestAnswerOnThePhone(t *testing.T) {
	w := start(t, tried)
	kagedtest.Write(t, w.dir, "doomed.txt", "doomed\n")
	id := w.session(t, "tidy up", "tidy up")
	b := newBrowser(t, w)
	b.size(t, 320, 640, "light")
	b.open(t, w, "/sessions/"+id)
	inView := `[".ask .deny", ".ask .allow"].every(one => {
		const r = document.querySelector(one).getBoundingClientRect();
		return document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)?.closest(one)
	})`
	b.until(t, "both buttons are in view", inView)
	b.picture(t, "ask-small-phone")
	if parts := eval[string](t, b, `[...document.querySelectorAll(".ask :is(header, pre, dt, dd)")].filter(one => {
		one.scrollIntoView({block: "nearest"});
		const r = one.getBoundingClientRect(), bar = document.querySelector(".ask-bar").getBoundingClientRect();
		const found = document.elementFromPoint(r.x + 4, r.bottom - 4);
		return r.bottom > bar.top + 1 && bar.bottom > r.top || !found?.closest(".ask");
	}).map(one => one.innerText).join()`); parts != "" {
		t.Errorf("the buttons cover %q", parts)
	}
	b.until(t, "both buttons are in view", inView)
	b.until(t, "the card takes answers", `(window.shown ??= performance.now(), performance.now() - window.shown > 600)`)
	b.run(t, "deny", click(".ask .deny"))
	b.shows(t, "All done.")
	b.shows(t, "idle") // else the notice that the session has gone on moves the line under the pointer
	b.open(t, w, "/sessions/"+id+"?view=review")
	b.until(t, "a line that was added", `document.querySelector(".review-file .line.add")`)
	b.until(t, "the line stands still", `(y => y === window.at ? performance.now() - window.since > 500 :
		(window.at = y, window.since = performance.now(), false)
	)(document.querySelector(".num-button").getBoundingClientRect().y)`)
	b.run(t, "comment", click(".num-button"))
	b.until(t, "the comment fits",
		`document.querySelector(".comment textarea").getBoundingClientRect().right <= innerWidth`)
}
