package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

var shiftEnter = chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierShift))

// A new session has the keyboard in its message box. Shift Enter begins a new line and Enter sends; the first line
// becomes the session's name. A screen reader is told that the agent is done only after it has worked.
func TestASessionBegins(t *testing.T) {
	w := start(t, func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("All done.")} })
	w.session(t, "before", "")
	b := newBrowser(t, w)
	b.open(t, w, "/projects/wordcount")
	b.run(t, "a new session", click(`//button[.="New session"]`))
	b.shows(t, "No messages yet")
	b.until(t, "the keyboard is in the message box", `document.activeElement.closest(".composer textarea")`)
	const told = `document.querySelector(".session > [role=status]").innerText`
	if said := eval[string](t, b, told); said != "" {
		t.Errorf("a screen reader is told %q before any work", said)
	}
	if eval[bool](t, b, `(e => e.scrollHeight > e.clientHeight)(document.activeElement)`) {
		t.Error("an empty message box scrolls")
	}
	b.run(t, "two lines", chromedp.KeyEvent("count the words"), shiftEnter, chromedp.KeyEvent("of all files"),
		chromedp.KeyEvent(kb.Enter))
	b.shows(t, "All done.")
	b.until(t, "the message has two lines",
		`document.querySelector(".said").innerText === "count the words\nof all files"`)
	b.until(t, "the session has its name", `document.querySelector("h1").innerText === "count the words"`)
	b.until(t, "a screen reader is told", told+` === "The agent is done"`)
}

// Reading the files again also shows the project file anew. An unsaved text stays, and is not saved over a file that
// was changed since the text was begun. Lines with errors are marked while the operator types.
func TestAProjectFileIsReadAgain(t *testing.T) {
	w := start(t, typed)
	w.session(t, "before", "")
	write := func(from, to string) {
		file := kagedtest.Read(t, w.dir, ".kaged/project.yaml")
		kagedtest.Write(t, w.dir, ".kaged/project.yaml", strings.Replace(file, from, to, 1))
	}
	b := newBrowser(t, w)
	b.open(t, w, "/projects/wordcount?tab=file")
	b.shows(t, "max_steps: 20")
	write("max_steps: 20", "max_steps: 19")
	b.run(t, "read again", click(`//button[.="Read files again"]`))
	b.shows(t, "max_steps: 19")

	b.run(t, "write", click(".cm-content"), chromedp.KeyEvent(kb.Home, chromedp.KeyModifiers(chromedp.ModifierCtrl)),
		chromedp.KeyEvent("# mine"+kb.Enter))
	b.shows(t, "Not saved yet.")
	write("max_steps: 19", "max_steps: 18")
	const readings = `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/dsl")).length`
	before := eval[int](t, b, readings)
	b.run(t, "read again", click(`//button[.="Read files again"]`))
	b.until(t, "the file is read", fmt.Sprintf("%s > %d", readings, before))
	b.shows(t, "# mine")
	b.run(t, "save", click(`//button[.="Save"]`))
	b.shows(t, "The file was changed meanwhile")
	if file := kagedtest.Read(t, w.dir, ".kaged/project.yaml"); !strings.Contains(file, "max_steps: 18") {
		t.Errorf("the file is now\n%s", file)
	}
	b.run(t, "back", click(`//button[.="Back to the file"]`))
	b.shows(t, "max_steps: 18")

	b.run(t, "an error", click(".cm-content"), chromedp.KeyEvent("oops: "))
	b.until(t, "its line is marked", `document.querySelector(".cm-wrong")`)
	b.run(t, "back", click(`//button[.="Back to the file"]`))
	b.until(t, "no line is marked", `!document.querySelector(".cm-wrong")`)
}
