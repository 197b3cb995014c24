package core_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/core"
	"kaged.dev/services/dap-pool/internal/fakedap"
)

// absent is a launcher of a machine without adapters.
type absent struct{}

func (absent) Launch(context.Context, core.Spec) (core.Process, error) {
	return nil, fault.New(fault.ShellSpawnFailed, "missing").With("missing", true)
}

func (absent) Connect(context.Context, core.Spec, int) (io.ReadWriteCloser, error) {
	return nil, net.ErrClosed
}

// T-AVAIL-07, -08, -09, T-ARCH-04, T-DBG-SEC-01..05, T-DBG-COMMON-03: a debugger that traces processes needs a relaxed
// cage or no cage, for launch and attach. A debugger that does not trace works in every cage.
func TestAvailability(t *testing.T) {
	t.Parallel()
	p := core.New(core.Options{
		Adapters: core.Builtin(), PerAgent: 1, Sessions: 100, StartTimeout: time.Minute, OutputBytes: 1,
	}, absent{}, func() string { return "dap_a" }, slog.New(slog.DiscardHandler))
	for _, runtime := range []string{"go", "python", "c", "cpp", "rust", "node", "bun"} {
		traces := runtime == "go" || runtime == "c" || runtime == "cpp" || runtime == "rust"
		for _, request := range []core.Request{core.Launch, core.Attach} {
			for _, seccomp := range []string{"none", "default", "relaxed"} {
				start := core.Start{
					Owner: contract.Owner{SessionID: "s", RunID: "r"}, Root: "/p", Dir: "/p", Program: "/p/a", Runtime: runtime,
					Request: request, Port: 1, ProcessID: 1, CageID: "c", Cage: &dsl.Cage{Seccomp: seccomp},
				}
				if seccomp == "none" {
					start.Cage, start.CageID = nil, ""
				}
				_, err := p.Start(t.Context(), start)
				refused := errors.Is(err, fault.DapRequiresRelaxedSeccomp)
				if want := traces && seccomp == "default"; refused != want || err == nil {
					t.Errorf("%s, request %s, %s cage: %v", runtime, request, seccomp, err)
				}
			}
		}
	}
	p.EndRun("s", "")
}

// An agent with a policy and without a permanent cage is refused before its adapter starts: the connection to the
// adapter's port would be a connection to the host's loopback, at a number that a program in a cage chooses.
func TestNoPortsOfTheHost(t *testing.T) {
	t.Parallel()
	p := core.New(core.Options{
		Adapters: core.Builtin(), PerAgent: 1, Sessions: 100, StartTimeout: time.Minute, OutputBytes: 1,
	}, absent{}, func() string { return "dap_a" }, slog.New(slog.DiscardHandler))
	for _, runtime := range []string{"go", "python", "cpp", "node", "bun"} {
		for _, request := range []core.Request{core.Launch, core.Attach} {
			_, err := p.Start(t.Context(), core.Start{
				Owner: contract.Owner{SessionID: "s"}, Root: "/p", Dir: "/p", Program: "/p/a", Runtime: runtime,
				Request: request, Port: 1, ProcessID: 1, Cage: &dsl.Cage{Seccomp: "relaxed"},
			})
			if f := fault.From(err); f == nil || f.Details["reason"] != "no_cage" {
				t.Errorf("%s, request %s: got %v, want that the policy has no cage", runtime, request, err)
			}
		}
	}
}

// T-FM-05: if an adapter ends during a request of the protocol, that action fails and no process stays. The agent can
// start another session.
func TestAdapterEndsAtEachRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		action  core.Action // 0 for a request of the handshake
	}{
		{"initialize", 0},
		{"launch", 0},
		{"setExceptionBreakpoints", 0},
		{"configurationDone", 0},
		{"setBreakpoints", core.SetBreakpoint},
		{"setFunctionBreakpoints", core.SetBreakpoint},
		{"continue", core.Continue},
		{"next", core.StepOver},
		{"stepIn", core.StepInto},
		{"stepOut", core.StepOut},
		{"scopes", core.Scopes},
		{"variables", core.Variables},
		{"evaluate", core.Evaluate},
		{"disassemble", core.Disassemble},
		{"readMemory", core.ReadMemory},
		{"modules", core.Modules},
		{"loadedSources", core.LoadedSources},
		{"dataBreakpointInfo", core.DataBreakpointInfo},
	} {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			b := pool(t, fakedap.EndsAt+c.command)
			_, err := b.begin()
			if c.action != 0 {
				if err != nil {
					t.Fatal(err)
				}
				_, err = b.act(c.action, line(4), func(d *core.Do) {
					if c.command == "setFunctionBreakpoints" {
						d.Function = "main"
					}
					d.Expression, d.Memory, d.Name = "x", "0x1", "x"
				})
			}
			if !errors.Is(err, fault.DapSessionEnded) && !errors.Is(err, fault.DapRequestFailed) {
				t.Errorf("the action fails with %v", err)
			}
			b.fails(fault.DapSessionEnded, core.Threads)
			if n := b.running(); n != 0 {
				t.Errorf("%d adapters are left", n)
			}
			b.mode = ""
			b.must()
			b.over()
		})
	}
}

// The end of an adapter during disconnect counts as the answer.
func TestAdapterEndsAtDisconnect(t *testing.T) {
	t.Parallel()
	b := pool(t, fakedap.EndsAt+"disconnect")
	b.must()
	if a := b.ok(core.Disconnect); !a.Terminated || b.running() != 0 {
		t.Errorf("%+v, %d adapters are left", a, b.running())
	}
	b.over()
}
