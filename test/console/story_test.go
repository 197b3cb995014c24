package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// typed are the answers to the operator's texts.
func typed(r *fakellm.Request) fakellm.Step {
	switch text := r.LastText(); {
	case strings.Contains(text, "clean up") && r.Turns() == 0:
		return fakellm.Step{fakellm.Say("I delete it."), fakellm.Tool("shell.bash",
			`{"command":"unlink doomed.txt"}`)}
	case strings.Contains(text, "look"):
		return fakellm.Step{
			fakellm.Think("Where is it?"), fakellm.Say("I **look** first."),
			fakellm.Tool("shell.bash", `{"command":"echo out; echo err >&2; exit 3"}`),
		}
	}
	return fakellm.Step{fakellm.Say("Done, all of it.")}
}

// An operator starts a task from the inbox, watches it, and answers a request for approval. No key approves it, the
// page title counts it, and the file is removed only after the answer. A second tab shows the same, and an answer there
// counts as well.
func TestStory(t *testing.T) {
	w := start(t, typed)
	w.session(t, "before", "")
	doomed := filepath.Join(w.dir, "doomed.txt")
	kagedtest.Write(t, w.dir, "doomed.txt", "doomed\n")
	b := newBrowser(t, w)
	b.shows(t, "before")
	b.run(t, "start a task", write(".starter textarea", "clean up"),
		click(".starter button.primary"))
	b.shows(t, "I delete it.")
	b.watch(t, "I delete it")
	b.run(t, "the question", chromedp.WaitVisible(chromedp.CSS(".ask .allow")))
	b.until(t, "the title counts", `document.title.startsWith("(1) ")`)
	if got := eval[string](t, b, `document.querySelector(".ask-box").innerText`); got != "unlink doomed.txt" {
		t.Errorf("asked about %q", got)
	}
	// Keys on the page do not answer.
	b.run(t, "keys", chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent("y"), chromedp.KeyEvent(" "))

	second := b.tab(t)
	second.open(t, w, eval[string](t, b, `location.pathname`))
	second.shows(t, "another window holds this session")
	second.run(t, "the same question", chromedp.WaitVisible(chromedp.CSS(".ask .allow")))
	second.shows(t, "I delete it.")
	second.watch(t, "I delete it")
	if _, err := os.Stat(doomed); err != nil {
		t.Fatalf("the file went before anybody answered: %v", err)
	}
	second.until(t, "the card takes clicks", `(window.shown ??= performance.now(),
		performance.now() - window.shown > 600)`)
	second.run(t, "allow", click(".ask .allow"))
	b.shows(t, "Done, all of it.")
	b.hides(t, "Needs your answer")
	second.shows(t, "Done, all of it.")
	if _, err := os.Stat(doomed); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
	b.until(t, "the title counts no more", `document.title.startsWith("clean up")`)

	second.run(t, "take over", click(`//button[.="Follow here"]`))
	b.shows(t, "another window took over")
	second.run(t, "write", write(".composer textarea", "look"),
		click(".composer button.primary"))
	second.shows(t, "exit 3")
	second.until(t, "look is bold", `document.querySelector(".markdown strong").innerText === "look"`)
	// A failed command is unfolded, with both of its outputs.
	second.shows(t, "out")
	second.shows(t, "err")
	b.shows(t, "exit 3")
	// Stored answers replaced live ones in both windows, and the windows changed their roles: no text was ever gone.
	b.kept(t)
	second.kept(t)
}

// watch counts words in the conversation at every change of the page and at every frame, and records each time at
// which the count has decreased. The words must be there once.
func (b *browser) watch(t testing.TB, words string) {
	t.Helper()
	if !eval[bool](t, b, `(() => {
		window.lost = [];
		let most = 0;
		const look = () => {
			const text = document.querySelector(".rows")?.textContent ?? "";
			const now = text.split(/`+words+`\b/).length - 1;
			if (now < most)
				lost.push(Math.round(performance.now()) + " ms: " + now + " of " + most + ": " + text.slice(-400));
			most = Math.max(most, now);
		};
		new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
		const frame = () => { look(); requestAnimationFrame(frame) };
		frame();
		return most === 1;
	})()`) {
		t.Errorf("%q is not there once:\n%s", words, b.text())
	}
}

// kept fails the test for each time at which watched words were gone.
func (b *browser) kept(t testing.TB) {
	t.Helper()
	for _, one := range eval[[]string](t, b, `lost`) {
		t.Errorf("words were gone: %s", one)
	}
}

// kaged is killed while an open page streams an answer, and started again. The page shows this, reconnects by itself,
// shows that the run was interrupted, keeps the draft, and shows the next answer once and completely. Visible text of
// both answers stays visible in every frame.
func TestKillUnderAnOpenPage(t *testing.T) {
	gate := fakellm.NewGate()
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		step := fakellm.Step{}
		for i := range 40 {
			step = append(step, fakellm.Say(fmt.Sprintf("word%d ", i)))
			if i == 20 {
				step = append(step, fakellm.Wait(gate))
			}
		}
		return step
	})
	id := w.session(t, "long", "tell me")
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "word20")
	b.watch(t, "word7")
	b.run(t, "a draft", write(".composer textarea", "a draft"))
	w.daemon.Kill()
	<-w.daemon.Done()
	b.shows(t, "kaged does not answer")
	gate.Open()
	w.up(t)
	// A start invalidates earlier cookies: the page asks for a new sign-in and continues afterwards.
	b.shows(t, "This browser is signed out")
	b.tab(t).run(t, "sign in again", chromedp.Navigate(w.daemon.LaunchURL),
		chromedp.WaitVisible(chromedp.CSS(".inbox")))
	b.shows(t, "The run was cut off when kaged stopped")
	b.hides(t, "kaged does not answer")
	if draft := eval[string](t, b, `document.querySelector(".composer textarea").value`); draft != "a draft" {
		t.Errorf("the draft is %q", draft)
	}
	b.until(t, "the session is idle", `document.querySelector(".session-top").innerText.includes("idle")`)
	b.run(t, "send it", click(".composer button.primary"))
	b.shows(t, "word39")
	// The stored answer has a block for each word, and replaces the live answer. Only the live answer shows its duration.
	b.until(t, "the answer is stored", `/\$[0-9.]+$/.test(document.querySelectorAll(".turn-end")[1].innerText.trim())`)
	b.until(t, "ten more frames", `(window.frames7 = (window.frames7 ?? 0) + 1) > 10`)
	answers := eval[[]string](t, b, `[...document.querySelectorAll(".rows .prose")].map(p => p.innerText.trim())`)
	if len(answers) != 2 || !strings.HasSuffix(answers[0], "word20") ||
		!strings.HasPrefix(answers[1], "word0 word1 ") || !strings.HasSuffix(answers[1], "word38 word39") {
		t.Errorf("the answers are %q", answers)
	}
	b.kept(t)
	// An answer that the provider sent in many blocks is one row even after a reload.
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "word39")
	again := eval[[]string](t, b, `[...document.querySelectorAll(".rows .prose")].map(p => p.innerText.trim())`)
	if len(again) == 0 || again[len(again)-1] != answers[1] {
		t.Errorf("after a reload the answers are %q", again)
	}
}

// While an answer grows, and when the stored answer replaces it, the view of a reader above its end does not move, and
// unfolded calls stay unfolded.
func TestTheReaderIsNotMoved(t *testing.T) {
	gate := fakellm.NewGate()
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		switch r.Turns() {
		case 0:
			return fakellm.Step{
				fakellm.Say(strings.Repeat("A paragraph of many words that fills a line or two of the page.\n\n", 60)),
				fakellm.Tool("file.read", `{"path":"wordcount.go"}`),
			}
		case 1:
			return fakellm.Step{
				fakellm.Say(strings.Repeat("More words.\n\n", 40)), fakellm.Wait(gate),
				fakellm.Say(strings.Repeat("And more words, again and again.\n\n", 200) + "The end."),
			}
		}
		return fakellm.Step{fakellm.Say("Nothing.")}
	})
	id := w.session(t, "anchor", "write a lot")
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "More words.")
	b.until(t, "the end is followed", `(() => { const e = document.querySelector(".rows");
		return e.scrollHeight > e.clientHeight && e.scrollHeight - e.scrollTop - e.clientHeight < 32 })()`)
	b.run(t, "open the call", click(".tool-line"),
		chromedp.WaitVisible(chromedp.CSS(".tool-body")))
	eval[bool](t, b, `(() => { document.querySelector(".rows").scrollTop = 600; return true })()`)
	b.until(t, "the button", `document.querySelector(".to-end") !== null`)
	before := eval[float64](t, b, `document.querySelector(".rows").scrollTop`)
	gate.Open()
	b.until(t, "the run is over", `document.querySelector(".session-top").innerText.includes("idle")`)
	if after := eval[float64](t, b, `document.querySelector(".rows").scrollTop`); after != before {
		t.Errorf("the reader was moved from %v to %v", before, after)
	}
	if !eval[bool](t, b, `document.querySelector(".tool-line").getAttribute("aria-expanded") === "true"`) {
		t.Error("what was opened has closed")
	}
	b.run(t, "to the end", click(".to-end"))
	b.until(t, "the end", `(() => { const e = document.querySelector(".rows");
		return e.scrollHeight - e.scrollTop - e.clientHeight < 32 })()`)
	b.shows(t, "The end.")
}
