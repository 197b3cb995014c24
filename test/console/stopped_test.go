package console_test

import (
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
)

// A command that is stopped keeps its output so far: in the page that showed it live, and after a reload.
func TestAStoppedCommandKeepsItsOutput(t *testing.T) {
	w := start(t, func(*fakellm.Request) fakellm.Step {
		return fakellm.Step{fakellm.Tool("shell.bash", `{"command":"echo the tests begin; exec sleep 1000"}`)}
	})
	id := w.session(t, "a slow test", "run the tests")
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.until(t, "the output is live",
		`document.querySelector(".tool.running .tool-body .terminal").innerText.includes("the tests begin")`)
	b.run(t, "stop", click("button.stop"))
	kept := `["may have had effects", "output until then", "the tests begin"].every(one =>
		document.querySelector(".tool.bad .tool-body").innerText.includes(one))`
	b.until(t, "the output is kept", kept)
	b.open(t, w, "/sessions/"+id)
	b.until(t, "the output is kept after a reload", kept)
}
