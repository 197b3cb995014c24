package dappool_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	dappool "kaged.dev/services/dap-pool"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// declared is an operator's configuration with two adapters: debugpy over its standard files, and dlv at a port.
const declared = `
[dap.adapters.snake]
command = ["/usr/bin/python3", "-m", "debugpy.adapter"]
type = "python"
traces = false
launch = { justMyCode = false, subProcess = false, redirectOutput = true }

[dap.adapters.terminal]
command = ["/usr/bin/python3", "-m", "debugpy.adapter"]
type = "python"
launch = { justMyCode = false, subProcess = false, console = "integratedTerminal" }

[dap.adapters.golang]
command = ["dlv", "dap", "--listen=127.0.0.1:0"]
announces = "DAP server listening at: "
launch = { mode = "debug", stopOnEntry = true, buildFlags = ["-buildvcs=false"] }

[dap.adapters.ghost]
command = ["no-such-adapter"]
`

// operators returns the operator's adapters, decoded from a configuration file.
func operators(t *testing.T, text string) *config.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "local.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// T-DBG-CFG-01, T-DBG-CFG-02: an adapter that only the operator declares debugs a program, over its standard files and
// at a port, uncaged and in a cage. An adapter that requests a terminal for its program gets one.
func TestDeclaredAdapters(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, b *bench, runtime string, p program) {
		b.write("go.mod", "module example.com/p\n\ngo 1.24\n")
		path := b.write(p.file, p.source)
		b.must(runtime, path, nil)
		state := b.do(dappoolv1.Action_ACTION_SET_BREAKPOINT, func(r *dappoolv1.ActRequest) {
			r.Path, r.Line, r.Condition = path, b.line(path, p.add), p.condition
		})
		if !state.GetBreakpoint().GetVerified() {
			t.Errorf("the breakpoint is %v", state)
		}
		stop := b.do(dappoolv1.Action_ACTION_CONTINUE, nil).GetState()
		if stop.GetLocation().GetLine() != b.line(path, p.add) || b.value("i") != "5" {
			t.Errorf("it stops as %v", stop)
		}
		pid := b.adapter()
		b.do(dappoolv1.Action_ACTION_DISCONNECT, nil)
		if !gone(pid) {
			t.Error("the adapter outlives its session")
		}
	}
	for runtime, p := range map[string]program{"snake": python, "golang": golang, "terminal": python} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			test(t, serve(t, operators(t, declared)), runtime, p)
		})
		t.Run(runtime+" caged", func(t *testing.T) {
			t.Parallel()
			test(t, serve(t, operators(t, declared)).caged("relaxed"), runtime, p)
		})
	}
}

// An adapter is assumed to trace processes unless the operator states otherwise. The error for a missing adapter names
// the declaration; the error for a runtime without adapter names the known runtimes.
func TestDeclaredAdapterRefusals(t *testing.T) {
	t.Parallel()
	b := serve(t, operators(t, declared)).caged("default")
	path := b.write(python.file, python.source)
	b.must("snake", path, nil)
	b.do(dappoolv1.Action_ACTION_DISCONNECT, nil)
	if _, err := b.start("golang", path, nil); fault.CodeOf(err) != fault.DapRequiresRelaxedSeccomp {
		t.Errorf("an adapter that traces: %v", err)
	}
	b = serve(t, operators(t, declared))
	_, err := b.start("ghost", b.write("a", ""), nil)
	if !errors.Is(fault.From(err), fault.DapAdapterNotFound) || !strings.Contains(err.Error(), "[dap.adapters.ghost]") {
		t.Errorf("an adapter that is not there: %v", err)
	}
	_, err = b.start("cobol", b.write("a", ""), nil)
	if fault.CodeOf(err) != fault.InvalidParams || !strings.Contains(err.Error(), "snake") {
		t.Errorf("a runtime without one: %v", err)
	}
	file := operators(t, "[dap.adapters.empty]\ncommand = []\n")
	if _, err := dappool.New(dappool.DefaultConfig(), dappool.Deps{Adapters: file.DAP.Adapters}); err == nil ||
		!strings.Contains(err.Error(), "dap.adapters.empty.command") {
		t.Errorf("an adapter without a command: %v", err)
	}
}

// A project's adapter takes precedence over the operator's (T-DBG-CFG-02).
func TestProjectAdapter(t *testing.T) {
	t.Parallel()
	b := serve(t, operators(t, declared))
	path := b.write(python.file, python.source)
	b.must("ghost", path, func(r *dappoolv1.StartRequest) {
		r.Adapters = []*commonv1.DebugAdapter{{
			Runtime: "ghost", Command: []string{"/usr/bin/python3", "-m", "debugpy.adapter"}, Type: "python",
		}}
	})
	b.do(dappoolv1.Action_ACTION_DISCONNECT, nil)
}
