package toolrunner_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tools start commands only through the sandbox, with the environment that pkg/sandbox/env builds: neither the service
// nor the libraries of the workspace start a process or read their own environment (T-TOOLS-S6.6, C38).
func TestOnlyTheSandboxStartsProcesses(t *testing.T) {
	t.Parallel()
	for root, least := range map[string]int{
		".": 50, "../../pkg/workspace": 20, "../../pkg/sandbox": 5, "../../pkg/shellguard": 10,
	} {
		files := 0
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			src, err := os.ReadFile(path)
			for _, forbidden := range []string{
				"os.Environ(", "os.StartProcess(", "syscall.ForkExec(", `"os/exec"`, "os.ExpandEnv(",
			} {
				if bytes.Contains(src, []byte(forbidden)) {
					t.Errorf("%s uses %s", path, forbidden)
				}
			}
			return err
		})
		if err != nil || files < least {
			t.Errorf("%s: got %d files and %v, want at least %d", root, files, err, least)
		}
	}
}
