package console_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// Every screen, in wide and phone windows, light and dark, has no violations of WCAG 2.2 AA, and fits into the window.
func TestScreens(t *testing.T) {
	checker := axe(t)
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if r.Turns() == 0 && strings.Contains(r.LastText(), "clean up") {
			return fakellm.Step{
				fakellm.Think("It is old."),
				fakellm.Say("I read first, then delete `doomed.txt`."), fakellm.Tool("file.read",
					`{"path":"wordcount.go"}`),
			}
		}
		if r.Turns() == 0 && strings.Contains(r.LastText(), "write it") {
			return fakellm.Step{fakellm.Tool("file.write", `{"path":"notes.md","content":"# Notes\n\nwords\n"}`)}
		}
		if r.Turns() == 1 && strings.Contains(r.LastText(), "clean up") {
			return fakellm.Step{
				fakellm.Say("| file | use |\n|---|---|\n| doomed.txt | none |\n\n" +
					"1. read\n2. delete\n\n```go\nfunc main() {}\n```"),
				fakellm.Tool("shell.bash", `{"command":"unlink doomed.txt"}`),
			}
		}
		return fakellm.Step{fakellm.Say("Done.")}
	})
	kagedtest.Write(t, w.dir, "doomed.txt", "doomed\n")
	id := w.session(t, "clean up the folder", "clean up")
	other := w.session(t, "a second one", "write it")
	w.idle(t, other)
	var issue struct{ Number int }
	w.do(t, http.MethodPost, "/api/v1/projects/wordcount/issues", map[string]any{
		"title": "Count words once", "body": "They are **counted** twice.\n\n- [ ] see why",
	}, &issue)
	w.do(t, http.MethodPost, "/api/v1/tokens", map[string]any{"name": "ci", "scope": "run"}, nil)
	b := newBrowser(t, w)
	screens := []struct{ name, path, ready string }{
		{"inbox", "/", `document.querySelector(".ask") && document.querySelector(".item")`},
		{"session", "/sessions/" + id, `document.querySelector(".ask") && document.querySelector(".turn")`},
		{"review", "/sessions/" + other + "?view=review", `document.querySelector(".review-file .line.add")`},
		{"context", "/sessions/" + other + "?view=context", `document.querySelector(".context-list li label") &&
			document.querySelector("meter")`},
		{"timeline", "/sessions/" + other + "?view=timeline", `document.querySelector(".lane-span")`},
		{"projects", "/projects", `document.querySelector(".item")`},
		{"project", "/projects/wordcount", `document.querySelector(".item")`},
		{"project-file", "/projects/wordcount?tab=file", `document.querySelector(".cm-content") &&
			document.querySelector(".dsl .plus")`},
		{"prompts", "/projects/wordcount?tab=prompts", `document.querySelector(".item")`},
		{"agents", "/projects/wordcount?tab=agents", `document.querySelector(".agent-card")`},
		{"issues", "/projects/wordcount?tab=issues", `document.querySelector(".column .card")`},
		{
			"issue", fmt.Sprintf("/projects/wordcount?tab=issues&issue=%d", issue.Number),
			`document.querySelector(".markdown")`,
		},
		{"processes", "/processes", `document.querySelector(".item")`},
		{"audit", "/audit", `document.querySelector(".audit-gist :not(:empty)")`},
		{"settings", "/settings", `document.body.innerText.includes("Check again")`},
	}
	for _, look := range []struct {
		name          string
		width, height int64
		scheme        string
	}{{"wide-light", 1360, 860, "light"}, {"wide-dark", 1360, 860, "dark"}, {"phone", 320, 700, "light"}} {
		b.size(t, look.width, look.height, look.scheme)
		for _, screen := range screens {
			b.open(t, w, screen.path)
			b.until(t, screen.name+" is there", screen.ready)
			b.picture(t, screen.name+"-"+look.name)
			b.accessible(t, screen.name+" "+look.name, checker)
			if wide := eval[float64](t, b, `document.documentElement.scrollWidth`); wide > float64(look.width) {
				t.Errorf("%s, %s: the page is %v wide", screen.name, look.name, wide)
			}
		}
	}
}

// The page brings the rail as markup: it is painted before the scripts run, and the scripts draw the same one. A chosen
// theme is there before the first paint.
func TestThePageBringsItsRail(t *testing.T) {
	w := start(t, nil)
	b := newBrowser(t, w)
	eval[bool](t, b, `(localStorage.setItem("kaged.theme", "dark"), true)`)
	// A page is interactive before its modules run.
	b.before(t, `
		window.rail = () => [...document.querySelectorAll(".frame > .rail > *")].map(one =>
			[one.tagName, one.getAttribute("href"), one.textContent.trim(), one.querySelector("path").getAttribute("d")]
				.join(" "));
		document.addEventListener("readystatechange", () => {
			window.brought ??= { rail: rail(), theme: document.documentElement.dataset.theme };
		});`)
	b.open(t, w, "/settings")
	b.until(t, "the view is there", `document.querySelector("#main h1")`)
	brought := eval[struct {
		Rail  []string
		Theme string
	}](t, b, `window.brought`)
	if drawn := eval[[]string](t, b, `rail()`); len(drawn) < 7 || !slices.Equal(brought.Rail, drawn) {
		t.Errorf("the page brings the rail %q, and its scripts draw %q", brought.Rail, drawn)
	}
	if brought.Theme != "dark" {
		t.Errorf("before the scripts run, the theme is %q", brought.Theme)
	}
}
