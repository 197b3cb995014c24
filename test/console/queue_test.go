package console_test

import (
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
)

// A message without a free slot waits in its session. Its page names the state, refuses to start it while the slot is
// taken, returns its text when it is withdrawn, and starts it by itself when the slot becomes free.
func TestAQueuedMessageInThePage(t *testing.T) {
	gate := fakellm.NewGate()
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if r.LastText() == "hold the slot" {
			return fakellm.Step{fakellm.Say("I hold it."), fakellm.Wait(gate)}
		}
		return fakellm.Step{fakellm.Say("You said: " + r.LastText())}
	}, "[limits]\nsessions_per_project = 1\n")
	busy := w.session(t, "busy", "hold the slot")
	id := w.session(t, "waits", "")
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	send := func(text string) {
		b.run(t, "write", write(".composer textarea", text),
			click(".composer button.primary"))
		b.until(t, "it waits", `document.querySelector(".session-top .state")?.innerText.includes("queued")`)
	}
	b.until(t, "the session is there", `document.querySelector(".session-top .state")?.innerText.includes("idle")`)
	send("the first")
	b.until(t, "it is shown", `document.querySelector(".said")?.innerText === "the first"`)
	b.run(t, "withdraw", click(`//button[.="Withdraw"]`))
	b.shows(t, "The message is withdrawn.")
	b.until(t, "its text is back", `document.querySelector(".composer textarea").value === "the first"`)
	b.until(t, "nothing waits", `document.querySelector(".session-top .state").innerText.includes("idle")`)

	send(", or the second")
	b.run(t, "too early", click(`//button[.="Start now"]`))
	b.shows(t, "1 of 1 sessions of the project are at work")
	gate.Open()
	w.idle(t, busy)
	b.shows(t, "You said: the first, or the second")
	b.until(t, "it is over", `document.querySelector(".session-top .state").innerText.includes("idle")`)
}
