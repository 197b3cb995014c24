package console_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// holdAnswers makes the page wait for the answers to some requests until the test releases them.
const holdAnswers = `
	const released = new Promise(done => { window.release = () => done(true) }), fetched = window.fetch;
	window.held = 0;
	window.fetch = async (url, ...more) => {
		const answer = await fetched(url, ...more);
		if (new RegExp(localStorage.getItem("held")).test(url)) {
			window.held++;
			await released;
		}
		return answer;
	};`

// held opens a path while the answers to the requests of a pattern are held.
func (b *browser) held(t *testing.T, w *world, path, pattern string) {
	t.Helper()
	eval[bool](t, b, `(localStorage.setItem("held", `+quoted(pattern)+`), true)`)
	b.open(t, w, path)
	b.until(t, "an answer is held", `window.held > 0`)
}

// What is read after the first view has its place before: the use of the model's context moves no button of the
// details.
func TestLateDetailsMoveNoButton(t *testing.T) {
	w := start(t, func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("Done.")} })
	id := w.session(t, "a task", "do it")
	w.idle(t, id)
	b := newBrowser(t, w)
	b.before(t, holdAnswers)
	b.held(t, w, "/sessions/"+id, "context-estimate|standing-approvals")
	b.until(t, "the buttons are there", `document.querySelector(".details .actions button.deny")`)
	places := `JSON.stringify([...document.querySelectorAll(".details button")].map(b => [b.innerText, b.offsetTop]))`
	before := eval[string](t, b, places)
	eval[bool](t, b, `(release(), true)`)
	b.until(t, "the use of the context is there", `document.querySelector(".details meter")`)
	if now := eval[string](t, b, places); now != before {
		t.Errorf("the buttons were at %s and are at %s", before, now)
	}
}

// A review that is opened by its address does not say that its session has gone on, although the session is read last.
func TestReviewByItsAddressIsFresh(t *testing.T) {
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if r.Turns() == 0 {
			return fakellm.Step{fakellm.Tool("file.write", `{"path":"notes.md","content":"one\n"}`)}
		}
		return fakellm.Step{fakellm.Say("Done.")}
	})
	id := w.session(t, "a task", "do it")
	w.idle(t, id)
	kagedtest.Eventually(t, "the change is listed", func() bool {
		var page struct{ Items []struct{ Path string } }
		w.do(t, "GET", "/api/v1/sessions/"+id+"/changes", nil, &page)
		return len(page.Items) > 0
	})
	b := newBrowser(t, w)
	b.before(t, holdAnswers)
	b.held(t, w, "/sessions/"+id+"?view=review", id+"$")
	eval[bool](t, b, `(release(), true)`)
	b.until(t, "the change is shown", `document.querySelector(".review-file .line.add")`)
	b.shows(t, "live")
	if text := b.text(); strings.Contains(text, "The session has gone on") {
		t.Errorf("the page says:\n%s", text)
	}
}
