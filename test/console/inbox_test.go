package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"kaged.dev/pkg/testkit/fakellm"
)

// A run that fails waits for the operator: the inbox lists its session first, with the sentence of the failure, and the
// title counts it, until the operator has looked at it. A message is sent from the inbox, without opening the session.
func TestFailedRunsInTheInbox(t *testing.T) {
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if strings.Contains(r.LastText(), "break") {
			return fakellm.Step{fakellm.Status(http.StatusBadRequest, "the request is strange")}
		}
		return fakellm.Step{fakellm.Say("You said: " + r.LastText())}
	})
	fine := w.session(t, "a fine one", "hello")
	w.idle(t, fine)
	failed := w.session(t, "a broken one", "break it")
	w.idle(t, failed)
	b := newBrowser(t, w)
	b.until(t, "it is listed first", `document.querySelector(".columns section").innerText.includes("a broken one")`)
	text := eval[string](t, b, `document.querySelector(".columns section").innerText`)
	for _, want := range []string{"Failed", "the request is strange"} {
		if !strings.Contains(text, want) {
			t.Errorf("the first group has no %q: %s", want, text)
		}
	}
	b.until(t, "the title counts", `document.title.startsWith("(1) ")`)
	b.picture(t, "inbox-failed")

	b.run(t, "peek", click(`//li[contains(., "a fine one")]//button[starts-with(., "Peek")]`))
	b.shows(t, "You said: hello")
	b.run(t, "reply", write(".peek-reply input", "and now?"+kb.Enter))
	b.until(t, "the peek closes", `document.querySelector(".peek") === null`)
	w.idle(t, fine)
	b.run(t, "peek again", click(`//li[contains(., "a fine one")]//button[starts-with(., "Peek")]`))
	b.shows(t, "You said: and now?")

	b.open(t, w, "/sessions/"+failed)
	b.shows(t, "the request is strange")
	b.until(t, "the title counts no more", `document.title.startsWith("a broken one")`)
	b.open(t, w, "/")
	b.until(t, "it is done", `[...document.querySelectorAll(".columns section")]
		.every(s => !s.innerText.startsWith("Failed")) && document.body.innerText.includes("a broken one")`)
}

// A comment that is being written on a line is there again after a reload, before it is kept.
func TestAnOpenCommentSurvives(t *testing.T) {
	w := start(t, changing)
	id := w.session(t, "changes", "begin")
	w.idle(t, id)
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id+"?view=review")
	b.until(t, "the lines", `document.querySelector('[aria-label="Comment on line 2 of a/one.txt"]')`)
	eval[bool](t, b, `(document.querySelector('[aria-label="Comment on line 2 of a/one.txt"]').click(), true)`)
	b.run(t, "write", write(".comment textarea", "half a th"))
	b.open(t, w, "/sessions/"+id+"?view=review")
	b.until(t, "the text is there", `document.querySelector(".comment textarea")?.value === "half a th"`)
	b.run(t, "go on", write(".comment textarea", "ought"),
		click(`//button[.="Add comment"]`))
	b.until(t, "it is kept", `document.querySelector(".kept")?.innerText === "half a thought"`)
	b.open(t, w, "/sessions/"+id+"?view=review")
	b.until(t, "it is kept still", `document.querySelector(".kept")?.innerText === "half a thought" &&
		document.querySelector(".comment textarea") === null`)
}
