package lsppool_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	lsppool "kaged.dev/services/lsp-pool"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// pool is the service with a sandbox supervisor, and a project.
type pool struct {
	lsppoolv1.LSPPoolServiceClient
	t       *testing.T
	root    string
	opts    host.Options
	running *testkit.Running
}

// serve starts both, with text as the operator's configuration.
func serve(t *testing.T, text string) *pool {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	opts := testkit.Options(t)
	if opts.File, err = config.Parse("local.toml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	opts.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	h, err := host.New(opts, lsppool.Module, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{t: t, root: root, opts: opts}
	p.start(h)
	t.Cleanup(func() { testkit.Stop(t, p.running) })
	return p
}

func (p *pool) start(h *host.Host) {
	p.running = testkit.Start(p.t, h)
	p.LSPPoolServiceClient = lsppoolv1.NewLSPPoolServiceClient(h.Dial("lsp-pool"))
}

// restart stops both, and starts them on the same data.
func (p *pool) restart() {
	p.t.Helper()
	testkit.Stop(p.t, p.running)
	h, err := host.New(p.opts, lsppool.Module, sandboxsupervisor.Module)
	if err != nil {
		p.t.Fatal(err)
	}
	p.start(h)
}

// fake starts both with a fake server in a mode.
func fake(t *testing.T, mode, more string) *pool {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, fmt.Sprintf("[lsp.servers.fake]\ncommand = [%q]\nextensions = [\".fake\"]\nenv = {KAGED_FAKE_LSP = "+
		"%q}\n[services.lsp-pool]\n%s", exe, mode, more))
}

func (p *pool) write(name, content string) string {
	p.t.Helper()
	path := filepath.Join(p.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// ask makes a request about a file of the project.
func (p *pool) ask(
	action lsppoolv1.Action, path string, more func(*lsppoolv1.QueryRequest),
) (*lsppoolv1.QueryResponse, error) {
	req := &lsppoolv1.QueryRequest{
		View: &lsppoolv1.View{ProjectId: "p1", Root: p.root, SessionId: "s1"}, Action: action, Path: path,
		Files: []string{path},
	}
	if more != nil {
		more(req)
	}
	return p.Query(p.t.Context(), req)
}

// only returns the only server.
func (p *pool) only() *commonv1.RunningLanguageServer {
	p.t.Helper()
	list, err := p.ListServers(p.t.Context(), &lsppoolv1.ListServersRequest{})
	if err != nil || len(list.GetServers()) != 1 {
		p.t.Fatalf("servers %v, %v", list.GetServers(), err)
	}
	return list.GetServers()[0]
}

func events(res *lsppoolv1.QueryResponse) string {
	var names []string
	for _, r := range res.GetRecords() {
		names = append(names, strings.TrimPrefix(r.GetEventType(), "code.lsp."))
	}
	return strings.Join(names, " ")
}

// gone reports whether a process has ended.
func gone(pid int64) bool { return errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH) }
