package tools_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

type memoryResult struct {
	Results []struct {
		Path, Snippet string
		From, To      int
		Score         float64
	}
	TotalMatches int `json:"total_matches"`
	Files        int
	FilesSkipped int `json:"files_skipped"`
}

func (r memoryResult) paths() []string {
	var list []string
	for _, h := range r.Results {
		list = append(list, h.Path)
	}
	return list
}

// remember runs memory.search without a minimum score.
func (b *bench) remember(query string) memoryResult {
	b.t.Helper()
	var r memoryResult
	b.ok("memory.search", in{"query": query, "min_score": 0, "max_results": 50}, &r)
	return r
}

// memoryProject returns a bench with notes.
func memoryProject(t testing.TB, change ...func(*bench)) *bench {
	b := newBench(t, change...)
	for name, content := range map[string]string{
		"MEMORY.md":               "# Notes\n\n- how we deploy\n- who owns the gateway\n",
		"memory/deploy.md":        "# Deployment\n\nWe deploy on Tuesdays.\nNever on a Friday.\n",
		"memory/team/gateway.txt": "The gateway is owned by Amara.\r\nAsk before you deploy it.\r\n",
		"README.md":               "deploy deploy deploy\n",
	} {
		b.write(name, content)
	}
	return b
}

// memory.search returns passages of MEMORY.md and of the files below memory/, the best first, with path, lines, score
// and text. By default it returns at most six, with scores of at least 0.35; parameters change both numbers
// (T-T20-MSRCH-01, T-T20-MSRCH-02).
func TestMemorySearch(t *testing.T) {
	t.Parallel()
	b := memoryProject(t)
	for i := range 10 {
		b.write(fmt.Sprintf("memory/days/%02d.md", i),
			fmt.Sprintf("# Day %d\n\nThe scheduler skipped a backup. It was run by hand.\n", i))
	}
	for _, name := range []string{"memory.search", "memory_search"} {
		var r memoryResult
		if b.ok(name, in{"query": "skipped backups of the scheduler"}, &r); len(r.Results) != 6 || r.TotalMatches != 10 ||
			r.Files != 13 {
			t.Errorf("%s: %d results of %d in %d files, want 6 of 10 in 13", name, len(r.Results), r.TotalMatches, r.Files)
		}
		for i, h := range r.Results {
			if h.Score < 0.35 || h.Score > 1 || i > 0 && h.Score > r.Results[i-1].Score || h.From != 1 || h.To != 3 ||
				!strings.Contains(h.Snippet, "The scheduler skipped") {
				t.Errorf("%+v", h)
			}
		}
		if b.ok(name, in{"query": "skipped backups", "max_results": 3}, &r); len(r.Results) != 3 {
			t.Errorf("%d results, want 3", len(r.Results))
		}
		if b.ok(name, in{"query": "skipped backups", "min_score": 0.99}, &r); len(r.Results) != 0 || r.TotalMatches != 0 {
			t.Errorf("%d results above 0.99", len(r.Results))
		}
	}
	if got := b.remember("on which day do we deploy").paths(); len(got) == 0 || got[0] != "./memory/deploy.md" ||
		slices.Contains(got, "./README.md") {
		t.Errorf("found %v", got)
	}
	for _, params := range []in{{}, {"query": " "}, {"query": strings.Repeat("x ", 4096)}, {
		"query":       "x",
		"max_results": 51,
	}, {"query": "x", "min_score": 1.5}, {"query": "x", "max_results": 0}} {
		b.fails(fault.InvalidParams, "memory.search", params)
	}
	empty := newBench(t)
	if r := empty.remember("anything"); r.Results == nil || len(r.Results) != 0 || r.Files != 0 {
		t.Errorf("a project without notes: %+v", r)
	}
}

// memory.get reads lines of a note as file.read does, and reads no other file. A note that it has read can be edited
// (T-T20-MGET-01).
func TestMemoryGet(t *testing.T) {
	t.Parallel()
	b := memoryProject(t)
	b.write("memory/long.md", strings.Repeat("line\n", 20))
	var r struct {
		Path, Content string
		TotalLines    int `json:"total_lines"`
		Truncated     bool
		NextFrom      int `json:"next_from"`
	}
	b.ok("memory.get", in{"path": "memory/long.md", "from": 5, "lines": 3}, &r)
	if r.Path != "./memory/long.md" || r.Content != "5: line\n6: line\n7: line" || r.TotalLines != 20 || !r.Truncated ||
		r.NextFrom != 8 {
		t.Errorf("%+v", r)
	}
	for _, path := range []string{"MEMORY.md", "./memory/../MEMORY.md", filepath.Join(b.root, "MEMORY.md")} {
		if b.ok("memory_get", in{"path": path}, &r); !strings.Contains(r.Content, "3: - how we deploy") {
			t.Errorf("%s: %+v", path, r)
		}
	}
	b.ok("edit.text", in{"path": "MEMORY.md", "old_string": "how we deploy", "new_string": "when we deploy"}, nil)
	b.write("memory/image", "\x89PNG\r\n\x1a\n\x00")
	b.write("memories/x.md", "no note\n")
	b.write("sub/MEMORY.md", "no note\n")
	b.link("../README.md", "memory/leak.md")
	b.link("/etc/passwd", "memory/passwd")
	for path, want := range map[string]fault.Code{
		"README.md": fault.InvalidParams, "memory/../README.md": fault.InvalidParams, "memories/x.md": fault.InvalidParams,
		"sub/MEMORY.md":  fault.InvalidParams,
		"memory/leak.md": fault.InvalidParams, "memory/passwd": fault.InvalidParams, "/etc/passwd": fault.InvalidParams,
		"":       fault.InvalidParams,
		"memory": fault.InvalidParams, "memory/team": fault.FileNotRegular, "memory/none.md": fault.FileNotFound,
		"memory/image": fault.FileNotText,
	} {
		b.fails(want, "memory.get", in{"path": path})
	}
}

// Each answer reflects the present files: new, moved and removed files, and changed ones, even with an unchanged size
// (freshness by time and size).
func TestMemoryIsFresh(t *testing.T) {
	t.Parallel()
	b := memoryProject(t)
	for i, word := range []string{"albatross", "blackbird", "cormorant"} {
		b.write("memory/bird.md", "The mascot is the "+word+".\n")
		if r := b.remember("mascot"); len(r.Results) != 1 || !strings.Contains(r.Results[0].Snippet, word) {
			t.Errorf("round %d: %+v, want %s", i, r.Results, word)
		}
	}
	if err := os.Rename(filepath.Join(b.root, "memory/bird.md"), filepath.Join(b.root,
		"memory/team/bird.md")); err != nil {
		t.Fatal(err)
	}
	if got := b.remember("mascot").paths(); !slices.Equal(got, []string{"./memory/team/bird.md"}) {
		t.Errorf("after a move: %v", got)
	}
	if err := os.RemoveAll(filepath.Join(b.root, "memory")); err != nil {
		t.Fatal(err)
	}
	if r := b.remember("mascot"); len(r.Results) != 0 || r.Files != 1 {
		t.Errorf("after the removal: %+v", r)
	}
}

// A note that was indexed long after its last change is read again only when its time or its size differs.
func TestMemoryReadsChangedFilesOnly(t *testing.T) {
	t.Parallel()
	b := memoryProject(t)
	path := b.write("memory/bird.md", "The mascot is the albatross.\n")
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(when time.Time) {
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	at(old)
	b.remember("mascot")
	b.write("memory/bird.md", "The mascot is the blackbird.\n")
	at(old)
	if r := b.remember("mascot"); !strings.Contains(r.Results[0].Snippet, "albatross") {
		t.Errorf("a file of the same time and size was read again: %+v", r.Results)
	}
	at(old.Add(time.Second))
	if r := b.remember("mascot"); !strings.Contains(r.Results[0].Snippet, "blackbird") {
		t.Errorf("a file of another time was not read again: %+v", r.Results)
	}
}

// Files that a cage hides or the operator denies are in no hit and change no score, number or rank. The answers equal
// those of a project without these files, even between calls of callers that may read them (T-PERM-FILTER).
func TestMemoryOfACagedCaller(t *testing.T) {
	t.Parallel()
	deny := func(b *bench) { b.rules.Denied = []string{"memory/denied", "memory/**/*.key"} }
	b, without := newBench(t, deny), newBench(t, deny)
	for i := range 30 {
		text := fmt.Sprintf("# Note %d\n\nThe %s of the gateway rotates tokens every %d days.\n", i, []string{
			"keeper",
			"owner", "warden",
		}[i%3], i)
		name := fmt.Sprintf("memory/open/%02d.md", i)
		switch i % 3 {
		case 1:
			name = fmt.Sprintf("memory/hidden/%02d.md", i)
		case 2:
			name = []string{fmt.Sprintf("memory/denied/%02d.md", i), fmt.Sprintf("memory/open/%02d.key", i)}[i%2]
		}
		b.write(name, text)
		if i%3 == 0 {
			without.write(name, text)
		}
	}
	b.write("MEMORY.md", "rotates rotates rotates warden gateway secret\n")
	policy := &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./memory/open"}}}
	for _, query := range []string{"gateway tokens", "warden", "who rotates the keeper", "secret", "rotating gatewy"} {
		b.from.Agent, b.from.Cage = "primary", nil
		if r := b.remember(query); query != "warden" && len(r.Results) == 0 || r.Files != 21 || slices.ContainsFunc(r.paths(),
			func(p string) bool {
				return strings.HasPrefix(p, "./memory/denied") || strings.HasSuffix(p, ".key")
			}) {
			t.Errorf("%s, uncaged: %d files, %v", query, r.Files, r.paths())
		}
		b.from.Agent, b.from.Cage = "primary.subagents.x", policy
		if d := cmp.Diff(without.remember(query), b.remember(query)); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
	for _, path := range []string{"memory/hidden/01.md", "MEMORY.md", "memory/denied/02.md", "memory/open/05.key"} {
		b.fails(fault.CapabilityDenied, "memory.get", in{"path": path})
	}
	b.from.Cage = &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./memory/open/00.md"}}}
	if r := b.remember("gateway"); r.Files != 1 || len(r.Results) != 1 {
		t.Errorf("a cage with one note: %+v", r)
	}
}

// Links, pipes, sockets, and binary, hidden, huge and unreadable files are no notes. They do not stop a search, and
// links are not followed.
func TestMemoryInAHostileTree(t *testing.T) {
	t.Parallel()
	b := memoryProject(t)
	outside := filepath.Join(filepath.Dir(b.root), "outside")
	if err := errors.Join(os.MkdirAll(outside, 0o755), os.WriteFile(filepath.Join(outside, "secret.md"),
		[]byte("zebra outside\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b.write("private.md", "zebra elsewhere\n")
	for _, l := range [][2]string{{outside, "memory/out"}, {outside + "/secret.md", "memory/secret.md"}, {
		"../private.md",
		"memory/private.md",
	}, {"..", "memory/up"}, {".", "memory/self"}, {"gone", "memory/dangling"}} {
		b.link(l[0], l[1])
	}
	if err := unix.Mkfifo(filepath.Join(b.root, "memory/pipe.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(b.root, "memory/socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	b.write("memory/.git/zebra.md", "zebra\n")
	b.write("memory/.hidden.md", "zebra\n")
	b.write("memory/binary", "zebra\x00zebra\n")
	b.write("memory/huge.md", strings.Repeat("zebra\n", 20_000))
	b.write("memory/latin.md", "caf\xe9 giraffe\n")
	var utf []byte
	for _, u := range append([]uint16{0xFEFF}, utf16.Encode([]rune("okapi\r\n"))...) {
		utf = append(utf, byte(u), byte(u>>8))
	}
	b.write("memory/utf16.md", string(utf))
	b.write("memory/\xff\xfe.md", "quagga\n")
	b.write("memory/"+strings.Repeat("d/", 40)+"deep.md", "zebra\n")
	r := b.remember("zebra zebra.md secret")
	if len(r.Results) != 0 || r.Files != 6 || r.FilesSkipped != 2 {
		t.Errorf("%d files, %d skipped: %+v", r.Files, r.FilesSkipped, r.Results)
	}
	for query, want := range map[string]string{
		"giraffe": "./memory/latin.md", "okapi": "./memory/utf16.md",
		"quagga": "./memory/\uFFFD\uFFFD.md",
	} {
		if got := b.remember(query).paths(); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q", query, got)
		}
	}
	for _, whole := range []string{"memory", "MEMORY.md"} {
		other := newBench(t)
		other.write("elsewhere/a.md", "zebra\n")
		other.link(map[string]string{"memory": "elsewhere", "MEMORY.md": "elsewhere/a.md"}[whole], whole)
		if r := other.remember("zebra"); len(r.Results) != 0 || r.Files != 0 {
			t.Errorf("%s is a link: %+v", whole, r)
		}
		other.fails(fault.InvalidParams, "memory.get", in{"path": map[string]string{
			"memory":    "memory/a.md",
			"MEMORY.md": "MEMORY.md",
		}[whole]})
	}
}

// During a search a folder becomes a link to the outside, and a note becomes a pipe or a device: no text from outside
// is returned, and no call waits.
func TestMemoryThatTurnsIntoSomethingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outside := filepath.Join(filepath.Dir(b.root), "outside")
	if err := errors.Join(os.MkdirAll(outside, 0o755), os.WriteFile(filepath.Join(outside, "a.md"),
		[]byte("zebra secret\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b.write("memory/dir/a.md", "zebra inside\n")
	b.link(outside, "memory/link")
	spare := filepath.Join(b.root, "spare")
	turn := 0
	disturb := func() error {
		turn++
		var err error
		switch turn % 3 {
		case 0:
			err = unix.Mkfifo(spare, 0o644)
		case 1:
			err = os.Symlink("/dev/zero", spare)
		case 2:
			err = os.WriteFile(spare, []byte("zebra file\n"), 0o644)
		}
		return errors.Join(err, os.Rename(spare, filepath.Join(b.root, "memory/b.md")),
			unix.Renameat2(unix.AT_FDCWD, filepath.Join(b.root, "memory/dir"), unix.AT_FDCWD, filepath.Join(b.root,
				"memory/link"), unix.RENAME_EXCHANGE))
	}
	during(t, disturb, func() {
		for range 300 {
			for _, h := range b.remember("zebra").Results {
				if strings.Contains(h.Snippet, "secret") {
					t.Fatalf("quoted from outside: %+v", h)
				}
			}
		}
	})
}

// With an embedder, a passage is found by its meaning although it has no word in common with the query. A changed note
// is embedded again, each other note once. Without vectors the words alone determine the rank.
func TestMemoryByMeaning(t *testing.T) {
	t.Parallel()
	said := &meanings{}
	b := newBench(t, func(b *bench) { b.embed = said })
	past := time.Now().Add(-time.Hour) // a file with a recent change is read again
	for name, text := range map[string]string{
		"memory/database.md": "# Database\n\nThe primary is restarted by systemctl.\n",
		"memory/style.md":    "# Style\n\nErrors are sentences.\n",
	} {
		if err := os.Chtimes(b.write(name, text), past, past); err != nil {
			t.Fatal(err)
		}
	}
	r := b.remember("reboot postgres")
	if got := r.paths(); len(got) != 1 || got[0] != "./memory/database.md" || r.Results[0].Score < 0.9 {
		t.Errorf("by meaning: %+v", r.Results)
	}
	if b.remember("reboot postgres"); said.texts.Load() != 4 {
		t.Errorf("%d texts were embedded, want each note once and each question", said.texts.Load())
	}
	b.write("memory/database.md", "# Tables\n\nThere are nine.\n")
	if r := b.remember("reboot postgres"); len(r.Results) != 0 {
		t.Errorf("after a change: %+v", r.Results)
	}
	said.away.Store(true)
	b.write("memory/style.md", "# Style\n\nErrors are whole sentences.\n")
	if got := b.remember("errors as whole sentences").paths(); len(got) != 1 || got[0] != "./memory/style.md" {
		t.Errorf("without vectors words rank: %v", got)
	}
}

// meanings is an embedder that knows one meaning: to start a database again.
type meanings struct {
	texts atomic.Int32
	away  atomic.Bool
}

// Embed implements memories.Embedder.
func (m *meanings) Embed(_ context.Context, texts []string) (vectors [][]float32, err error) {
	if m.away.Load() {
		return nil, fault.New(fault.Unavailable, "The embedder is away.")
	}
	for _, text := range texts {
		m.texts.Add(1)
		v := []float32{0, 2}
		if strings.Contains(text, "restarted") || strings.Contains(text, "reboot") {
			v = []float32{2, 0}
		}
		vectors = append(vectors, v)
	}
	return vectors, nil
}

// The number of files, their total size and the number of kept indexes are limited. Omitted files are counted, and
// dropped indexes are built again.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) {
		b.limits.Memory.Notes.Files, b.limits.Memory.Notes.TotalBytes, b.limits.Memory.Notes.KeptBytes = 20, 10_000, 1
		b.limits.Memory.SnippetRunes = 10
	})
	for i := range 30 {
		b.write(fmt.Sprintf("memory/%02d.md", i), "zebra\n")
	}
	for range 2 {
		if r := b.remember("zebra"); r.Files != 20 || r.FilesSkipped != 10 || len(r.Results) != 20 ||
			r.Results[19].Path != "./memory/19.md" {
			t.Errorf("%d files, %d skipped, %v", r.Files, r.FilesSkipped, r.paths())
		}
	}
	b.write("memory/00.md", "okapi "+strings.Repeat("é", 3000)+"\n")
	b.write("memory/01.md", strings.Repeat("zebra ", 1000))
	if r := b.remember("okapi zebra"); r.Files != 20 || r.FilesSkipped != 10 || slices.Contains(r.paths(),
		"./memory/01.md") {
		t.Errorf("%d files, %d skipped, %v", r.Files, r.FilesSkipped, r.paths())
	}
	if r := b.remember("okapi"); r.Results[0].Snippet != "okapi éééé[truncated]" {
		t.Errorf("%q", r.Results[0].Snippet)
	}
	other := &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./memory"}}}
	for range 3 { // two views; one of them stays in memory
		b.from.Cage = other
		caged := b.remember("zebra")
		b.from.Cage = nil
		if d := cmp.Diff(b.remember("zebra"), caged); d != "" {
			t.Error(d)
		}
	}
}

// Simultaneous callers with different cages get answers from their own views, even while notes change.
func TestMemoryForManyCallers(t *testing.T) {
	t.Parallel()
	b := memoryProject(t)
	for i := range 50 {
		b.write(fmt.Sprintf("memory/%s/%02d.md", []string{"open", "hidden"}[i%2], i), fmt.Sprintf("zebra %d\n", i))
	}
	stop := make(chan struct{})
	var writer, callers sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if err := os.WriteFile(filepath.Join(b.root, "memory/open/00.md"), fmt.Appendf(nil, "zebra %d changed\n", i),
					0o644); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for i := range 8 {
		caller := &bench{t: t, catalogue: b.catalogue, dispatcher: b.dispatcher, from: b.from}
		if i%2 == 1 {
			caller.from.Agent, caller.from.Cage = "primary.subagents.x", &dsl.Cage{FS: []dsl.Mount{{
				Mode: "ro",
				Path: "./memory/open",
			}}}
		}
		callers.Go(func() {
			for range 20 {
				var r memoryResult
				caller.ok("memory.search", in{"query": "zebra", "max_results": 50, "min_score": 0}, &r)
				hidden := slices.ContainsFunc(r.paths(), func(p string) bool { return strings.HasPrefix(p, "./memory/hidden") })
				if caged := caller.from.Cage != nil; caged == hidden || len(r.Results) < 24 {
					t.Errorf("caged %v: %d results, hidden ones %v", caged, len(r.Results), hidden)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	writer.Wait()
}

// In a cage that grants a part of the project without notes a search finds no hits; in a cage that grants no part of it
// a search is denied.
func TestMemoryOutsideTheCage(t *testing.T) {
	t.Parallel()
	b := memoryProject(t)
	b.write("src/a.md", "deploy\n")
	b.from.Agent, b.from.Cage = "primary.subagents.x", &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./src"}}}
	if r := b.remember("deploy"); len(r.Results) != 0 || r.Files != 0 || r.FilesSkipped != 0 {
		t.Errorf("%+v", r)
	}
	b.from.Cage = &dsl.Cage{}
	b.fails(fault.CapabilityDenied, "memory.search", in{"query": "deploy"})
}
