package tools_test

import (
	"slices"
	"testing"

	"kaged.dev/pkg/fault"
)

// No tool writes a marker in the place of a secret into a file, or searches for it; the error explains the marker to
// the agent. The text around the secret can be changed.
func TestMarkersAreNotWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const content = "user = ada\ntoken = s3cr3t\nport = 3000\n"
	b.write("app.conf", content)
	b.read("app.conf")
	b.write("app.py", "y = x\n")
	b.read("app.py")
	const shown = "user = ada\ntoken = [redacted:github-pat]\nport = 4000\n"
	const line = "token = [redacted:github-pat]\n"
	const more = "token2 = [redacted:github-pat]"
	for tool, input := range map[string]in{
		"file.write":  {"path": "app.conf", "content": shown},
		"file.create": {"path": "new.conf", "content": shown},
		"write":       {"path": "other.conf", "content": shown},
		"edit.text":   {"path": "app.conf", "old_string": "port = 3000", "new_string": more},
		"edit":        {"path": "app.conf", "old_text": line + "port = 3000", "new_text": "port = 4000"},
		"edit.patch":  envelope("*** Update File: app.conf\n@@\n-port = 3000\n+" + more + "\n"),
		"apply_patch": envelope("*** Update File: app.conf\n@@\n " + line + "-port = 3000\n+port = 4000\n"),
		"edit.ast":    {"path": "app.py", "rewrites": in{"x": "'[redacted:github-pat]'"}, "dry_run": false},
	} {
		f := b.fails(fault.RedactedText, tool, input)
		if got, ok := f.Details["markers"].([]string); !ok || !slices.Equal(got, []string{"[redacted:github-pat]"}) {
			t.Errorf("%s: details are %v", tool, f.Details)
		}
	}
	if got := b.content("app.conf"); got != content {
		t.Errorf("the file became %q", got)
	}
	b.ok("edit.text", in{"path": "app.conf", "old_string": "port = 3000", "new_string": "port = 4000"}, nil)
}

// A file that contains markers as text can be edited and moved, as long as their number does not grow.
func TestMarkersOfAFileStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("notes.md", "It is shown as [redacted:github-pat].\nport = 3000\n")
	b.read("notes.md")
	b.ok(
		"edit.text",
		in{
			"path":       "notes.md",
			"old_string": "is shown as [redacted:github-pat]",
			"new_string": "reads [redacted:github-pat]",
		},
		nil,
	)
	b.ok(
		"edit.patch",
		envelope("*** Update File: notes.md\n*** Move to: docs/notes.md\n@@\n-port = 3000\n+port = 4000\n"),
		nil,
	)
	if got := b.content("docs/notes.md"); got != "It reads [redacted:github-pat].\nport = 4000\n" {
		t.Errorf("the file became %q", got)
	}
}
