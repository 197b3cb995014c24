package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// A terminal of a background process is shown live in a second window. It accepts keys only after the operator has
// requested this. The program's title, links, and the terminal's replies to old output have no effect.
func TestTerminalInThePage(t *testing.T) {
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if len(r.Results()) > 0 {
			return fakellm.Step{fakellm.Say("It runs.")}
		}
		return fakellm.Step{fakellm.Tool("shell.exec",
			`{"command":"stty -echo; echo ready; exec sh","background":true,"terminal":true}`)}
	})
	file := kagedtest.Read(t, w.dir, ".kaged/project.yaml")
	kagedtest.Write(t, w.dir, ".kaged/project.yaml", strings.Replace(file, "shell.bash", "shell.*", 1))
	id := w.session(t, "shell", "start a shell")
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.run(t, "a shell is asked about", chromedp.WaitVisible(chromedp.CSS(".ask .allow")))
	b.until(t, "the card takes clicks", `(window.shown ??= performance.now(), performance.now() - window.shown > 700)`)
	b.run(t, "allow it", click(".ask .allow"))
	b.shows(t, "It runs.")
	b.run(t, "terminals", click(`//button[.="Terminals"]`),
		chromedp.WaitVisible(chromedp.CSS(".screen .xterm-screen")))
	rows := `[...document.querySelectorAll(".screen .xterm-rows > div")].map(r => r.textContent).join("\n")`
	b.until(t, "its output", rows+`.includes("ready")`)
	b.run(t, "keys before", click(".screen"), chromedp.KeyEvent("echo too-early"+kb.Enter))
	b.run(t, "type", click(`//button[.="Type on it"]`), chromedp.KeyEvent("echo $((40+2))-typed"+kb.Enter))
	b.until(t, "the answer", rows+`.includes("42-typed")`)
	if shown := eval[string](t, b, rows); strings.Contains(shown, "too-early") {
		t.Errorf("keys went to the process before they were asked for:\n%s", shown)
	}
	b.run(t, "a hostile program", chromedp.KeyEvent(
		`printf '\033]0;pwned\007\033]8;;https://evil.example\007click\033]8;;\007 done\n'`+kb.Enter))
	b.until(t, "its text", rows+`.includes("click done")`)
	b.picture(t, "terminal")
	b.run(t, "end it", chromedp.KeyEvent("exit 7"+kb.Enter))
	b.shows(t, "It has ended with exit code 7")
	if title := eval[string](t, b, `document.title`); strings.Contains(title, "pwned") {
		t.Errorf("the title is %q", title)
	}
}
