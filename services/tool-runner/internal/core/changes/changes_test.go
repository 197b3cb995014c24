package changes_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/changes"
)

// place is a project with a session.
type place struct {
	t            *testing.T
	root, images string
	session      string
	began        time.Time
	kept         *changes.Images
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, root: t.TempDir(), images: t.TempDir(), session: ident.New()}
	p.open()
	return p
}

// open simulates the start of another process on the same folder.
func (p *place) open() {
	p.kept = changes.NewImages(p.images, changes.Limits{FileBytes: 64, SessionBytes: 200, KeptFor: time.Hour},
		slog.New(slog.DiscardHandler))
}

func (p *place) write(name, text string) {
	p.t.Helper()
	at := filepath.Join(p.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
		p.t.Fatal(err)
	}
}

// tool writes a file as an agent's file tool does.
func (p *place) tool(agent, name, text string) {
	p.t.Helper()
	p.keep(agent, name)
	p.write(name, text)
}

func (p *place) keep(agent, name string) {
	p.t.Helper()
	space, err := paths.Open(p.root, paths.Rules{})
	if err != nil {
		p.t.Fatal(err)
	}
	defer space.Close()
	at, err := space.Resolve("path", name)
	if err != nil {
		p.t.Fatal(err)
	}
	p.kept.Keep(contract.Caller{SessionID: p.session, Agent: agent}, at)
}

func (p *place) remove(name string) {
	p.t.Helper()
	if err := os.Remove(filepath.Join(p.root, name)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) git(args ...string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "git", append([]string{
		"-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "core.autocrlf=false",
	}, args...)...)
	cmd.Dir = p.root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("git %v: %v %s", args, err, out)
	}
}

func (p *place) list() (string, changes.Found) {
	p.t.Helper()
	found, err := p.kept.List(p.t.Context(), changes.Query{
		Root: p.root, Session: p.session, Since: p.began.UnixMilli(),
		LookupEnv: func(string) (string, bool) { return "", false },
		Sniff:     http.DetectContentType,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	var text []string
	for _, f := range found.Files {
		text = append(
			text, fmt.Sprintf(
				"%s %s %s %v +%d -%d%s", f.Path, f.Kind, f.Origin, f.Agents, f.Added, f.Removed, f.NoDiff,
			),
		)
	}
	return strings.Join(text, "\n"), found
}

// A file is compared with its content before the session's first change of it, by any agent and any process. An
// unchanged file, and one that was created and removed, is not listed.
func TestChangesByTools(t *testing.T) {
	p := newPlace(t)
	p.write("edited", "one\ntwo\n")
	p.write("back", "same\n")
	p.write("gone", "x\n")
	p.tool("primary", "edited", "one\n2\n")
	p.open()
	p.tool("primary.subagents.writer", "edited", "one\n2\n3\n")
	p.tool("primary", "back", "other\n")
	p.write("back", "same\n")
	p.tool("primary", "new/file", "n\n")
	p.tool("primary", "brief", "b\n")
	p.remove("brief")
	p.keep("primary", "gone")
	p.remove("gone")
	p.tool("primary", "binary", "a\x00b")
	p.write("large", strings.Repeat("x", 100))
	p.tool("primary", "large", "small")
	got, found := p.list()
	want := "binary created tool [primary] +0 -0binary\n" +
		"edited modified tool [primary primary.subagents.writer] +2 -1\n" +
		"gone deleted tool [primary] +0 -1\n" +
		"large modified tool [primary] +0 -0image_lost\n" +
		"new/file created tool [primary] +1 -0"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if diff := found.Files[1].Diff; !strings.Contains(diff, "-two\n+2\n+3\n") || found.Head != "" {
		t.Errorf("diff %q, head %q", diff, found.Head)
	}
	if other, _ := p.other(); other != "" {
		t.Errorf("another session: %s", other)
	}
}

func (p *place) other() (string, changes.Found) {
	q := *p
	q.session = ident.New()
	return q.list()
}

// A file changed by a shell since the session began is compared with HEAD and marked. Files that git ignores, that
// equal HEAD, or that changed before, are left out.
func TestChangesOutside(t *testing.T) {
	p := newPlace(t)
	p.git("init", "-q")
	p.write(".gitignore", "ignored\n")
	for _, name := range []string{"edited", "gone", "sub/gone", "same", "before", "tool", "unborn"} {
		p.write(name, name+"\n")
	}
	p.git("add", "-A")
	p.git("commit", "-qm", "first")
	p.write("before", "changed before\n")
	p.began = p.later()
	p.write("edited", "changed\n")
	p.write("same", "same\n")
	p.write("ignored", "i\n")
	p.write("made", "m\n")
	p.remove("gone")
	p.remove("sub/gone")
	p.tool("primary", "tool", "by a tool\n")
	got, found := p.list()
	want := "edited modified outside [] +1 -1\ngone deleted outside [] +0 -1\nmade created outside [] +1 -0\n" +
		"sub/gone deleted outside [] +0 -1\ntool modified tool [primary] +1 -1"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(found.Head) != 40 || found.Truncated {
		t.Errorf("head %q, truncated %v", found.Head, found.Truncated)
	}
}

// A file under conversion of line ends, $Id$ or encoding is compared as git would store it. A filter driver is never
// run: a file of git-lfs is compared with the hash in its pointer, and one of another driver is listed without a diff.
func TestChangesThroughFilters(t *testing.T) {
	p := newPlace(t)
	p.git("init", "-q")
	lfs := func(content string) string {
		return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n",
			sha256.Sum256([]byte(content)), len(content))
	}
	large := strings.Repeat("large file\n", 1<<19)
	for name, text := range map[string]string{
		"same.txt": "one\ntwo\n", "edited.txt": "one\ntwo\n", "auto": "one\n", "crlf-stored": "one\r\n",
		"id.c":    "$Id$\n",
		"wide.16": "one\ntwo\n", "driven.d": "stored\n", "same.bin": lfs("content"), "new.bin": lfs("content"),
		"same-large.bin": lfs(large), "pointer.bin": lfs("content"), "sub/deep.txt": "one\n",
	} {
		p.write(name, text)
	}
	p.git("add", "-A")
	p.git("commit", "-qm", "first")
	p.git("config", "core.autocrlf", "true")
	p.git("config", "filter.driver.clean", "touch "+filepath.Join(p.root, "ran")+"; cat")
	p.write(".git/info/attributes", "*.txt text\n*.16 text working-tree-encoding=UTF-16\n*.d filter=driver\n"+
		"*.bin filter=lfs -text\n*.c ident\n")
	p.began = p.later()
	for name, text := range map[string]string{
		"same.txt": "one\r\ntwo\r\n", "edited.txt": "one\r\n2\r\n", "auto": "one\r\n", "crlf-stored": "one\r\n2\r\n",
		"id.c": "$Id: 1234 $\n", "wide.16": "\xfe\xff\x00o\x00n\x00e\x00\n\x002\x00\n", "driven.d": "in the work\n",
		"made.d": "made\n", "same.bin": "content", "new.bin": "CONTENT", "same-large.bin": large,
		"pointer.bin": lfs("content"), "sub/deep.txt": "one\r\n",
	} {
		p.write(name, text)
	}
	got, found := p.list()
	want := "crlf-stored modified outside [] +1 -0\ndriven.d modified outside [] +0 -0filtered\n" +
		"edited.txt modified outside [] +1 -1\nmade.d created outside [] +1 -0\n" +
		"new.bin modified outside [] +0 -0filtered\nwide.16 modified outside [] +1 -1"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if diff := found.Files[len(found.Files)-1].Diff; !strings.Contains(diff, " one\n-two\n+2\n") {
		t.Errorf("diff %q", diff)
	}
	if _, err := os.Stat(filepath.Join(p.root, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the driver ran: %v", err)
	}
}

// later returns a time after every change so far, by the clock of the file system.
func (p *place) later() time.Time {
	p.t.Helper()
	probe := filepath.Join(p.t.TempDir(), "probe")
	at := func() time.Time {
		if err := os.WriteFile(probe, []byte("x"), 0o600); err != nil {
			p.t.Fatal(err)
		}
		info, err := os.Stat(probe)
		if err != nil {
			p.t.Fatal(err)
		}
		return info.ModTime()
	}
	first := at()
	for now := first; ; now = at() {
		if now.UnixMilli() > first.UnixMilli()+1 {
			return now
		}
	}
}

// A line cut off by kill -9, folders without a repository, and missing roots cause no error.
func TestChangesAfterTrouble(t *testing.T) {
	p := newPlace(t)
	p.tool("primary", "a", "a\n")
	index := filepath.Join(p.images, p.session, "index.jsonl")
	f, err := os.OpenFile(index, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("\n{\"path\":\"/half")
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	p.open()
	p.tool("primary", "b", "b\n")
	p.write(".git/HEAD", "ref: refs/heads/none\n")
	if got, _ := p.list(); got != "a created tool [primary] +1 -0\nb created tool [primary] +1 -0" {
		t.Error(got)
	}
	_, err = p.kept.List(t.Context(), changes.Query{Root: filepath.Join(p.root, "none"), Session: p.session})
	if !errors.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// A search that panics leaves its place to the next one.
func TestPanicsLeaveTheirPlace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.git("init", "-q")
	p.write("old", "old\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "first")
	p.write("new", "new\n")
	synctest.Test(t, func(t *testing.T) {
		p.open()
		for range 2 * changes.MaxReaders {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("there was no panic")
					}
				}()
				_, err := p.kept.List(t.Context(), changes.Query{
					Root: p.root, Session: p.session,
					LookupEnv: func(string) (string, bool) { return "", false },
					Sniff:     func([]byte) string { panic("a broken detector") },
				})
				t.Error(err)
			}()
		}
	})
}

// counted is a context that ends when it was asked a number of times.
type counted struct {
	context.Context
	left int
}

func (c *counted) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// A file of which the comparison is interrupted is not listed, since it may equal HEAD.
func TestInterruptedComparisons(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.git("init", "-q")
	p.write(".gitattributes", "* text\n")
	p.write("sub/edited", "one\n")
	p.write("sub/same", "same\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "first")
	p.write("sub/edited", "two\n")
	p.write("sub/same", "same\r\n")
	for left := 0; ; left++ {
		ctx := &counted{t.Context(), left}
		found, err := changes.CompareAll(t.Context(), ctx, p.root, "sub/edited", "sub/same")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found.Files {
			if f.Path != "sub/edited" || f.Added != 1 || f.Removed != 1 || f.NoDiff != "" {
				t.Errorf("after %d questions: %+v", left, f)
			}
		}
		if ended := ctx.left < 0; found.Truncated != ended {
			t.Errorf("after %d questions: truncated %v, ended %v", left, found.Truncated, ended)
		}
		if !found.Truncated {
			if len(found.Files) != 1 || left < 4 {
				t.Errorf("after %d questions: %+v", left, found.Files)
			}
			return
		}
	}
}
