package project_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/project"
)

// A folder is listed in pages in the order of names, without denied paths. A file is streamed completely. Files outside
// the project and denied files are refused.
func TestBrowse(t *testing.T) {
	root := t.TempDir()
	large := strings.Repeat("0123456789abcdef", 40000)
	for name, text := range map[string]string{"a.txt": "a", "sub/b": large, ".env": "s", "z": ""} {
		at := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	rules := paths.Rules{Denied: []string{".env"}}
	names := func(after string, limit int) (text string, more bool) {
		list, more, err := project.List(root, rules, "", after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			text += e.Name + ":" + e.Kind + " "
		}
		return text, more
	}
	if got, more := names("", 2); got != "a.txt:file out:link " || !more {
		t.Errorf("got %q, %v", got, more)
	}
	if got, more := names("out", 9); got != "sub:folder z:file " || more {
		t.Errorf("got %q, %v", got, more)
	}
	read := func(name string) (string, error) {
		var text strings.Builder
		err := project.Stream(t.Context(), root, rules, name, func(_, _ int64, data []byte) error {
			text.Write(data)
			return nil
		})
		return text.String(), err
	}
	if got, err := read("sub/b"); got != large || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(large), err)
	}
	if got, err := read("z"); got != "" || err != nil {
		t.Errorf("an empty file: %q, %v", got, err)
	}
	for name, want := range map[string]fault.Code{
		".env": fault.CapabilityDenied, "out/passwd": fault.InvalidParams, "../x": fault.InvalidParams,
		"sub":  fault.FileNotRegular,
		"none": fault.FileNotFound,
	} {
		if _, err := read(name); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	if _, _, err := project.List(root, rules, "a.txt", "", 1); !errors.Is(err, fault.InvalidParams) {
		t.Error("a file as folder:", err)
	}
}
