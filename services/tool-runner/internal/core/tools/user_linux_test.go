//go:build cgo

package tools_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nobody is the uid of the unprivileged user in tests run as root.
const nobody = 65534

// answersFile is the environment variable with the path where the test's second process writes the
// tools' answers.
const answersFile = "KAGED_TEST_ANSWERS"

// The tools give the same answers to a user of the machine and to root; only the permissions of files make a difference
// (T-ARCH-07).
func TestToolsAnswerEveryUserAlike(t *testing.T) {
	t.Parallel()
	mine := answers(t)
	if to := os.Getenv(answersFile); to != "" {
		if err := os.WriteFile(to, []byte(mine), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	// The folder is not below t.TempDir, because only its owner may enter that.
	dir, err := os.MkdirTemp("", "user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	to := filepath.Join(dir, "answers")
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=" + dir, answersFile + "=" + to}
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	theirs, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(mine, string(theirs)); d != "" {
		t.Error(d)
	}
}

// answers returns the answers of a shell and of each tool that works on files, in a new project, without the parts that
// depend on time and path.
func answers(t *testing.T) string {
	b := newBench(t)
	b.write("src/a.go", "package a\n\nfunc A() { old(1) }\n")
	var text strings.Builder
	for _, c := range []struct {
		tool   string
		params in
	}{
		{"file.write", in{"path": "new/b.txt", "content": "one\ntwo\n"}},
		{"file.create", in{"path": "c.txt", "content": "three\n"}},
		{"file.read", in{"path": "new/b.txt"}},
		{"edit.text", in{"path": "new/b.txt", "old_string": "two", "new_string": "2"}},
		{
			"edit.patch", in{
				"patch": "*** Begin Patch\n*** Update File: new/b.txt\n*** Move to: d.txt\n@@\n-one\n+1\n*** Delete File: " +
					"c.txt\n*** End Patch\n",
			},
		},
		{"edit.ast", in{"rewrites": map[string]string{"old($A)": "fresh($A)"}, "path": "src", "dry_run": false}},
		{"search.grep", in{"pattern": "fresh|1"}},
		{"search.glob", in{"pattern": "**"}},
		{"search.ast", in{"pattern": "fresh($A)", "lang": "go"}},
		{"file.list", in{"path": "."}},
		{"shell.bash", in{"command": "cat d.txt; echo x > e.txt; stat -c %a d.txt"}},
		{"file.read", in{"path": "e.txt"}},
	} {
		o, err := b.do(t.Context(), c.tool, c.params)
		if err != nil || o.Fault != nil {
			t.Fatalf("%s: %v %v", c.tool, err, o.Fault)
		}
		params, err := json.Marshal(c.params)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s %s: %s\n", c.tool, params, o.Result.Content)
	}
	return changing.ReplaceAllString(strings.ReplaceAll(text.String(), b.root, "PROJECT"), `"$1":0`)
}

// changing matches the numbers that depend on the time.
var changing = regexp.MustCompile(`"(mtime|modified|modified_at|mtime_ms|duration_ms)":\d+`)
