package tools_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/language"
)

// renamer is a language server that replaces "one" by the new name in its files. If meanwhile is set, it is called
// after each answer was made.
type renamer struct {
	checker
	names     []string
	meanwhile func(asked int)
}

func (r *renamer) Ask(_ context.Context, q language.Query) (language.Answer, error) {
	a := language.Answer{Completeness: language.Completeness{State: "ready"}}
	r.asked = append(r.asked, q)
	for _, name := range r.names {
		path := filepath.Join(r.b.root, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return a, err
		}
		sum := sha256.Sum256(data)
		a.Edits = append(a.Edits, contract.FileEdit{
			Path: path, SHA256: hex.EncodeToString(sum[:]), Edits: strings.Count(string(data), "one"),
			Content: []byte(strings.ReplaceAll(string(data), "one", q.NewName)),
		})
	}
	if r.meanwhile != nil {
		r.meanwhile(len(r.asked))
	}
	return a, nil
}

// newRenamer returns a bench with a renamer of two files.
func newRenamer(t *testing.T) *renamer {
	r := &renamer{names: []string{"a.go", "b.go"}}
	r.b = newBench(t, func(b *bench) { b.languages = r })
	r.b.write("a.go", "one one\n")
	r.b.write("b.go", "one\n")
	return r
}

var toTwo = in{"action": "rename", "path": "a.go", "line": 1, "character": 0, "new_name": "two"}

// T-LSP-RENAME-02, -05: a rename changes all files or none. If a file changes between the answer and the write, the
// server is asked once more; if it changes again, no file is changed.
func TestRenameOfChangingFiles(t *testing.T) {
	t.Parallel()
	r := newRenamer(t)
	r.meanwhile = func(asked int) {
		if asked == 1 {
			r.b.write("b.go", "one, new\n")
		}
	}
	var done struct {
		TotalEdits   int `json:"total_edits"`
		FilesChanged int `json:"files_changed"`
	}
	r.b.ok("code.lsp", toTwo, &done)
	if done.TotalEdits != 3 || done.FilesChanged != 2 || len(r.asked) != 2 ||
		r.b.content("a.go") != "two two\n" || r.b.content("b.go") != "two, new\n" {
		t.Errorf("%+v after %d queries: %q, %q", done, len(r.asked), r.b.content("a.go"), r.b.content("b.go"))
	}

	r = newRenamer(t)
	r.meanwhile = func(asked int) { r.b.write("b.go", strings.Repeat("one ", asked+1)) }
	r.b.fails(fault.FileChangedSinceRead, "code.lsp", toTwo)
	if got := r.b.content("a.go"); got != "one one\n" || len(r.asked) != 2 {
		t.Errorf("after %d queries a.go is %q", len(r.asked), got)
	}
}

// The approval of a rename shows the changes of all its files. None is changed before.
func TestApprovalOfARename(t *testing.T) {
	t.Parallel()
	r := &renamer{names: []string{"a.go", "b.go"}}
	r.b = newBench(t, func(b *bench) { b.languages, b.system = r, []string{"a.go"} })
	r.b.write("a.go", "one\n")
	r.b.write("b.go", "one\n")
	o, err := r.b.do(t.Context(), "code.lsp", toTwo)
	if err != nil || o.Approval == nil || strings.Count(o.Approval.Preview, "+two") != 2 {
		t.Fatalf("approval %+v, fault %v, %v", o.Approval, o.Fault, err)
	}
	if r.b.content("a.go") != "one\n" {
		t.Error("the rename was made before its approval")
	}
}
