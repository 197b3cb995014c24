package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"kaged.dev/pkg/testkit/fakellm"
)

// hostile returns texts of a model that try to run code, to load resources, or to imitate the console.
func hostile() []string {
	var all []string
	handlers := []string{
		"onerror", "onload", "onclick", "onmouseover", "onfocus", "ontoggle",
		"onanimationstart", "onbegin",
	}
	tags := []string{
		"img src=x", "svg", "iframe src=javascript:pwn()", "body", "input autofocus",
		"details open", "video src=x", "math", "form action=/api/v1/tokens", "style",
	}
	for _, tag := range tags {
		for _, handler := range handlers {
			all = append(all, fmt.Sprintf("<%s %s=pwn()>x", tag, handler))
		}
	}
	for _, scheme := range []string{
		"javascript:", "JaVaScRiPt:", "java\tscript:", " javascript:",
		"data:text/html,", "vbscript:", "file:///", "blob:", "javascript&colon;", "&#106;avascript:",
		"//evil.example/", "\\\\evil.example/",
	} {
		all = append(all, "[link]("+scheme+"pwn())", "![image]("+scheme+"pwn())", "<"+scheme+"pwn()>",
			"[ref]: "+scheme+"pwn()\n\n[ref]", "<a href=\""+scheme+"pwn()\">x</a>")
	}
	return append(all,
		"<script>pwn()</script>", "<link rel=stylesheet href=//evil.example/x.css>",
		"<base href=//evil.example/>", "<meta http-equiv=refresh content=0;url=//evil.example>",
		"<template><script>pwn()</script></template>", "<object data=x>", "<embed src=x>",
		"<div class=ask id=main style=position:fixed>", "{{constructor.constructor('pwn()')()}}", "${pwn()}",
		"```html\n<script>pwn()</script>\n```", "`<img src=x onerror=pwn()>`",
		"| <img src=x onerror=pwn()> | b |\n|---|---|\n| <script>pwn()</script> | c |",
		"![x](https://evil.example/x.png)", "[https://good.example](https://evil.example/)",
		"[a](https://user:word@evil.example/)", "\x1b]8;;https://evil.example\x07link\x1b]8;;\x07",
		"\u202Etxt.exe", "\u2066a\u2069",
		strings.Repeat("> ", 200)+"deep", strings.Repeat("- ", 100)+"deep", strings.Repeat("[", 500)+"x",
		strings.Repeat("*", 999), "<svg><style><img src=x onerror=pwn()></style></svg>",
		"<details open ontoggle=pwn()><summary>Needs your answer</summary><button>Allow once</button></details>",
		"# Needs your answer\n\n[Allow once](/api/v1/me)",
	)
}

// hostileName is a file name that tries the same.
const hostileName = "<img src=x onerror=pwn()>\u202Efdp.sh"

// Text of a model, a command or an operator never runs or loads anything, and never becomes an element of the console.
func TestHostileContent(t *testing.T) {
	texts := hostile()
	if len(texts) < 160 {
		t.Fatalf("%d texts", len(texts))
	}
	all := strings.Join(texts, "\n\n")
	command := "printf '\\033]0;title\\007\\033[31mred\\033[0m <img src=x onerror=pwn()>'; " +
		"unlink doomed.txt # \u202E\u200B rm"
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if r.Turns() == 0 {
			return fakellm.Step{fakellm.Think(all), fakellm.Say(all), fakellm.Tool("file.write",
				`{"path":`+quoted(hostileName)+`,"content":`+quoted(all)+`}`), fakellm.Tool("shell.bash",
				`{"command":`+quoted(command)+`}`)}
		}
		return fakellm.Step{fakellm.Say("It is over.")}
	})
	id := w.session(t, "<img src=x onerror=pwn()>", "<script>pwn()</script> "+all[:2000])
	b := newBrowser(t, w)
	watch := `window.pwned = 0; window.pwn = () => { window.pwned++ }; window.breaches = [];
		document.addEventListener("securitypolicyviolation", e => window.breaches.push(e.violatedDirective +
		" " + e.blockedURI)); true`
	eval[bool](t, b, watch)
	b.run(t, "open it without loading the page anew", click(`a.item[href="/sessions/`+id+`"]`))
	b.run(t, "the question", chromedp.WaitVisible(chromedp.CSS(".ask .ask-box")))
	for _, step := range []string{
		`document.querySelectorAll("details").forEach(d => d.open = true)`,
		`document.querySelectorAll(".prose *").forEach(e =>
			e.dispatchEvent(new MouseEvent("mouseover", {bubbles: true})))`,
	} {
		eval[bool](t, b, step+`, true`)
	}
	if shown := eval[string](t, b, `document.querySelector(".ask-box").innerText`); strings.ContainsAny(shown,
		"\u202E\u200B") || !strings.Contains(shown, `\u{202E}`) || !strings.Contains(shown, `\u{200B}`) {
		t.Errorf("the command shows as %q", shown)
	}
	b.shows(t, "It has characters that are not seen")
	for what, found := range map[string]string{
		"scripts ran":            `window.pwned`,
		"breaches of the policy": `window.breaches.length`,
		"elements that content may not make": `document.querySelectorAll(
			".prose :is(img, script, iframe, form, input, style, link, base, meta, object, embed), " +
			".prose :is(svg, math, video, button, details, template), .said *, .thought *").length`,
		"attributes that content set": `document.querySelectorAll(
			".prose [id], .prose [style], .prose [onerror], .prose [onclick]").length`,
		"links elsewhere than to the web": `[...document.querySelectorAll(".prose a")].filter(a =>
			!/^https?:$/.test(a.protocol) || a.rel.indexOf("noreferrer") < 0).length`,
		"links that hide their host": `[...document.querySelectorAll(".prose a")].filter(a =>
			!a.innerText.includes(a.host) && !(a.nextElementSibling?.innerText ?? "").includes(a.host)).length`,
		"cards beside the console's own": `document.querySelectorAll(".ask").length - 1`,
		"requests elsewhere": `performance.getEntriesByType("resource").filter(e =>
			!e.name.startsWith(location.origin)).length`,
	} {
		if n := eval[float64](t, b, found); n != 0 {
			t.Errorf("%v %s", n, what)
		}
	}

	// The other views of the same session: its files, its model's context, its timeline.
	for _, view := range []struct{ button, ready string }{
		{"Changes", `document.querySelector(".review-file .line.add") !== null`},
		{"Context", `document.querySelectorAll(".context-list li").length > 1`},
		{"Timeline", `document.querySelector(".lane-span") !== null`},
	} {
		b.run(t, view.button, click(`//button[.="`+view.button+`"]`))
		b.until(t, view.button+" is there", view.ready)
		if n := eval[float64](t, b, `window.pwned + window.breaches.length + document.querySelectorAll(
			".review-pane :is(img, script, iframe, form, style, link, base, meta, object, embed, video, math, template), " +
			".review-pane [onerror], .review-pane [onclick], .review-pane [id]").length`); n != 0 {
			t.Errorf("%s: %v elements or scripts of the content's own", view.button, n)
		}
	}
	b.run(t, "changes", click(`//button[.="Changes"]`))
	b.until(t, "the file's name", `document.querySelector(".review-file code") !== null`)
	name := eval[string](t, b, `document.querySelector(".review-file code").innerText`)
	if strings.Contains(name, "\u202E") || !strings.Contains(name, `\u{202E}`) ||
		!strings.Contains(name, "<img src=x onerror=pwn()>") {
		t.Errorf("the file's name shows as %q", name)
	}
}
