package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// changing is a model that changes files in its first two turns: by tools and by a command, text files and others.
func changing(r *fakellm.Request) fakellm.Step {
	switch text := r.LastText(); {
	case len(r.Results()) > 0:
	case strings.Contains(text, "begin"):
		return fakellm.Step{
			fakellm.Tool("file.write", `{"path":"a/one.txt","content":"first\nsecond\nthird\n"}`),
			fakellm.Tool("file.write", `{"path":"large.txt","content":`+quoted(strings.Repeat("a line\n", 3000))+`}`),
			fakellm.Tool("shell.bash", `{"command":"printf '\\000\\001\\002' > image.bin; mv old-name.txt new-name.txt; `+
				`for i in $(seq 60); do echo $i > many-$i.txt; done"}`),
		}
	case strings.Contains(text, "go on"):
		return fakellm.Step{fakellm.Tool("edit.text",
			`{"path":"a/one.txt","old_string":"second","new_string":"<b>2nd</b>"}`)}
	}
	return fakellm.Step{fakellm.Say("Done.")}
}

// An operator reviews a session's changes, of all turns and of one turn: changes by tools and by commands, a renamed
// file, a file that is no text, a long file that is folded. Comments on two lines are kept after a reload and are sent
// to the agent as one message, with file, line and the line's text.
func TestReview(t *testing.T) {
	w := start(t, changing)
	kagedtest.Write(t, w.dir, "old-name.txt", "kept text\nof two lines\n")
	w.git(t, "init", "-q")
	w.git(t, "add", ".")
	w.git(t, "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "before")
	id := w.session(t, "changes", "begin")
	w.idle(t, id)
	w.do(t, "POST", "/api/v1/sessions/"+id+"/messages", map[string]any{"content": "go on"}, nil)
	w.idle(t, id)
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "Done.")
	b.run(t, "changes", click(`//button[.="Changes"]`), chromedp.WaitVisible(chromedp.CSS(".review-file")))
	b.shows(t, "64 files")
	file := func(path string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".review-file")]
			.find(f => f.getAttribute("aria-label") === %q)`, path)
	}
	text := func(path string) string { return eval[string](t, b, file(path)+`?.innerText ?? ""`) }
	if got := text("a/one.txt"); !strings.Contains(got, "created") || !strings.Contains(got, "<b>2nd</b>") {
		t.Errorf("the file of a tool shows as %q", got)
	}
	if got := text("many-9.txt"); strings.Contains(got, "+9") {
		t.Errorf("a file far down is unfolded: %q", got)
	}
	if got := text("image.bin"); !strings.Contains(got, "It is no text") || !strings.Contains(got, "not by a file tool") {
		t.Errorf("the file that is no text shows as %q", got)
	}
	if got := text("new-name.txt"); !strings.Contains(got, "renamed") || !strings.Contains(got, "old-name.txt") {
		t.Errorf("the renamed file shows as %q", got)
	}
	if got := text("large.txt"); !strings.Contains(got, "It is long") || strings.Contains(got, "a line") {
		t.Errorf("the long file shows as %.200q", got)
	}
	if n := eval[int](t, b, `document.querySelectorAll(".review-files li").length`); n != 64 {
		t.Errorf("the list has %d files", n)
	}
	eval[bool](t, b, file("large.txt")+`.querySelector(".fold").click(), true`)
	b.until(t, "the long file unfolds", file("large.txt")+`.innerText.includes("a line")`)

	comment := func(line int, what string) {
		eval[bool](t, b, fmt.Sprintf(`%s.querySelector('[aria-label="Comment on line %d of a/one.txt"]').click(), true`,
			file("a/one.txt"), line))
		b.run(t, "comment", write(".comment textarea", what),
			click(".comment .primary"))
	}
	comment(2, "why bold?")
	comment(3, "say more")
	b.shows(t, "Send 2 comments")
	b.open(t, w, "/sessions/"+id+"?view=review")
	b.shows(t, "Send 2 comments")
	b.shows(t, "why bold?")
	b.run(t, "side by side", click(`//button[.="Side by side"]`))
	b.shows(t, "why bold?")

	// One turn alone.
	eval[bool](t, b, `(() => { const s = document.querySelector('select[aria-label="Changes of"]');
		s.value = [...s.options].find(o => o.text.includes("go on")).value;
		s.dispatchEvent(new Event("change", { bubbles: true })); return true })()`)
	b.shows(t, "1 file")
	if got := text("a/one.txt"); !strings.Contains(got, "second") || !strings.Contains(got, "<b>2nd</b>") {
		t.Errorf("the turn shows %q", got)
	}
	b.run(t, "send", click(`//button[.="Send 2 comments"]`))
	b.shows(t, "a/one.txt:2")
	said := eval[string](t, b, `[...document.querySelectorAll(".said")].pop().innerText`)
	want := "Comments on your changes:\n\na/one.txt:2\n    <b>2nd</b>\nwhy bold?\n\na/one.txt:3\n    third\nsay more"
	if said != want {
		t.Errorf("said %q, want %q", said, want)
	}
	w.idle(t, id)
	b.open(t, w, "/sessions/"+id+"?view=review")
	b.until(t, "they are sent and no longer kept",
		`document.querySelector(".review-bar .primary").innerText === "Send comments" && document.querySelector(".line.add")`)
	b.run(t, "back", click(`//button[contains(., "Conversation")]`))

	// A comment on a removed line is listed as such.
	b.run(t, "changes", click(`//button[.="Changes"]`), chromedp.WaitVisible(chromedp.CSS(".review-file")))
	comment(1, "lost soon")
	if err := os.WriteFile(filepath.Join(w.dir, "a/one.txt"), []byte("other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.run(t, "read again", click(`//button[.="Refresh"]`))
	b.shows(t, "On lines that are shown no more")
}
