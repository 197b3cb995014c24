package tools_test

import (
	"path/filepath"
	"slices"
	"testing"

	"kaged.dev/pkg/workspace/change"
)

// Every tool that changes files reports each of them; a call that fails or only reads reports none.
func TestChangesAreObserved(t *testing.T) {
	t.Parallel()
	var got []string
	b := newBench(t, func(b *bench) {
		b.changed = func(events []change.Event) {
			for _, e := range events {
				rel, _ := filepath.Rel(b.root, e.Path)
				got = append(got, string(e.Kind)+" "+rel)
			}
		}
	})
	b.from.KnowsFiles = true
	b.write("edit.txt", "one two\n")
	b.write("code.go", "package p\n\nvar x = 1\n")
	b.write("patched.txt", "old\n")
	rewrites := map[string]string{"var x = 1": "var x = 2"}
	for _, c := range []struct {
		tool   string
		params in
		want   []string
	}{
		{"file.write", in{"path": "new.txt", "content": "x"}, []string{"created new.txt"}},
		{"file.write", in{"path": "new.txt", "content": "y"}, []string{"changed new.txt"}},
		{"file.create", in{"path": "a/b.txt", "content": "x"}, []string{"created a/b.txt"}},
		{"edit.text", in{"path": "edit.txt", "old_string": "two", "new_string": "2"}, []string{"changed edit.txt"}},
		{"edit.ast", in{"path": "code.go", "rewrites": rewrites, "dry_run": false}, []string{"changed code.go"}},
		{
			"edit.patch",
			in{
				"patch": "*** Begin Patch\n*** Update File: patched.txt\n*** Move to: moved.txt\n@@\n-old\n+new\n*** Delete " +
					"File: new.txt\n*** End Patch",
			},
			[]string{"moved moved.txt", "changed moved.txt", "removed new.txt"},
		},
		{"file.read", in{"path": "moved.txt"}, nil},
	} {
		got = nil
		if b.ok(c.tool, c.params, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.tool, got, c.want)
		}
	}
	got = nil
	if o, err := b.do(t.Context(), "file.create", in{"path": "moved.txt", "content": "x"}); err != nil || o.Fault == nil ||
		got != nil {
		t.Errorf("got %v, %v and the events %q, want a failure without events", o.Fault, err, got)
	}
}
