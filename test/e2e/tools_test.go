package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/test/e2e/kagedtest"
)

// Ctrl-C ends a call and its command, and so does the end of kaged: no process is left.
func TestACallEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*kagedtest.Process){
		"interrupt": func(p *kagedtest.Process) { p.Signal(syscall.SIGINT) },
		"kill":      (*kagedtest.Process).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// durations that no other test uses for sleep
			mark := map[string]string{"interrupt": "98765431", "kill": "98765432"}[name]
			p := kagedtest.Command(t, "kaged", kagedtest.Environ("KAGED_DATA_DIR="+filepath.Join(dir, "data"),
				"KAGED_CONFIG="+filepath.Join(dir, "local.toml")),
				"tools", "call", "shell.bash", `{"command":"echo ready; sleep `+mark+` & sleep `+mark+`"}`, "--project", dir)
			kagedtest.Eventually(t, "the command runs", func() bool { return strings.Contains(p.Stderr.String(), "ready") })
			end(p)
			stdout, code := p.Rest(t)
			if stdout != "" || name == "interrupt" && code != 130 {
				t.Errorf("exit %d, printed %q", code, stdout)
			}
			kagedtest.Eventually(t, "the command is gone", func() bool { return len(kagedtest.Running(t, mark)) == 0 })
		})
	}
}

// A project file that cannot be read is none that is missing: its agents may be intended to have cages.
func TestAnUnreadableProjectFileIsNotMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, ".kaged", "project.yaml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("version: 1\n#"+strings.Repeat("x", 4<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"tools", "list"}, {"cage", "show", "primary"}} {
		p := kagedtest.Command(t, "kaged", kagedtest.Environ("KAGED_DATA_DIR="+filepath.Join(dir, "data"),
			"KAGED_CONFIG="+filepath.Join(dir, "local.toml")), append(args, "--project", dir)...)
		stdout, code := p.Rest(t)
		if said := stdout + p.Stderr.String(); code != 2 || !strings.Contains(said, "The file is larger than") {
			t.Errorf("%v: exit %d, %s", args, code, said)
		}
	}
}
