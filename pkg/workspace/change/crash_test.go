//go:build faults

package change_test

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
)

const (
	crashRoot = "CHANGE_TEST_CRASH_ROOT"
	// crashSpoiled makes the last of the changes fail.
	crashSpoiled = "CHANGE_TEST_CRASH_SPOILED"
	// crashRecovering makes the process act as the next one, which takes back unfinished changes.
	crashRecovering = "CHANGE_TEST_CRASH_RECOVERING"
)

// TestMain lets the test binary stand in for a tool-runner that is killed while it changes files.
func TestMain(m *testing.M) {
	if root := os.Getenv(crashRoot); root != "" {
		if os.Getenv(crashRecovering) != "" {
			change.Recover(filepath.Join(root, "journal"), slog.New(slog.DiscardHandler))
			os.Exit(0)
		}
		if err := changeAll(root, os.Getenv(crashSpoiled) != ""); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type exits struct{}

func (exits) Fatal(args ...any) { panic(args) }

// changeAll makes one change of each kind below root/project, noted in root/journal. If spoiled is
// set, another writer changes the last of the files right before its turn.
func changeAll(root string, spoiled bool) error {
	w := change.NewWriter(change.NewJournal(filepath.Join(root, "journal")), nil)
	space, err := paths.Open(filepath.Join(root, "project"), paths.Rules{})
	if err != nil {
		return err
	}
	edit, wasEdit := at(exits{}, space, "edit")
	linked, wasLinked := at(exits{}, space, "linked")
	gone, wasGone := at(exits{}, space, "gone")
	old, wasOld := at(exits{}, space, "old")
	both, wasBoth := at(exits{}, space, "both")
	moved, _ := at(exits{}, space, "new/moved")
	bothTo, _ := at(exits{}, space, "new/deep/both")
	fresh, _ := at(exits{}, space, "new/fresh")
	last, wasLast := at(exits{}, space, "last")
	return w.ApplyWith([]change.Change{
		{At: edit, Was: wasEdit, Data: []byte("edited")},
		{At: linked, Was: wasLinked, Data: []byte("written over")},
		{At: gone, Was: wasGone, Remove: true},
		{At: old, Was: wasOld, Move: &moved},
		{At: both, Was: wasBoth, Move: &bothTo, Data: []byte("both changed")},
		{At: fresh, Data: []byte("fresh")},
		{At: last, Was: wasLast, Data: []byte("last edited")},
	}, func(step int) {
		if spoiled && step == steps-1 {
			if err := os.WriteFile(filepath.Join(root, "project/last"), []byte("theirs"), 0o600); err != nil {
				panic(err)
			}
		}
	})
}

// steps is how many steps changeAll takes, cleared how many temporary files it clears at its end, and taken how many
// steps it takes back if it is spoiled.
const steps, cleared, taken = 8, 6, 8

// crashed is a project in which changeAll died.
type crashed struct {
	root, dir string
	before    map[string]string
}

// crashAt lets changeAll die as a plan says.
func crashAt(t *testing.T, plan string, spoiled bool) crashed {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "project")
	must(t, os.Mkdir(dir, 0o755))
	for _, name := range []string{"edit", "linked", "gone", "old", "both", "last"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("what "+name+" held before"), 0o644))
	}
	must(t, os.Chmod(filepath.Join(dir, "last"), 0o600))
	must(t, os.Link(filepath.Join(dir, "linked"), filepath.Join(dir, "other name")))
	c := crashed{root, dir, tree(t, dir)}
	var env []string
	if spoiled {
		env = append(env, crashSpoiled+"=1")
		c.before["last"] = `-rw------- "theirs"`
	}
	die(t, root, plan, env...)
	if maps.Equal(tree(t, dir), c.before) {
		t.Error("it died and nothing was left: the test proves nothing")
	}
	return c
}

// die lets a process work in root until it is killed as a plan says.
func die(t *testing.T, root, plan string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), append(env, crashRoot+"="+root, crash.Variable+"="+plan)...)
	out, _ := cmd.CombinedOutput()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Fatalf("ended %v: %s", cmd.ProcessState, out)
	}
}

// temporary returns the names below a folder of files that stand beside others.
func temporary(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for name := range tree(t, dir) {
		if paths.IsTemp(filepath.Base(name)) {
			names = append(names, name)
		}
	}
	return names
}

// After the death of a process at any step of changing files or taking changes back, the next one finds a whole set
// or the old files, and no temporary file.
func TestKilledAtAnyStep(t *testing.T) {
	type plan struct{ done, spoiled bool }
	plans := map[string]plan{
		string(crash.FilesStaged): {}, string(crash.FileBegun): {}, string(crash.FilesCommitted): {done: true},
		string(crash.FilesTakenBack): {spoiled: true},
	}
	nth := func(p crash.Point, n int) string { return fmt.Sprintf("%s:%d", p, n) }
	for i := range steps {
		plans[nth(crash.FileCommitted, i+1)] = plan{}
	}
	for i := range cleared {
		plans[nth(crash.FileCleared, i+1)] = plan{done: true}
	}
	for i := range taken {
		plans[nth(crash.FileTakenBack, i+1)] = plan{spoiled: true}
	}
	for i := range cleared {
		plans["spoiled "+nth(crash.FileCleared, i+1)] = plan{spoiled: true}
	}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := crashAt(t, strings.TrimPrefix(name, "spoiled "), plan.spoiled)
			change.Recover(filepath.Join(c.root, "journal"), slog.New(slog.DiscardHandler))
			got := tree(t, c.dir)
			if !plan.done && !maps.Equal(got, c.before) {
				t.Errorf("%v\nwas %v", got, c.before)
			}
			whole := got["edit"] == `-rw-r--r-- "edited"` && got["linked"] == `-rw-r--r-- "written over"` && got["gone"] == "" &&
				len(got) == 10
			if plan.done && !whole {
				t.Errorf("left %v", got)
			}
			if left, err := os.ReadDir(filepath.Join(c.root, "journal")); err != nil || len(left) > 0 {
				t.Errorf("the journal holds %v, %v", left, err)
			}
			if !plan.done {
				must(t, changeAll(c.root, false))
			}
		})
	}
}

// A process that dies while it takes back another's changes leaves a recoverable state too.
func TestKilledWhileRecovering(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		c := crashAt(t, fmt.Sprintf("%s:%d", crash.FileCommitted, steps), false)
		die(t, c.root, fmt.Sprintf("%s:%d", crash.FileCleared, i+1), crashRecovering+"=1")
		change.Recover(filepath.Join(c.root, "journal"), slog.New(slog.DiscardHandler))
		if got := tree(t, c.dir); !maps.Equal(got, c.before) {
			t.Errorf("killed when %d were cleared: %v\nwas %v", i+1, got, c.before)
		}
	}
}

// At no moment is the new content of a private file readable by a user that cannot read the file.
func TestPrivateFilesAreNeverOpen(t *testing.T) {
	t.Parallel()
	c := crashAt(t, string(crash.FileWritten)+":4", false)
	for _, name := range temporary(t, c.dir) {
		info, err := os.Stat(filepath.Join(c.dir, name))
		must(t, err)
		data, err := os.ReadFile(filepath.Join(c.dir, name))
		must(t, err)
		if string(data) == "last edited" {
			if info.Mode() != 0o600 {
				t.Errorf("what replaces a file of mode 0600 stands there with mode %v", info.Mode())
			}
			return
		}
	}
	t.Error("the new content is not there: the test proves nothing")
}

// A file that was not yet overwritten when the process died keeps a person's later changes.
func TestRecoverLeavesWhatWasNotBegun(t *testing.T) {
	t.Parallel()
	c := crashAt(t, string(crash.FilesStaged), false)
	must(t, os.WriteFile(filepath.Join(c.dir, "linked"), []byte("a person's"), 0o600))
	change.Recover(filepath.Join(c.root, "journal"), slog.New(slog.DiscardHandler))
	want := c.before
	want["linked"], want["other name"] = `-rw-r--r-- "a person's"`, `-rw-r--r-- "a person's"`
	if got := tree(t, c.dir); !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// A file that a person changed after the death of the process overwriting it stays unchanged, its
// old content stands beside it, and the log says so.
func TestRecoverKeepsWhatAPersonChanged(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(t *testing.T, file string){
		"wrote into it": func(t *testing.T, file string) {
			must(t, os.WriteFile(file, []byte("a person's"), 0o600))
			later := time.Now().Add(time.Hour)
			must(t, os.Chtimes(file, later, later))
		},
		"replaced it": func(t *testing.T, file string) {
			must(t, os.Remove(file))
			must(t, os.WriteFile(file, []byte("a person's"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := crashAt(t, string(crash.FileCommitted)+":2", false)
			act(t, filepath.Join(c.dir, "linked"))
			var log strings.Builder
			change.Recover(filepath.Join(c.root, "journal"), slog.New(slog.NewTextHandler(&log, nil)))
			got := tree(t, c.dir)
			left := temporary(t, c.dir)
			if len(left) != 1 || got[left[0]] != `-rw------- "what linked held before"` ||
				!strings.Contains(log.String(), left[0]) {
				t.Errorf("beside it %v, %v; said %s", left, got, log.String())
			}
			if got["linked"] != `-rw-r--r-- "a person's"` || got["edit"] != c.before["edit"] {
				t.Errorf("left %v", got)
			}
			if left, err := os.ReadDir(filepath.Join(c.root, "journal")); err != nil || len(left) > 0 {
				t.Errorf("the journal holds %v, %v", left, err)
			}
		})
	}
}
