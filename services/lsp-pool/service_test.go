package lsppool_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	lsppool "kaged.dev/services/lsp-pool"
	"kaged.dev/services/lsp-pool/internal/fakelsp"
	"kaged.dev/services/sandbox-supervisor/shim"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

func TestMain(m *testing.M) {
	if shim.Invoked() {
		shim.Main()
	}
	if mode, ok := os.LookupEnv("KAGED_FAKE_LSP"); ok {
		fmt.Fprintln(os.Stderr, "fake server of mode", mode)
		fakelsp.New(os.Stdout, mode).Serve(os.Stdin)
		return
	}
	// The servers that scripts/setup.sh test installs.
	servers, err := filepath.Abs("../../bin/servers")
	if err == nil {
		err = os.Setenv("PATH", servers+"/node_modules/.bin:"+servers+"/rust-analyzer/bin:"+os.Getenv("PATH"))
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// The service follows the rules for every service.
func TestLifecycle(t *testing.T) {
	testkit.Lifecycle(t, lsppool.Module, func() host.Options { return testkit.Options(t) })
}

// A limit that would make every query fail is refused with its key.
func TestConfig(t *testing.T) {
	t.Parallel()
	if err := lsppool.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for key, change := range map[string]func(*lsppool.Config){
		"idle": func(c *lsppool.Config) { c.Idle = 0 }, "restarts": func(c *lsppool.Config) { c.Restarts = 0 },
		"message_bytes": func(c *lsppool.Config) { c.MessageBytes = -1 },
		"parallel":      func(c *lsppool.Config) { c.Parallel = 0 },
	} {
		c := lsppool.DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// T-LSP-LIFE-01, -07, -08, T-AUD-04: the first query starts a server, later queries share it, and the server ends with
// the service.
func TestOneServerForAll(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Fork, "")
	path := p.write("a.fake", "def one\none\nERROR\n")
	var asking sync.WaitGroup
	var mu sync.Mutex
	var spawned int
	for i := range 20 {
		asking.Go(func() {
			res, err := p.ask(lsppoolv1.Action_ACTION_DIAGNOSTICS, path,
				func(r *lsppoolv1.QueryRequest) { r.View.SessionId = strconv.Itoa(i) })
			if err != nil || len(res.GetDiagnostics()) != 1 || res.GetDiagnostics()[0].GetCode() != "7" {
				t.Errorf("%v, %v", res, err)
			}
			mu.Lock()
			spawned += strings.Count(events(res), "server_spawned")
			mu.Unlock()
		})
	}
	asking.Wait()
	s := p.only()
	if s.GetState() != "ready" || s.GetLang() != "fake" || s.GetOpenFiles() != 1 || spawned != 1 || gone(s.GetPid()) {
		t.Errorf("server %v, spawned %d times", s, spawned)
	}
	testkit.Stop(t, p.running)
	if !gone(s.GetPid()) {
		t.Error("the server outlived the service")
	}
}

// T-FM-03, T-AUD-04, -05: a crashed server is started again, at most three times in a session. Each session has its own
// count.
func TestCrashes(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Pull, "")
	path := p.write("a.fake", "one\n")
	hover := func(session string) (*lsppoolv1.QueryResponse, error) {
		return p.ask(lsppoolv1.Action_ACTION_HOVER, path, func(r *lsppoolv1.QueryRequest) { r.View.SessionId = session })
	}
	for i := range 4 {
		res, err := hover("s1")
		if err != nil {
			t.Fatalf("after %d crashes: %v", i, err)
		}
		if want := []string{"server_spawned", "server_crashed server_spawned"}[min(i, 1)]; events(res) != want {
			t.Errorf("after %d crashes the records are %q", i, events(res))
		}
		for _, r := range res.GetRecords() {
			got := r.GetPayload().AsMap()
			told := got["command"] == p.only().GetCommand()[0]
			if r.GetEventType() == "code.lsp.server_crashed" {
				told = got["restart_count"] == float64(i) && got["exit_code"] != nil
			}
			if !told || got["language"] != "fake" || got["project_id"] != "p1" {
				t.Errorf("after %d crashes %s has %v", i, r.GetEventType(), got)
			}
		}
		if state := res.GetCompleteness().GetState(); i > 0 && state != "restarted" || i == 0 && state != "ready" {
			t.Errorf("after %d crashes the answer is %q", i, state)
		}
		kill(t, p.only().GetPid())
	}
	_, err := hover("s1")
	if !errors.Is(fault.From(err), fault.LspServerUnavailable) {
		t.Fatalf("after 4 crashes: %v", err)
	}
	if s := p.only(); s.GetState() != "failed" || s.GetRestartCount() != 3 {
		t.Errorf("server %v", s)
	}
	if _, err := hover("s2"); err != nil {
		t.Errorf("another session: %v", err)
	}
	kill(t, p.only().GetPid())
	if _, err := p.StopServers(t.Context(), &lsppoolv1.StopServersRequest{Root: p.root}); err != nil {
		t.Fatal(err)
	}
	if _, err := hover("s1"); err != nil {
		t.Errorf("after a reload: %v", err)
	}
}

// kill kills a process and waits until it has ended.
func kill(t *testing.T, pid int64) {
	t.Helper()
	over := watch(t, pid)
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	over()
}

// watch returns a function that waits for the end of a process.
func watch(t *testing.T, pid int64) func() {
	t.Helper()
	fd, err := unix.PidfdOpen(int(pid), 0)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		defer unix.Close(fd)
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}
}

// T-FM-04, T-LSP-DIAG-06: a server that does not answer is ended, and the next query starts another.
func TestHang(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Hang, "query_timeout = \"300ms\"\n")
	path := p.write("a.fake", "one\n")
	_, err := p.ask(lsppoolv1.Action_ACTION_HOVER, path, nil)
	if !errors.Is(fault.From(err), fault.Timeout) {
		t.Fatalf("got %v", err)
	}
	first := p.only()
	if first.GetState() != "stopped" {
		t.Errorf("server %v", first)
	}
	res, err := p.ask(lsppoolv1.Action_ACTION_CAPABILITIES, path, nil) // this query needs no answer of the server
	if err != nil || events(res) != "server_crashed server_spawned" || gone(p.only().GetPid()) {
		t.Errorf("records %q of %v, %v", events(res), p.only(), err)
	}
	if got := p.watchRecords().next().GetRecord().GetEventType(); got != "code.lsp.server_spawned" {
		t.Errorf("the record of the failed query is %s", got)
	}
}

// If a server crashes during each query, the query is tried twice, and the error has the server's log.
func TestCrashOverTheQuestion(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{fakelsp.CrashOn, fakelsp.Garbage, fakelsp.Half, fakelsp.Huge} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := fake(t, mode, "")
			_, err := p.ask(lsppoolv1.Action_ACTION_HOVER, p.write("a.fake", "one\n"), nil)
			if f := fault.From(err); !errors.Is(f, fault.LspServerUnavailable) ||
				!strings.Contains(fmt.Sprint(f.Details["log"]), "fake server") {
				t.Errorf("got %v with %v", err, f.Details)
			}
		})
	}
}

// T-LSP-LIFE-06, T-AUD-06: an idle server is stopped, even one that ignores the request to exit, with a record. The
// next query starts another.
func TestIdle(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Deaf, "idle = \"1ms\"\nstop_grace = \"10ms\"\n")
	path := p.write("a.fake", "one\n")
	if _, err := p.ask(lsppoolv1.Action_ACTION_HOVER, path, nil); err != nil {
		t.Fatal(err)
	}
	watch(t, p.only().GetPid())()
	p.watchRecords().stopped("idle_timeout")
	res, err := p.ask(lsppoolv1.Action_ACTION_HOVER, path, nil)
	if err != nil || events(res) != "server_spawned" {
		t.Errorf("records %v, %v", res.GetRecords(), err)
	}
}

// When the answer to a stop arrives, the server has ended with the processes that it has started, whether it exited on
// request or not.
func TestStoppedIsGone(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{fakelsp.Fork, fakelsp.Deaf + "," + fakelsp.Fork} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := fake(t, mode, "stop_grace = \"10ms\"\n")
			if _, err := p.ask(lsppoolv1.Action_ACTION_HOVER, p.write("a.fake", "one\n"), nil); err != nil {
				t.Fatal(err)
			}
			if n := len(inFolder(t, p.root)); n != 2 {
				t.Fatalf("%d processes run, want the server and its child", n)
			}
			if _, err := p.StopServers(t.Context(), &lsppoolv1.StopServersRequest{ProjectId: "p1"}); err != nil {
				t.Fatal(err)
			}
			if left := inFolder(t, p.root); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

// inFolder returns the processes with a working folder in dir.
func inFolder(t *testing.T, dir string) (found []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && at == dir {
			found = append(found, filepath.Dir(link))
		}
	}
	return found
}

// T-FM-02, T-LSP-CFG-08: the error for a missing server has the command to install it.
func TestMissingServer(t *testing.T) {
	t.Parallel()
	p := serve(t, "[lsp.servers.go]\ncommand = [\"/nowhere/gopls\"]\n")
	_, err := p.ask(lsppoolv1.Action_ACTION_HOVER, p.write("a.go", "package a\n"), nil)
	if f := fault.From(err); !errors.Is(f, fault.LspServerNotFound) || f.Details["command"] != "/nowhere/gopls" ||
		!strings.Contains(fmt.Sprint(f.Details["install"]), "go install") {
		t.Errorf("got %v with %v", err, f.Details)
	}
	_, err = p.ask(lsppoolv1.Action_ACTION_HOVER, p.write("a.unknown", ""), nil)
	if !errors.Is(fault.From(err), fault.InvalidParams) {
		t.Errorf("a file of no language: %v", err)
	}
}

// A program that ends before the handshake is named with its exit code and the command that installs it.
func TestIncompleteInstallation(t *testing.T) {
	t.Parallel()
	p := serve(t, "[lsp.servers.rust]\ncommand = [\"/bin/sh\", \"-c\", \"echo unknown binary >&2; exit 1\"]\n")
	_, err := p.ask(lsppoolv1.Action_ACTION_HOVER, p.write("a.rs", "fn a() {}\n"), nil)
	f := fault.From(err)
	const want = "The language server for rust, /bin/sh, could not be started: it ended with exit code 1. Its " +
		"installation may be incomplete; to install it: rustup component add rust-analyzer."
	if !errors.Is(f, fault.LspServerUnavailable) || f.Msg != want || f.Details["log"] != "unknown binary\n" {
		t.Errorf("got %v with %v", err, f.Details)
	}
}

// A position after the end of the file or of its line is refused before the server sees it, with numbers as callers
// count them. The end of the last line is in the file.
func TestPlacesOutsideTheFile(t *testing.T) {
	t.Parallel()
	p := fake(t, "", "")
	path := p.write("a.fake", "def one\n\U0001F600 one\n")
	ask := func(action lsppoolv1.Action, line, character uint32) *fault.Error {
		_, err := p.ask(action, path, func(r *lsppoolv1.QueryRequest) {
			r.Line, r.Character, r.NewName = line, character, "two"
		})
		return fault.From(err)
	}
	for _, action := range []lsppoolv1.Action{
		lsppoolv1.Action_ACTION_HOVER, lsppoolv1.Action_ACTION_DEFINITION, lsppoolv1.Action_ACTION_REFERENCES,
		lsppoolv1.Action_ACTION_TYPE_DEFINITION, lsppoolv1.Action_ACTION_IMPLEMENTATION, lsppoolv1.Action_ACTION_RENAME,
		lsppoolv1.Action_ACTION_CODE_ACTIONS,
	} {
		f := ask(action, 98, 0)
		if !errors.Is(f, fault.InvalidParams) || f.Details["field"] != "line" ||
			f.Msg != "Line 99 is after the end of a.fake, which has 2 lines." {
			t.Errorf("%s in line 99: %v with %v", action, f, f.Details)
		}
		f = ask(action, 1, 7)
		if !errors.Is(f, fault.InvalidParams) || f.Details["field"] != "character" ||
			f.Msg != "Character 7 is after the end of line 2 of a.fake, which has 6 UTF-16 units." {
			t.Errorf("%s at character 7: %v with %v", action, f, f.Details)
		}
	}
	for _, at := range [][2]uint32{{1, 6}, {2, 0}} {
		if f := ask(lsppoolv1.Action_ACTION_HOVER, at[0], at[1]); f != nil {
			t.Errorf("the end at %v: %v", at, f)
		}
	}
}

// A server that gives up every request is loading: the query times out, and the server goes on.
func TestALoadingServerIsNotEnded(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Loads, "query_timeout = \"300ms\"\n")
	path := p.write("a.fake", "def one\none\n")
	for _, action := range []lsppoolv1.Action{lsppoolv1.Action_ACTION_HOVER, lsppoolv1.Action_ACTION_RENAME} {
		_, err := p.ask(action, path, func(r *lsppoolv1.QueryRequest) { r.Line, r.NewName = 1, "two" })
		if f := fault.From(err); !errors.Is(f, fault.Timeout) || !strings.Contains(f.Msg, "given up.") {
			t.Errorf("%s: %v", action, err)
		}
		if s := p.only(); s.GetState() != "ready" || s.GetRestartCount() != 0 {
			t.Errorf("after %s the server is %v", action, s)
		}
	}
}

// A server is started in the folder of the nested program that it is first asked about.
func TestFolderOfANestedProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := []byte("#!/bin/sh\npwd >&2\nexit 3\n")
	if err := os.WriteFile(filepath.Join(dir, "gopls"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	p := serve(t, fmt.Sprintf("[lsp.servers.go]\nenv = {PATH = %q}\n", dir))
	p.write("go.mod", "module example.com/m\n")
	p.write("tool/go.mod", "module example.com/m/tool\n")
	_, err := p.ask(lsppoolv1.Action_ACTION_HOVER, p.write("tool/cmd/a.go", "package cmd\n"), nil)
	if log := fmt.Sprint(fault.From(err).Details["log"]); strings.TrimSpace(log) != p.root+"/tool" {
		t.Errorf("it was started in %q: %v", log, err)
	}
}

// A server is as caged as its callers (D1): it can read only the files of their cage, and cannot write.
func TestServerOfACagedCaller(t *testing.T) {
	t.Parallel()
	p := serve(t, "[lsp.servers.fake]\ncommand = [\"/bin/sh\", \"-c\", \"cat secret/key >&2; touch seen/made >&2; ls / "+
		">/dev/null; exit 3\"]\nextensions = [\".fake\"]\n")
	path := p.write("seen/a.fake", "one\n")
	p.write("secret/key", "the-secret")
	policy := &commonv1.CagePolicy{
		Fs: []*commonv1.CageMount{{Mode: "rw", Path: "project:/seen"}}, Seccomp: "default",
		State: "ephemeral",
	}
	_, err := p.ask(lsppoolv1.Action_ACTION_HOVER, path, func(r *lsppoolv1.QueryRequest) { r.View.Cage = policy })
	f := fault.From(err)
	if errors.Is(f, fault.CageUnavailable) {
		t.Fatal("no cages on this machine: " + f.Msg)
	}
	log := fmt.Sprint(f.Details["log"])
	if !errors.Is(f, fault.LspServerUnavailable) || strings.Contains(log, "the-secret") || !strings.Contains(log,
		"secret/key") {
		t.Fatalf("got %v with %v", err, f.Details)
	}
	if _, err := os.Stat(filepath.Join(p.root, "seen", "made")); err == nil {
		t.Error("the server wrote into the project")
	}
	if !p.only().GetCaged() {
		t.Error("the server says that it has no cage")
	}
}

// T-LSP-SYNC-02, -03: answers are based on the present files. gopls sees a change of an open file and of one that is
// not open, a new file and a removed file.
func TestGopls(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gopls"); err != nil {
		t.Fatal("gopls is missing; scripts/setup.sh test installs it")
	}
	p := serve(t, "")
	p.write("go.mod", "module example.com/m\n\ngo 1.24\n")
	main := p.write("main.go", "package main\n\nfunc main() { println(Total(1)) }\n")
	p.write("sum/sum.go", "package sum\n")
	count := func(want int, contains string) {
		t.Helper()
		res, err := p.ask(lsppoolv1.Action_ACTION_DIAGNOSTICS, main, func(r *lsppoolv1.QueryRequest) { r.Severity = 1 })
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, d := range res.GetDiagnostics() {
			all = append(all, d.GetMessage())
		}
		if len(all) != want || !strings.Contains(strings.Join(all, "\n"), contains) {
			t.Fatalf("diagnostics %q, want %d with %q", all, want, contains)
		}
	}
	count(1, "undefined: Total")
	total := p.write("total.go", "package main\n\n// Total adds.\nfunc Total(n int) int { return n }\n")
	count(0, "")
	p.write("total.go", "package main\n\n// Total adds.\nfunc Total(n string) int { return len(n) }\n")
	count(1, "cannot use 1")
	p.write("main.go", "package main\n\nfunc main() { println(Total(\"1\")) }\n")
	count(0, "")
	res, err := p.ask(lsppoolv1.Action_ACTION_DEFINITION, main, func(r *lsppoolv1.QueryRequest) {
		r.Line, r.Character = 2,
			23
	})
	if err != nil || len(res.GetLocations()) != 1 || res.GetLocations()[0].GetPath() != total ||
		res.GetLocations()[0].GetStart().GetLine() != 3 {
		t.Errorf("definition %v, %v", res.GetLocations(), err)
	}
	res, err = p.ask(lsppoolv1.Action_ACTION_HOVER, main, func(r *lsppoolv1.QueryRequest) { r.Line, r.Character = 2, 23 })
	if err != nil || res.GetHover().GetContent() != "func Total(n string) int" ||
		!strings.HasPrefix(res.GetHover().GetDocumentation(), "Total adds.") {
		t.Errorf("hover %v, %v", res.GetHover(), err)
	}
	res, err = p.ask(lsppoolv1.Action_ACTION_RENAME, main, func(r *lsppoolv1.QueryRequest) {
		r.Line, r.Character,
			r.NewName = 2, 23, "Sum"
	})
	if err != nil || len(res.GetEdits()) != 2 || !strings.Contains(string(res.GetEdits()[1].GetContent()),
		"// Sum adds.\nfunc Sum(n string)") {
		t.Errorf("rename %v, %v", res.GetEdits(), err)
	}
	_, err = p.ask(lsppoolv1.Action_ACTION_RENAME, main, func(r *lsppoolv1.QueryRequest) {
		r.Line, r.Character,
			r.NewName = 2, 0, "Sum"
	})
	if !errors.Is(fault.From(err), fault.RenameNotPossible) {
		t.Errorf("renaming a keyword: %v", err)
	}
	if err := os.Remove(total); err != nil {
		t.Fatal(err)
	}
	count(1, "undefined: Total")
}

// A server that takes all memory, and one that starts ever more processes, are limited by their cage. The agent gets
// the reason why there is no answer, and no process stays.
func TestGreedyServers(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{fakelsp.Hog, fakelsp.Bomb} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := serve(t, fmt.Sprintf("[lsp.servers.fake]\ncommand = [%q]\nextensions = [\".fake\"]\nread = [%q]\n"+
				"memory = 268435456\nenv = {KAGED_FAKE_LSP = %q}\n[services.lsp-pool]\ncage = \"always\"\n",
				exe, filepath.Dir(exe), mode))
			_, err := p.ask(lsppoolv1.Action_ACTION_HOVER, p.write("a.fake", "one\n"), nil)
			if f := fault.From(err); !errors.Is(f, fault.LspServerUnavailable) {
				t.Errorf("got %v with %v", err, f.Details)
			}
			if _, err := p.StopServers(t.Context(), &lsppoolv1.StopServersRequest{ProjectId: "p1"}); err != nil {
				t.Fatal(err)
			}
			if left := inFolder(t, p.root); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

// T-LSP-DIAG-01: diagnostics are those of at least the wanted severity, all for 0.
func TestDiagnosticsBySeverity(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Pull, "")
	path := p.write("a.fake", "one ERROR\none WARN\n")
	for severity, want := range map[int32]int{0: 2, 1: 1, 2: 2, 4: 2} {
		res, err := p.ask(lsppoolv1.Action_ACTION_DIAGNOSTICS, path, func(r *lsppoolv1.QueryRequest) {
			r.Severity = severity
		})
		if err != nil || len(res.GetDiagnostics()) != want {
			t.Errorf("severity %d: %v, %v", severity, res.GetDiagnostics(), err)
		}
	}
}

// T-LSP-RENAME-04: a server that can prepare a rename is asked whether the place can be renamed. The fake one would
// rename def, too.
func TestRenameIsPrepared(t *testing.T) {
	t.Parallel()
	p := fake(t, "", "")
	res, err := p.ask(lsppoolv1.Action_ACTION_RENAME, p.write("a.fake", "def one\n"),
		func(r *lsppoolv1.QueryRequest) { r.Character, r.NewName = 1, "two" })
	if f := fault.From(err); !errors.Is(f, fault.RenameNotPossible) || !strings.Contains(f.Msg, "def cannot be renamed.") {
		t.Errorf("the edits are %v, the error is %v", res.GetEdits(), err)
	}
}

// A rename with overlapping edits is refused completely.
func TestOverlappingRename(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Overlap, "")
	res, err := p.ask(lsppoolv1.Action_ACTION_RENAME, p.write("a.fake", "def one\none\n"),
		func(r *lsppoolv1.QueryRequest) { r.Line, r.Character, r.NewName = 1, 1, "two" })
	if err == nil {
		t.Errorf("the edits are %v", res.GetEdits())
	}
}

// T-LSP-RENAME-03: a rename with edits of a file outside the project is refused completely, with the file's name.
func TestRenameOutsideTheProject(t *testing.T) {
	t.Parallel()
	p := fake(t, fakelsp.Outside, "")
	res, err := p.ask(lsppoolv1.Action_ACTION_RENAME, p.write("a.fake", "def one\n\n\none\n"),
		func(r *lsppoolv1.QueryRequest) { r.Line, r.Character, r.NewName = 3, 1, "two" })
	f := fault.From(err)
	if !errors.Is(f, fault.RenameScopeExceedsCage) || fmt.Sprint(f.Details["paths"]) != "[/etc/passwd]" {
		t.Errorf("the edits are %v, the error is %v", res.GetEdits(), err)
	}
}

// The home folder of a caged server stays from one start to the next, with its caches. Each view has its own home
// folder.
func TestHomesOfCagedServersLast(t *testing.T) {
	t.Parallel()
	p := serve(t, "[lsp.servers.fake]\ncommand = [\"/bin/sh\", \"-c\", \"cat ~/cache >&2; echo it saw *.secret >> "+
		"~/cache; exit 3\"]\nextensions = [\".fake\"]\n")
	path := p.write("a.fake", "one\n")
	p.write("b.secret", "")
	ask := func(view string) string {
		policy := &commonv1.CagePolicy{
			Fs: []*commonv1.CageMount{{Mode: "ro", Path: view}}, Seccomp: "default", State: "ephemeral",
		}
		// The server crashes at its start, and is started again.
		_, err := p.ask(lsppoolv1.Action_ACTION_HOVER, path, func(r *lsppoolv1.QueryRequest) { r.View.Cage = policy })
		return fmt.Sprint(fault.From(err).Details["log"])
	}
	if log := ask("project:/"); !strings.Contains(log, "saw b.secret") {
		t.Errorf("the log is %s", log)
	}
	if log := ask("project:/a.fake"); strings.Contains(log, "b.secret") || !strings.Contains(log, "it saw") {
		t.Errorf("the log of another view is %s", log)
	}
}
