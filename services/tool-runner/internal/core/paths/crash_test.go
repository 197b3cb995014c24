//go:build faults

package paths_test

import (
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
	"kaged.dev/services/tool-runner/internal/core/paths"
)

const crashRoot = "PATHS_TEST_CRASH_ROOT"

// TestMain lets the test binary stand in for a tool-runner that is killed while it changes files.
func TestMain(m *testing.M) {
	if root := os.Getenv(crashRoot); root != "" {
		if err := changeAll(root); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type exits struct{}

func (exits) Fatal(args ...any) { panic(args) }

// changeAll does one of everything below root/project, noted in root/journal.
func changeAll(root string) error {
	space, err := paths.Open(filepath.Join(root, "project"), paths.Rules{Journal: paths.NewJournal(filepath.Join(root, "journal"))})
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
	return paths.Apply(
		paths.Change{At: edit, Was: wasEdit, Data: []byte("edited")},
		paths.Change{At: linked, Was: wasLinked, Data: []byte("written over")},
		paths.Change{At: gone, Was: wasGone, Remove: true},
		paths.Change{At: old, Was: wasOld, Move: &moved},
		paths.Change{At: both, Was: wasBoth, Move: &bothTo, Data: []byte("both changed")},
		paths.Change{At: fresh, Data: []byte("fresh")},
	)
}

// Wherever a process dies while it changes files, the next one finds all of the changes or none, and nothing temporary.
func TestKilledAtAnyStep(t *testing.T) {
	const steps = 7
	plans := map[string]bool{string(crash.FilesStaged): false, string(crash.FilesCommitted): true}
	for i := range steps {
		plans[string(crash.FileCommitted)+":"+string(rune('1'+i))] = false
	}
	for plan, done := range plans {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			dir := filepath.Join(root, "project")
			must(t, os.Mkdir(dir, 0o755))
			for _, name := range []string{"edit", "linked", "gone", "old", "both"} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte("what "+name+" held before"), 0o644))
			}
			must(t, os.Link(filepath.Join(dir, "linked"), filepath.Join(dir, "other name")))
			before := tree(t, dir)
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), crashRoot+"="+root, crash.Variable+"="+plan)
			out, _ := cmd.CombinedOutput()
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
				t.Fatalf("ended %v: %s", cmd.ProcessState, out)
			}
			if maps.Equal(tree(t, dir), before) {
				t.Error("it died and nothing was left: the test proves nothing")
			}
			paths.Recover(filepath.Join(root, "journal"), slog.New(slog.DiscardHandler))
			got := tree(t, dir)
			if !done && !maps.Equal(got, before) {
				t.Errorf("%v\nwas %v", got, before)
			}
			if done && (got["edit"] != `-rw-r--r-- "edited"` || got["linked"] != `-rw-r--r-- "written over"` || got["gone"] != "" || len(got) != 9) {
				t.Errorf("left %v", got)
			}
			if left, err := os.ReadDir(filepath.Join(root, "journal")); err != nil || len(left) > 0 {
				t.Errorf("the journal holds %v, %v", left, err)
			}
			if !done {
				must(t, changeAll(root))
			}
		})
	}
}
