package env_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/env"
)

// A process gets the nine names that are set, and what was declared over them (T-ENV-01, -02, -04).
func TestBuild(t *testing.T) {
	t.Parallel()
	own := map[string]string{
		"PATH": "/bin", "HOME": "/h", "USER": "u", "LANG": "C", "TERM": "xterm", "SHELL": "/bin/sh", "TMPDIR": "/tmp", "TZ": "UTC",
		"SECRET": "s", "KAGED_TOKEN": "t", "path": "no", "LD_PRELOAD": "evil.so",
	}
	lookup := func(name string) (string, bool) { v, ok := own[name]; return v, ok }
	want := map[string]string{
		"PATH": "/bin", "HOME": "/h", "USER": "u", "LANG": "C", "TERM": "xterm", "SHELL": "/bin/sh", "TMPDIR": "/tmp", "TZ": "Mars", "FOO": "${SECRET}",
	}
	if got := env.Build(lookup, map[string]string{"TZ": "Mars", "FOO": "${SECRET}"}); !maps.Equal(got, want) {
		t.Errorf("built %v", got)
	}
}

// What the system cannot hold is refused by name (T-SHELL-14).
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, bad := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A": "\x00"}, {"A": "", "B": "", "C": ""}, {"A": strings.Repeat("x", 70<<10), "B": strings.Repeat("x", 70<<10)}} {
		if err := env.Check("env", bad, 2); !errors.Is(err, fault.InvalidParams) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := env.Check("env", map[string]string{"A": "", "b-c": "x=y"}, 2); err != nil {
		t.Error(err)
	}
}

// Nothing else makes an environment, or a process: what a tool starts is started by the sandbox with what is built here
// (T-TOOLS-S6.6, C38).
func TestOneBuilder(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "commandtest") ||
			strings.Contains(path, "compare-ast-grep") { // which is no part of the service

			return err
		}
		files++
		src, err := os.ReadFile(path)
		for _, forbidden := range []string{"os.Environ(", "os.StartProcess(", "syscall.ForkExec(", `"os/exec"`, "os.ExpandEnv("} {
			if bytes.Contains(src, []byte(forbidden)) {
				t.Errorf("%s uses %s", path, forbidden)
			}
		}
		return err
	})
	if err != nil || files < 50 {
		t.Errorf("%d files, %v", files, err)
	}
}
