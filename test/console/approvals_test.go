package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/testkit/fakellm"
)

// takesAnAnswer waits until the card of an approval accepts clicks.
func (b *browser) takesAnAnswer(t testing.TB) {
	t.Helper()
	b.until(t, "the card takes an answer", `document.querySelector(".ask .allow") &&
		(window.shown ??= performance.now(), performance.now() - window.shown > 700)`)
	eval[bool](t, b, `(window.shown = undefined, true)`)
}

// An approval for the session covers later commands that start with the same words: the later call needs no approval,
// the session lists the standing approval, and after its revocation the next call needs approval again. Enter on the
// button allows nothing. An answer to a request that has changed is refused, and the page shows the new request.
func TestStandingApprovalsInThePage(t *testing.T) {
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		branches := []string{"main", "next", "", "last"}
		if n := r.Turns(); n < len(branches) && branches[n] != "" {
			return fakellm.Step{fakellm.Tool("shell.bash", `{"command":"git push --force origin `+branches[n]+`"}`)}
		}
		return fakellm.Step{fakellm.Say(fmt.Sprintf("Pushed, %d turns.", r.Turns()))}
	})
	id := w.session(t, "push", "push it")
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.takesAnAnswer(t)
	b.run(t, "to the question", chromedp.KeyEvent("a"))
	b.until(t, "it has the focus", `document.activeElement.classList.contains("ask")`)
	eval[bool](t, b, `(document.querySelector(".ask .allow").focus(), true)`)
	b.run(t, "Enter", chromedp.KeyEvent(kb.Enter))
	b.shows(t, "Enter allows nothing.")

	conn, err := pgx.Connect(t.Context(), w.owner)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `update session_manager.approvals
		set subject = replace(subject::text, 'origin main', 'origin other')::jsonb where session_id = $1`, id); err != nil {
		t.Fatal(err)
	}
	b.run(t, "allow what was shown", click(".ask .allow"))
	b.shows(t, "Not approved: the question has changed.")
	b.until(t, "it is shown anew", `document.querySelector(".ask-box").innerText.endsWith("origin other")`)
	b.takesAnAnswer(t)

	b.run(t, "calls like it", click(".ask .like"),
		chromedp.WaitVisible(chromedp.CSS(".ask-like")))
	b.shows(t, `The command "git push --force origin other"`)
	b.run(t, "words", click(`//label[contains(., "begin with the same words")]/input`))
	b.shows(t, `begins with the words "git push", with any further words`)
	eval[bool](t, b, `(() => { const s = document.querySelector(".ask-words select"); s.value = "4";
		s.dispatchEvent(new Event("change", { bubbles: true })); return true })()`)
	b.until(t, "the sentence has them",
		`document.querySelector(".ask-covers").innerText.includes("git push --force origin, with any further words")`)
	b.run(t, "allow in the session", click(`//button[.="Allow in this session"]`))
	b.shows(t, "Pushed, 2 turns.")
	b.until(t, "it is listed", `document.querySelector(".details .standing").innerText.includes("in this session") &&
		document.querySelector(".details .standing").innerText.includes("git push --force origin")`)
	b.open(t, w, "/projects/wordcount?tab=approvals")
	b.until(t, "the project lists it", `document.querySelector(".standing").innerText.includes("allowed 1 call")`)

	b.open(t, w, "/sessions/"+id)
	b.shows(t, "Pushed, 2 turns.") // after this the page no longer moves under the pointer
	b.run(t, "revoke", click(".details .standing button"))
	b.until(t, "it is gone", `document.querySelector(".details .standing") === null`)
	b.run(t, "once more", write(".composer textarea", "push the last"),
		click(".composer button.primary"))
	b.until(t, "it is asked", `document.querySelector(".ask-box").innerText.endsWith("origin last")`)
	b.takesAnAnswer(t)
	b.run(t, "deny", click(".ask .deny"))
	b.shows(t, "Pushed, 4 turns.")
}

// A message to an active run is shown as waiting until the agent has read it. Then it is shown after the results that
// the agent had, both during the run and after a reload.
func TestSteeringInThePage(t *testing.T) {
	gates := []*fakellm.Gate{fakellm.NewGate(), fakellm.NewGate()}
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		switch r.Turns() {
		case 0:
			return fakellm.Step{fakellm.Say("First I look."), fakellm.Wait(gates[0]), fakellm.Tool("file.read",
				`{"path":"wordcount.go"}`)}
		case 1:
			return fakellm.Step{fakellm.Say("I heard: " + r.LastText()), fakellm.Wait(gates[1]), fakellm.Tool("file.read",
				`{"path":"go.mod"}`)}
		}
		return fakellm.Step{fakellm.Say("All done.")}
	})
	id := w.session(t, "steered", "begin")
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "First I look.")
	b.run(t, "steer", write(".composer textarea", "use tabs"),
		click(`//button[.="Steer"]`))
	b.until(t, "it waits", `document.querySelector(".waiting").innerText.includes("use tabs")`)
	// Another page of the same session shows the message too.
	second := b.tab(t)
	second.open(t, w, "/sessions/"+id)
	second.until(t, "it waits", `document.querySelector(".waiting").innerText.includes("use tabs")`)
	gates[0].Open()
	b.shows(t, "I heard: use tabs")
	b.until(t, "nothing waits", `document.querySelector(".waiting") === null`)
	inOrder := `(() => { const text = document.querySelector(".rows").innerText;
		const at = ["begin", "First I look.", "file.read", "use tabs", "I heard: use tabs", "All done."]
			.map(one => text.indexOf(one));
		return at.every((n, i) => n >= 0 && (i === 0 || n > at[i - 1])) &&
			document.querySelectorAll(".rows .turn").length === 2 })()`
	b.until(t, "it stands in its place", strings.ReplaceAll(inOrder, `, "All done."`, ""))
	gates[1].Open()
	b.shows(t, "All done.")
	b.until(t, "it stands in its place", inOrder)
	b.shows(t, "of 2")
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "All done.")
	b.until(t, "it stands in its place when read anew", inOrder)
	second.until(t, "and in the other page", inOrder)
}
