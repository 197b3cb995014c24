package session

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A session is written as a document: calls and results are in fences that their text cannot close, a result follows
// its call, and a message to a run at work follows the step after which the agent read it. Such a message is stored
// before that of its run; messages to a run without a message of its own stand where they are stored. The console's
// export is tested with the same files.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(names) < 2 {
		t.Fatalf("the documents are %v: %v", names, err)
	}
	for _, name := range names {
		lines, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(strings.TrimSuffix(name, ".jsonl") + ".md")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		w := &markdownWriter{w: &b}
		for line := range bytes.Lines(lines) {
			var one struct{ Session, Message json.RawMessage }
			if err := json.Unmarshal(line, &one); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if one.Session != nil {
				err = w.session(one.Session)
			} else {
				err = w.message(one.Message)
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}
