package toolrunner_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// WriteProject creates and replaces a file of a project. A refused call changes nothing.
func TestWriteProject(t *testing.T) {
	t.Parallel()
	c := start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(c.root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("prompts", filepath.Join(c.root, "way")); err != nil {
		t.Fatal(err)
	}
	write := func(path, content, was string) (string, error) {
		resp, err := c.WriteProject(t.Context(), &toolrunnerv1.WriteProjectRequest{
			Root: c.root, Path: path, Content: []byte(content), WasSha256: was,
		})
		return resp.GetSha256(), err
	}
	if sum, err := write("prompts/new.md", "one", ""); err != nil || sum != sumOf("one") {
		t.Fatal(sum, err)
	}
	if err := os.Chmod(filepath.Join(c.root, "prompts/new.md"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := write("prompts/new.md", "two", sumOf("one")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(c.root, "prompts/new.md"))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	for name, x := range map[string]struct {
		path, was, content string
		code               fault.Code
	}{
		"another version":       {"prompts/new.md", sumOf("one"), "three", fault.FileChangedSinceRead},
		"it is there already":   {"prompts/new.md", "", "three", fault.FileChangedSinceRead},
		"it is not there":       {"prompts/no.md", sumOf("one"), "three", fault.FileChangedSinceRead},
		"a link out":            {"link", sumOf("mine"), "three", fault.InvalidParams},
		"a link on the way":     {"way/new.md", sumOf("two"), "three", fault.CapabilityDenied},
		"upwards":               {"../x", "", "three", fault.InvalidParams},
		"a repository's folder": {".git/hooks/pre-commit", "", "#!/bin/sh", fault.CapabilityDenied},
		"too large":             {"prompts/big.md", "", strings.Repeat("x", 2<<20), fault.FileTooLarge},
	} {
		if _, err := write(x.path, x.content, x.was); !errors.Is(err, x.code) {
			t.Errorf("%s: %v, want %s", name, err, x.code)
		}
	}
	for path, want := range map[string]string{outside: "mine", filepath.Join(c.root, "prompts/new.md"): "two"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
	if _, err := c.WriteProject(t.Context(), &toolrunnerv1.WriteProjectRequest{Root: outside, Path: "x"}); !errors.Is(
		err,
		fault.NotFound,
	) {
		t.Errorf("a root that is no folder: %v", err)
	}
}
