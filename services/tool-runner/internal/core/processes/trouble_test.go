package processes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/services/tool-runner/internal/core/processes"
)

// The table keeps a limited number of ended processes and all running ones. A limited number of sessions is in memory;
// the others are read from their files. Old files are removed.
func TestBounds(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	table := open(h, dir, func(o *processes.Options) { o.Sessions = 2 })
	running := begin(t, table, "first")
	var ended []string
	for i := range 6 {
		id := begin(t, table, fmt.Sprint(i))
		h.exits(id, contract.Exit{})
		status(t, table, id)
		ended = append(ended, id)
	}
	for _, session := range []string{"s1", "s2", "s3", "../../x", ""} {
		e := entry("c")
		e.Session = session
		if _, err := table.Start(t.Context(), e, sandbox.Spec{Owner: contract.Owner{SessionID: session}}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := table.List(t.Context(), "s", "primary")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list {
		got = append(got, p.ID)
	}
	if want := append([]string{running}, ended[3:]...); !slices.Equal(got, want) {
		t.Errorf("remembered are %v, want %v", got, want)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 6 {
		t.Fatalf("files: %v, %v", files, err)
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, f := range files[:2] {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "new-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open(h, dir)
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 5 {
		t.Errorf("left are %v", left)
	}
	if info, err := os.Stat(files[2]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

// An unreadable file counts as missing, and so does an unwritable folder; agents continue to work.
func TestBrokenStore(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	id := begin(t, open(h, dir), "c")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{
		"", "{", string(whole[:len(whole)/2]), "null", "[]", `{"session":"other"}`, `{"session":"s","processes":[null]}`,
		`{"session":"s","processes":[{"id":7}]}`,
	} {
		if err := os.WriteFile(files[0], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		table := open(h, dir)
		if list, err := table.List(t.Context(), "s", "primary"); err != nil || len(list) > 0 {
			t.Errorf("%q: %v, %v", content, list, err)
		}
		begin(t, table, "d")
	}
	if err := os.WriteFile(files[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := status(t, open(h, dir), id); p.Status != processes.Running || p.Command != "do c" {
		t.Errorf("the whole file: %+v", p)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	table := open(h, filepath.Join(blocked, "below"))
	if p := status(t, table, begin(t, table, "c")); p.Status != processes.Running {
		t.Errorf("%+v", p)
	}
}

// Concurrent use of a session loses no process, even if tables are dropped from memory at the same time.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	table := open(h, dir, func(o *processes.Options) { o.Sessions, o.Ended = 1, 1000 })
	var all sync.WaitGroup
	var mu sync.Mutex
	made := map[string]string{}
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				e := entry(fmt.Sprint(i, ".", j))
				e.Session = fmt.Sprint("s", j%3)
				p, err := table.Start(t.Context(), e, sandbox.Spec{Owner: contract.Owner{SessionID: e.Session}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				made[p.ID] = e.Session
				mu.Unlock()
				h.prints(p.ID, "x", 10)
				if _, err := table.Poll(t.Context(), e.Session, "primary", p.ID, 10, 0, func(string) {}); err != nil {
					t.Error(err)
				}
				if _, err := table.List(t.Context(), e.Session, "primary"); err != nil {
					t.Error(err)
				}
				if _, err := table.End(t.Context(), e.Session, "primary", p.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := map[string]string{}
	for i := range 3 {
		session := fmt.Sprint("s", i)
		list, err := open(h, dir).List(t.Context(), session, "primary")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			got[p.ID] = session
			if p.Status != processes.Exited {
				t.Errorf("%+v", p)
			}
		}
	}
	if !maps.Equal(got, made) {
		t.Errorf("%d processes of %d are known", len(got), len(made))
	}
}

// The table asks for the end of a session once and then knows the ends of its processes. A session without processes
// needs no request.
func TestEndSession(t *testing.T) {
	t.Parallel()
	h := newHost()
	table := open(h, "")
	asked := 0
	end := func(context.Context) error {
		asked++
		for id := range h.processes {
			h.exits(id, contract.Exit{Code: 137, Reason: contract.ReasonOwnerEnded})
		}
		return nil
	}
	if _, err := table.EndSession(t.Context(), "s", end); err != nil || asked != 1 || h.listed != 0 {
		t.Errorf("without processes: %v, asked %d, listed %d", err, asked, h.listed)
	}
	id := begin(t, table, "c")
	if _, err := table.EndSession(t.Context(), "s", end); err != nil {
		t.Error(err)
	}
	h.set(func() { clear(h.processes) })
	if p := status(t, table, id); p.Status != processes.Exited || p.Reason != processes.SessionEnded {
		t.Errorf("%+v", p)
	}
	failed := errors.New("no")
	if _, err := table.EndSession(t.Context(), "s", func(context.Context) error { return failed }); !errors.Is(
		err,
		failed,
	) {
		t.Errorf("EndSession says %v", err)
	}
}
