package issue

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
)

// anIssue draws an issue with texts that look like parts of the Markdown form.
func anIssue(t *rapid.T) issueView {
	lines := rapid.SampledFrom([]string{
		"", "---", "text", "<!-- kaged:body -->", `\<!-- kaged:todo {} -->`, `\\<!-- kaged:`, "# T", "kaged-issue: 1", "-->",
		"\r", "<!--",
		"\x1b[31m", "é\u202e", "```", " <!-- kaged:body -->", "\u2028<!-- kaged:body -->",
	})
	text := rapid.Map(rapid.SliceOfN(lines, 0, 6), func(l []string) string { return strings.Join(l, "\n") })
	word := rapid.SampledFrom([]string{"a", "agent:primary", "<!-- kaged:body -->", "--> x", `"`, "null", ": "})
	optional := rapid.Ptr(word, true)
	todo := rapid.Custom(func(t *rapid.T) todoView {
		return todoView{
			ID: word.Draw(t, "id"), Content: lines.Draw(t, "content"), Status: "in_progress", Kind: "step",
			Phase: optional.Draw(t, "phase"), OriginAgent: optional.Draw(t, "origin"), CreatedAt: 1,
			CompletedAt: rapid.Ptr(rapid.Int64(), true).Draw(t, "completed"), VerifiedBy: optional.Draw(t, "verifier"),
			Notes: rapid.SampledFrom([][]noteView{nil, {{word.Draw(t, "note"), "ada", 1}}}).Draw(t, "notes"),
		}
	})
	update := rapid.Custom(func(t *rapid.T) updateView {
		return updateView{
			Author: word.Draw(t, "author"), Kind: "comment", Body: text.Draw(t, "update"), Visibility: "all",
			CreatedAt: rapid.Int64Range(0, 1<<50).Draw(t, "at"),
			Metadata:  map[string]any{"old_title": word.Draw(t, "old")},
		}
	})
	i := issueView{
		ID: "01" + word.Draw(t, "id"), ProjectID: "demo", Number: rapid.Int64Range(1, 1e6).Draw(t, "number"),
		Title: word.Draw(t, "title"), Status: "resolved",
		Body: text.Draw(t, "body"), OriginalBody: rapid.Ptr(text, true).Draw(t, "original"), Assignment: optional.Draw(t,
			"assignment"),
		CreatedBy: word.Draw(t, "by"), CreatedAt: 1, UpdatedAt: 2, ResolvedAt: rapid.Ptr(rapid.Int64(), true).Draw(t,
			"resolved"), ResolvedBy: optional.Draw(t, "resolver"),
		Version: 3, ImportedFrom: word.Draw(t, "from"),
	}
	if n := rapid.IntRange(0, 3).Draw(t, "todos"); n > 0 {
		i.Todos = rapid.SliceOfN(todo, n, n).Draw(t, "todo")
		i.Updates = rapid.SliceOfN(update, n, n).Draw(t, "updates")
	}
	return i
}

// An issue is unchanged after it is written as Markdown and read, even with texts that look like marks, heads and ends.
func TestMarkdownKeepsAnIssue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		want := anIssue(rt)
		text, err := writeMarkdown(want)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := readMarkdown(text)
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatalf("%s\n%s", d, text)
		}
	})
}

// The Markdown of an issue is readable as text: title, body, todos, history.
func TestMarkdownIsReadable(t *testing.T) {
	t.Parallel()
	text, err := writeMarkdown(issueView{
		ID: "01J", ProjectID: "demo", Number: 7, Title: "Login fails", Body: "since **Monday**\n", Status: "open",
		CreatedBy: "op", CreatedAt: 1, Version: 1,
		Todos:   []todoView{{ID: "01T", Content: "reproduce", Status: "in_progress", Kind: "step"}},
		Updates: []updateView{{Author: "agent:primary", Kind: "comment", Body: "on it", Visibility: "all", CreatedAt: 1000}},
	})
	want := `---
kaged-issue: 1
id: "01J"
project_id: "demo"
number: 7
title: "Login fails"
status: "open"
assignment: null
created_by: "op"
created_at: 1
updated_at: 0
resolved_at: null
resolved_by: null
version: 1
---

<!-- kaged:body -->
# Login fails

since **Monday**


<!-- kaged:todo {"id":"01T","content":"","status":"in_progress","kind":"step","phase":null} -->
## Todo, step, in progress

reproduce

<!-- kaged:update {"author":"agent:primary","kind":"comment","body":"","metadata":null,"visibility":"all",` +
		`"created_at":1000} -->
## agent:primary, 1970-01-01T00:00:01Z: comment

on it

`
	if d := cmp.Diff(want, text); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

// A text that was not written by an export is refused with a sentence, and reading never panics.
func FuzzReadMarkdown(f *testing.F) {
	good, err := writeMarkdown(issueView{
		ID: "x", Title: "t", Body: "b", Todos: []todoView{{Content: "c"}},
		Updates: []updateView{{Body: "u"}},
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", good, good[:40], "---\nkaged-issue: 1\n---\n", strings.ReplaceAll(good, "todo",
		"x"), strings.ReplaceAll(good, "{", "["), "# Notes\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		i, err := readMarkdown(text)
		if err != nil {
			if !errors.Is(err, fault.BadRequest) || fault.From(err).Msg == "" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := writeMarkdown(i)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if _, err := readMarkdown(again); err != nil {
			t.Errorf("%q became %q: %v", text, again, err)
		}
	})
}
