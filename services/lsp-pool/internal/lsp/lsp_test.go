package lsp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/services/lsp-pool/internal/fakelsp"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk reads files from disk.
type disk struct{}

func (disk) Stat(path string) (lsp.Stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return lsp.Stamp{}, err
	}
	return lsp.Stamp{Size: info.Size(), Mtime: info.ModTime().UnixNano()}, nil
}

func (d disk) Read(path string, limit int) ([]byte, lsp.Stamp, error) {
	stamp, err := d.Stat(path)
	if err != nil {
		return nil, stamp, err
	}
	data, err := os.ReadFile(path)
	if len(data) > limit {
		err = errors.New("too large")
	}
	return data, stamp, err
}

// pipe joins two pipes to a connection.
type pipe struct {
	io.Reader
	io.WriteCloser
	closers []io.Closer
}

func (p pipe) Close() error {
	for _, c := range p.closers {
		_ = c.Close()
	}
	return nil
}

// rig is a client of a fake server, and a project.
type rig struct {
	*lsp.Client
	t      *testing.T
	root   string
	server *fakelsp.Server
}

func connect(t *testing.T, mode string) *rig {
	t.Helper()
	r := &rig{t: t, root: t.TempDir()}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r.server = fakelsp.New(outW, mode)
	var served sync.WaitGroup
	served.Go(func() {
		r.server.Serve(inR)
		outW.Close()
		inR.Close()
	})
	var err error
	r.Client, err = lsp.Connect(t.Context(), pipe{outR, inW, []io.Closer{outR, inW}}, lsp.Options{
		Files: disk{}, Root: r.root, Language: func(string) string { return "fake" }, MessageBytes: 8 << 20,
		DocumentBytes: 1 << 20, Documents: 3,
		Quiet: 40 * time.Millisecond, Settings: map[string]any{"a": map[string]any{"b": 1}},
		Status: strings.Contains(mode, fakelsp.Status),
		Shown:  func(string) bool { return strings.Contains(mode, fakelsp.Late) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		if !strings.Contains(mode, fakelsp.Deaf) {
			served.Wait()
		}
	})
	return r
}

func (r *rig) write(name, content string) string {
	r.t.Helper()
	path := filepath.Join(r.root, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// hover returns the server's text about a position.
func (r *rig) hover(path string, p lsp.Position) (*lsp.Hover, error) {
	r.t.Helper()
	doc, err := r.Open(path)
	if err != nil {
		return nil, err
	}
	var raw json.RawMessage
	if err := r.At(r.t.Context(), "textDocument/hover", doc, p, nil, &raw); err != nil {
		return nil, err
	}
	return lsp.ParseHover(raw)
}

// T-LSP-LIFE-03: the handshake is complete before all other messages, and names a single folder (T-LSP-LIFE-11).
func TestHandshake(t *testing.T) {
	t.Parallel()
	r := connect(t, "")
	if _, err := r.hover(r.write("a.fake", "def one\n"), lsp.Position{Character: 5}); err != nil {
		t.Fatal(err)
	}
	if seen := r.server.Seen(); !slices.Equal(seen[:2], []string{"initialize", "initialized"}) || !slices.Contains(seen,
		"textDocument/didOpen") {
		t.Errorf("the server saw %v", seen)
	}
	if got := r.server.Folders(); !slices.Equal(got, []string{r.root}) {
		t.Errorf("the folders are %v", got)
	}
}

// T-LSP-LIFE-13: every call ends, with its own answer or with an error, for every misbehaviour of a server.
func TestMisbehaviour(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]error{
		fakelsp.Garbage: lsp.ErrServer, fakelsp.Half: lsp.ErrServer, fakelsp.Huge: lsp.ErrServer,
		fakelsp.CrashOn: lsp.ErrServer,
		fakelsp.WrongID: nil, fakelsp.ReusedID: nil, fakelsp.ApplyEdit: nil, fakelsp.Flood: nil, fakelsp.Outside: nil,
		fakelsp.GivesUp: nil,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := connect(t, mode)
			path := r.write("a.fake", "def one\none\n")
			for range 2 {
				hover, err := r.hover(path, lsp.Position{Line: 1, Character: 1})
				if !errors.Is(err, want) {
					t.Fatalf("got %v, want %v", err, want)
				}
				if want == nil && (hover == nil || hover.Content != "one" || hover.Documentation != "The word one.") {
					t.Errorf("hover %+v", hover)
				}
			}
		})
	}
}

// After a call has failed with ErrServer, Done is closed.
func TestDoneAfterErrServer(t *testing.T) {
	t.Parallel()
	for range 200 {
		r := connect(t, fakelsp.CrashOn)
		if err := r.Call(t.Context(), "textDocument/hover", nil, nil); !errors.Is(err, lsp.ErrServer) {
			t.Fatalf("got %v", err)
		}
		select {
		case <-r.Done():
		default:
			t.Fatal("the connection looks usable")
		}
	}
}

// An edit that a server requests is refused.
func TestUnaskedEdit(t *testing.T) {
	t.Parallel()
	r := connect(t, fakelsp.ApplyEdit)
	path := r.write("a.fake", "one\n")
	for range 2 { // the answer to the first request precedes the second request
		if _, err := r.hover(path, lsp.Position{}); err != nil {
			t.Fatal(err)
		}
	}
	if refused := r.server.Refused(); len(refused) == 0 || !strings.Contains(refused[0], `"applied":false`) {
		t.Errorf("the client answered %v", refused)
	}
}

// A call to a server that never answers ends with its context.
func TestHang(t *testing.T) {
	t.Parallel()
	r := connect(t, fakelsp.Hang)
	doc, err := r.Open(r.write("a.fake", "one\n"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.At(ctx, "textDocument/hover", doc, lsp.Position{}, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// T-LSP-SYNC-02: diagnostics are those of the file on disk, for every way in which a server offers them.
func TestDiagnosticsAreFresh(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{
		"", fakelsp.Pull, fakelsp.NoVersion, fakelsp.Tsserver, fakelsp.UTF8 + "," + fakelsp.Pull,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := connect(t, mode)
			path := r.write("a.fake", "one\n")
			for i := range 20 {
				content := strings.Repeat("ERROR\n", i) + "one\n"
				r.write("a.fake", content)
				doc, list, err := r.Diagnose(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 && list[0].Range.Start.Line != 0 {
					t.Fatalf("round %d: the first error is at %v", i, list[0].Range)
				}
				if len(list) != i || doc.Text.String() != content {
					t.Fatalf("round %d: %d diagnostics of %q", i, len(list), doc.Text)
				}
			}
		})
	}
}

// If a server without versions does not publish for a content, Diagnose returns the last publication with ErrSilent.
func TestSilenceIsTold(t *testing.T) {
	t.Parallel()
	r := connect(t, fakelsp.Silent)
	path := r.write("a.fake", "ERROR\n")
	if _, list, err := r.Diagnose(t.Context(), path); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	r.write("a.fake", "mended\n")
	if _, list, err := r.Diagnose(t.Context(), path); !errors.Is(err, lsp.ErrSilent) || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// A document that was compared at a moment is not compared again for that moment: a change that came in between is seen
// by the next comparison. A document that was opened after the moment, or compared before it, is.
func TestAFileIsComparedOncePerMoment(t *testing.T) {
	t.Parallel()
	r := connect(t, fakelsp.Pull)
	path := r.write("a.fake", "one")
	if _, err := r.Open(path); err != nil {
		t.Fatal(err)
	}
	r.write("a.fake", "two of them")
	moment, err := r.Sync(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.write("a.fake", "three of them")
	for _, c := range []struct {
		moment lsp.Moment
		want   string
	}{{moment, "two of them"}, {moment + 2, "three of them"}, {moment, "three of them"}, {0, "three of them"}} {
		if doc, err := r.OpenAt(path, c.moment); err != nil || doc.Text.String() != c.want {
			t.Errorf("at %d of %d: got %q, %v, want %q", c.moment, moment, doc.Text, err, c.want)
		}
	}
	r.write("a.fake", "four")
	if doc, err := r.OpenAt(path, 0); err != nil || doc.Text.String() != "four" {
		t.Errorf("now: got %q, %v", doc.Text, err)
	}
	other := r.write("b.fake", "other")
	if doc, err := r.OpenAt(other, moment); err != nil || doc.Text.String() != "other" {
		t.Errorf("a file that was not open: got %q, %v", doc.Text, err)
	}
}

// If too many documents are open, the least recently used one is closed. A deleted document is closed when the client
// notices its removal.
func TestDocumentsAreBounded(t *testing.T) {
	t.Parallel()
	r := connect(t, fakelsp.Pull)
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := r.Open(r.write(name+".fake", name)); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.OpenDocuments(); n != 3 {
		t.Errorf("%d documents are open", n)
	}
	if err := os.Remove(filepath.Join(r.root, "d.fake")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Sync([]lsp.Change{{Path: filepath.Join(r.root, "d.fake"), Kind: lsp.Deleted}}); err != nil {
		t.Fatal(err)
	}
	if n := r.OpenDocuments(); n != 2 {
		t.Errorf("%d documents are open", n)
	}
	if _, err := r.hover(filepath.Join(r.root, "b.fake"), lsp.Position{}); err != nil {
		t.Fatal(err)
	}
	if seen := strings.Join(r.server.Seen(), " "); strings.Count(seen, "didClose") != 2 || !strings.Contains(seen,
		"didChangeWatchedFiles") {
		t.Errorf("the server saw %s", seen)
	}
}

// The change of an open document is sent only as its new content. The server is told about the changed file when the
// document is closed, because after that its answers are based on the file.
func TestChangesOfOpenDocuments(t *testing.T) {
	t.Parallel()
	r := connect(t, fakelsp.Pull)
	path := r.write("a.fake", "one")
	if _, err := r.Open(path); err != nil {
		t.Fatal(err)
	}
	r.write("a.fake", "other")
	if _, err := r.Sync([]lsp.Change{{Path: path, Kind: lsp.Changed}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "c", "d"} { // one more than may be open
		if _, err := r.Open(r.write(name+".fake", name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.hover(filepath.Join(r.root, "d.fake"), lsp.Position{}); err != nil { // after all of it
		t.Fatal(err)
	}
	var seen []string
	for _, method := range r.server.Seen() {
		if name := method[strings.LastIndex(method, "/")+1:]; strings.HasPrefix(name, "did") && name != "didOpen" {
			seen = append(seen, name)
		}
	}
	const want = "didChangeConfiguration didChange didClose didChangeWatchedFiles"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("the server was told %s, want %s", got, want)
	}
}

// A server's task is listed until its end.
func TestTasks(t *testing.T) {
	t.Parallel()
	r := connect(t, fakelsp.Busy+","+fakelsp.Pull)
	path := r.write("a.fake", "one\n")
	if _, err := r.hover(path, lsp.Position{}); err != nil {
		t.Fatal(err)
	}
	if tasks := r.Tasks(); len(tasks) != 1 || tasks[0] != (lsp.Task{Title: "Loading", Percent: 40}) {
		t.Fatalf("tasks %+v", tasks)
	}
	r.Settle(t.Context(), time.Nanosecond) // it waits no longer than the limit
	if err := r.Call(t.Context(), "test/done", nil, nil); err != nil {
		t.Fatal(err)
	}
	r.Settle(t.Context(), time.Hour)
	if tasks := r.Tasks(); len(tasks) != 0 {
		t.Errorf("tasks %+v", tasks)
	}
}

// A server that reports its status counts as loading until it is quiescent, and its warning is kept.
func TestStatus(t *testing.T) {
	t.Parallel()
	r := connect(t, fakelsp.Status+","+fakelsp.Pull)
	if tasks := r.Tasks(); len(tasks) != 1 || r.Warning() != "" {
		t.Fatalf("tasks %+v, warning %q", tasks, r.Warning())
	}
	if err := r.Call(t.Context(), "test/done", nil, nil); err != nil {
		t.Fatal(err)
	}
	r.Settle(t.Context(), time.Hour)
	if tasks := r.Tasks(); len(tasks) != 0 || r.Warning() != "no standard library" {
		t.Errorf("tasks %+v, warning %q", tasks, r.Warning())
	}
}

// Files that appear or change are opened for a server that notices them late. While it may not have noticed further
// ones, it counts as loading.
func TestLateServersAreShownFiles(t *testing.T) {
	t.Parallel()
	r := connect(t, fakelsp.Late)
	created := func(names ...string) (list []lsp.Change) {
		for _, name := range names {
			list = append(list, lsp.Change{Path: r.write(name, "def "+name+"\n"), Kind: lsp.Created})
		}
		return list
	}
	gone := lsp.Change{Path: filepath.Join(r.root, "gone.fake"), Kind: lsp.Changed}
	if _, err := r.Sync(append(created("a.fake"), lsp.Change{Path: gone.Path, Kind: lsp.Deleted})); err != nil {
		t.Fatal(err)
	}
	if r.OpenDocuments() != 1 || len(r.Tasks()) != 0 {
		t.Errorf("%d documents are open, tasks %v", r.OpenDocuments(), r.Tasks())
	}
	if _, err := r.Sync([]lsp.Change{gone}); err != nil || r.OpenDocuments() != 1 {
		t.Errorf("after the change of a missing file %d documents are open, %v", r.OpenDocuments(), err)
	}
	if _, err := r.Sync(created("b.fake", "c.fake")); err != nil {
		t.Fatal(err)
	}
	if tasks := r.Tasks(); len(tasks) != 1 || tasks[0].Title != "many files changed" {
		t.Errorf("tasks %v", tasks)
	}
	if r.Settle(t.Context(), time.Minute); len(r.Tasks()) != 0 {
		t.Errorf("tasks %v afterwards", r.Tasks())
	}
}

// A refusal of the server is returned with its sentence.
func TestRefusal(t *testing.T) {
	t.Parallel()
	r := connect(t, "")
	doc, err := r.Open(r.write("a.fake", "def one\n"))
	if err != nil {
		t.Fatal(err)
	}
	var refused *lsp.Refusal
	if err := r.At(t.Context(), "textDocument/prepareRename", doc, lsp.Position{}, nil, nil); !errors.As(err, &refused) ||
		refused.Message != "def cannot be renamed." {
		t.Errorf("got %v", err)
	}
}

// Shutdown ends the server.
func TestShutdown(t *testing.T) {
	t.Parallel()
	r := connect(t, "")
	r.Shutdown(t.Context())
	<-r.Done()
	if seen := r.server.Seen(); !slices.Equal(seen[len(seen)-2:], []string{"shutdown", "exit"}) {
		t.Errorf("the server saw %v", seen)
	}
}
