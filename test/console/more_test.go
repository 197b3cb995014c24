package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// A session is exported completely, as text for people and as JSON lines. A text in it cannot close its fence.
func TestExport(t *testing.T) {
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if r.Turns() == 0 {
			return fakellm.Step{fakellm.Say("I look."), fakellm.Tool("shell.bash",
				`{"command":"echo '`+"```"+`'; echo after"}`)}
		}
		return fakellm.Step{fakellm.Say("All is **well**.")}
	})
	id := w.session(t, "to keep", "look around")
	w.idle(t, id)
	b := newBrowser(t, w)
	b.before(t, `window.saved = []; const make = URL.createObjectURL;
		URL.createObjectURL = blob => { blob.text().then(text => window.saved.push(text)); return make(blob) }`)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "All is well.")
	b.shows(t, "kept free for the answer") // it comes late, and moves the buttons down: a click would meet another one
	b.run(t, "export", click(`//button[.="Export Markdown"]`))
	b.until(t, "it is saved", `window.saved.length === 1`)
	text := eval[string](t, b, `window.saved[0]`)
	for _, want := range []string{
		"# to keep", "## Operator", "look around", "I look.", "````\n", "after", "All is **well**.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
	b.run(t, "export", click(`//button[.="Export JSON lines"]`))
	b.until(t, "it is saved", `window.saved.length === 2`)
	roles := eval[string](t, b, `window.saved[1].trim().split("\n").slice(1)
		.map(line => JSON.parse(line).message.role).join()`)
	if roles != "operator,primary" {
		t.Errorf("the lines are of %s", roles)
	}
}

// The form of a session's budget changes US dollars and keeps the other limits, also after a frame with the budget's
// state.
func TestBudgetOfASessionInThePage(t *testing.T) {
	w := start(t, typed)
	id := w.session(t, "paid", "")
	path := "/api/v1/sessions/" + id
	w.do(t, http.MethodPut, path, map[string]any{
		"budget": map[string]any{"usd": 1, "tokens": 500000, "walltime_ms": 3600000, "unpriced": "allow"},
	}, nil)
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "Budget")
	w.do(t, http.MethodPost, path+"/messages", map[string]any{"content": "hello"}, nil)
	w.idle(t, id)
	b.until(t, "the use is shown", `/[1-9].* of 500/.test(document.querySelector(".details").innerText)`)
	b.run(t, "the form", click(`//button[.="Name, model, budget"]`))
	b.run(t, "a limit", write(`form.stack input[step="0.01"]`, "3"))
	b.run(t, "save", click(`//button[.="Save"]`))
	b.shows(t, "Saved; it applies from the next run.")
	var got struct {
		Budget struct {
			Limit struct {
				USD      float64
				Tokens   int64
				Walltime int64 `json:"walltime_ms"`
				Unpriced string
			}
		}
	}
	w.do(t, http.MethodGet, path, nil, &got)
	if l := got.Budget.Limit; l.USD == 1 || l.USD == 0 || l.Tokens != 500000 || l.Walltime != 3600000 ||
		l.Unpriced != "allow" {
		t.Errorf("the budget is %+v", l)
	}
}

// A project file that grants more than the approved version is shown with the widening keys and as a diff, with hidden
// characters escaped, and the inbox counts it. The approved version applies until the operator approves the new one,
// and no key on the page approves it.
func TestApprovalOfAProjectFile(t *testing.T) {
	w := start(t, typed)
	w.session(t, "before", "")
	file := kagedtest.Read(t, w.dir, ".kaged/project.yaml")
	kagedtest.Write(t, w.dir, ".kaged/project.yaml",
		strings.Replace(file, "max_steps: 20", "max_steps: 90 # \u202E no harm", 1))
	b := newBrowser(t, w)
	b.shows(t, "grant more than the approved version")
	b.until(t, "the title counts", `document.title.startsWith("(1) ")`)
	b.run(t, "to it", click(`//a[.="Compare them"]`))
	b.shows(t, "Needs your answer")
	b.shows(t, "max_steps")
	b.shows(t, "20 → 90")
	if diff := eval[string](t, b, `document.querySelector(".ask-diff").innerText`); !strings.Contains(diff, `\u{202E}`) ||
		strings.Contains(diff, "\u202E") {
		t.Errorf("the diff shows %q", diff)
	}
	b.run(t, "keys", chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent("y"), chromedp.KeyEvent(" "))
	state := func() (got struct{ State string }) {
		w.do(t, "GET", "/api/v1/projects/wordcount/approval", nil, &got)
		return got
	}
	if got := state(); got.State != "required" {
		t.Errorf("it is %s before the answer", got.State)
	}
	b.run(t, "approve", click(".ask .allow"))
	b.hides(t, "Needs your answer")
	b.until(t, "the title counts no more", `document.title.startsWith("wordcount")`)
	if got := state(); got.State != "approved" {
		t.Errorf("it is %s after the answer", got.State)
	}
}

// An operator sees a program that an agent debugs, with its position, calls and variables, evaluates an expression and
// steps.
func TestDebuggerView(t *testing.T) {
	letGo := fakellm.NewGate()
	debug := func(input string) fakellm.Action { return fakellm.Tool("debug", input) }
	w := start(t, nil)
	w.model.Script([]fakellm.Step{
		{debug(`{"action":"launch","runtime":"go","mode":"test","script":".","args":["-test.run=TestMean"]}`)},
		{debug(`{"action":"set_breakpoint","path":"mean.go","line":6}`)},
		{debug(`{"action":"continue","timeout":300000}`)},
		{fakellm.Wait(letGo), debug(`{"action":"variables"}`)},
		{debug(`{"action":"disconnect"}`)},
		{fakellm.Say("The first number is left out.")},
	})
	for path, content := range map[string]string{
		".kaged/project.yaml": "version: 1\nproject: mean\nprimary:\n  model: smart-generalist\n" +
			"  system_prompt: ./prompt.md\n  tools: {\"*\": {enabled: false}, debug: {enabled: true}}\n  cage: disabled\n",
		"prompt.md": "You debug.", "go.mod": "module example.com/mean\n\ngo 1.24\n",
		"mean.go": "package mean\n\nfunc Mean(list []int) int {\n\tsum := 0\n\tfor _, n := range list[1:] {\n" +
			"\t\tsum += n\n\t}\n\treturn sum / len(list)\n}\n",
		"mean_test.go": "package mean\n\nimport \"testing\"\n\nfunc TestMean(t *testing.T) {\n" +
			"\tif got := Mean([]int{3, 4, 5}); got != 4 {\n\t\tt.Errorf(\"the mean is %d\", got)\n\t}\n}\n",
	} {
		kagedtest.Write(t, w.dir+"/../mean", path, content)
	}
	w.do(t, "POST", "/api/v1/projects/load", map[string]any{"path": strings.TrimSuffix(w.dir, "wordcount") + "mean"}, nil)
	var made struct{ ID string }
	w.do(t, "POST", "/api/v1/projects/mean/sessions", map[string]any{"name": "wrong mean"}, &made)
	w.do(t, "POST", "/api/v1/sessions/"+made.ID+"/messages", map[string]any{"content": "find it"}, nil)
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+made.ID+"?view=debug")
	b.until(t, "the program stands at the line", `document.querySelector(".source .at")?.innerText.includes("sum += n")`)
	b.shows(t, "mean.Mean")
	b.until(t, "its variables", `document.querySelector(".details dl.mono").innerText.includes("sum")`)
	b.run(t, "evaluate", write(`input[aria-label="Expression"]`, "list[0]"+kb.Enter))
	b.until(t, "the value", `[...document.querySelectorAll(".details pre.code")].some(p => p.innerText.startsWith("3"))`)
	b.run(t, "step", click(`//button[.="Over"]`))
	b.until(t, "the next line", `document.querySelector(".source .at")?.innerText.includes("for _, n")`)
	b.shows(t, "Last moved by")
	letGo.Open()
	b.shows(t, "The first number is left out.")
	b.shows(t, "No agent debugs a program at the moment.")
}

// Every screen can be reached, and a command approved, with only the keyboard: by Tab and Space on the focused button,
// never by a single key on the page.
func TestByKeyboard(t *testing.T) {
	w := start(t, typed)
	kagedtest.Write(t, w.dir, "doomed.txt", "doomed\n")
	id := w.session(t, "by keys", "clean up")
	b := newBrowser(t, w)
	b.shows(t, "Needs your answer")
	for keys, name := range map[string]string{"gp": "Projects", "gr": "Processes", "ga": "Audit", "gs": "Settings"} {
		for _, key := range keys {
			b.run(t, keys, chromedp.KeyEvent(string(key)))
		}
		b.until(t, name, fmt.Sprintf(`document.querySelector("h1")?.innerText === %q`, name))
	}
	b.run(t, "inbox", chromedp.KeyEvent("g"), chromedp.KeyEvent("i"))
	b.until(t, "the inbox", `document.querySelector(".inbox") !== null`)
	b.run(t, "search", chromedp.KeyEvent("/"))
	b.until(t, "the field", `document.activeElement?.getAttribute("role") === "combobox"`)
	b.run(t, "words", chromedp.KeyEvent("by keys"))
	b.until(t, "it is found", `document.querySelector("#palette-0")?.innerText.includes("by keys")`)
	b.run(t, "open", chromedp.KeyEvent(kb.Enter))
	b.until(t, "the session", fmt.Sprintf(`location.pathname === "/sessions/%s" &&
		document.querySelector(".ask .allow") !== null`, id))
	b.until(t, "the card takes an answer", `(window.shown ??= performance.now(), performance.now() - window.shown > 700)`)
	for range 60 {
		if eval[bool](t, b, `document.activeElement?.classList.contains("allow") ?? false`) {
			b.run(t, "allow", chromedp.KeyEvent(" "))
			b.shows(t, "Done, all of it.")
			return
		}
		b.run(t, "tab", chromedp.KeyEvent(kb.Tab))
	}
	t.Errorf("60 tabs do not reach the answer:\n%s", b.text())
}
