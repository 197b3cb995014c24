package core

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kaged.dev/services/dap-pool/internal/inspector"
)

// Request is how a session begins.
type Request string

// The requests.
const (
	Launch Request = "launch"
	Attach Request = "attach"
)

// The modes of a launch.
const (
	ModeDebug = "debug" // build a package and run it
	ModeTest  = "test"  // build the tests of a package and run them
	ModeExec  = "exec"  // run a program that is built
)

// Adapter describes the debug adapter of a runtime.
type Adapter struct {
	// Runtimes are the names that it answers to.
	Runtimes []string
	// Commands are the command lines to try, in their order. Program is how people call the adapter, Install how
	// it is installed.
	Commands         [][]string
	Program, Install string
	// By is the place of a declaration that names the adapter, "" for one that kaged knows.
	By string
	// Listens is the text that the adapter prints before the address it listens at, "" for one that speaks over
	// its standard files.
	Listens string
	// Traces lists the requests for which the adapter traces processes, which a cage's usual system call filter
	// forbids.
	Traces []Request
	// Modes are those of launch, the default first; nil for no choice.
	Modes []string
	// Entry is the function at which a launch stops for stop_on_entry, "" where the adapter knows by itself.
	Entry string
	// Outdated is a part of the refusal of an adapter that is too old.
	Outdated string
	// Leaves is the beginning of the names of files that the adapter leaves in the folder of temporary files if it is
	// killed; the session's id follows. It is "" for one that leaves none.
	Leaves string
	// Calls is the beginning of an expression that calls a function of the program, "" where expressions are
	// code.
	Calls string
	// Globals is the expression that shows or hides variables of packages among the scopes, nil where they cost
	// nothing. Delve reads all of them at each look.
	Globals func(show bool) string
	// Counts precedes the number in a hit condition.
	Counts string
	// Arguments are those of the request.
	Arguments func(s *Start) map[string]any
	// Inspector is the protocol of a runtime that is debugged over its inspector, nil for a debug adapter. The
	// runtime is then started itself, with the words of Runs behind the command line; one that is attached to is
	// not started at all.
	Inspector *inspector.Dialect
	Runs      func(s *Start) []string
	// Hides are the runtime's options that keep the random path of its inspector from other users of the host: with it
	// they run code in the program.
	Hides []string
	// Waits is the runtime's option for a program that waits for its debugger, ahead of the address; WaitsAt is the
	// command line of one that can be attached to.
	Waits, WaitsAt string
	// Noise returns a function that recognises the lines which the runtime itself writes to its standard error; nil
	// if it writes no such lines. It is called with each line, in their order.
	Noise func() func(line string) bool
}

// traces reports whether a request needs to trace processes.
func (a *Adapter) traces(r Request) bool { return slices.Contains(a.Traces, r) }

// hits is the hit condition of a count: the passes before it are skipped.
func (a *Adapter) hits(count int) string {
	if count == 0 {
		return ""
	}
	return a.Counts + strconv.Itoa(count)
}

// Builtin are the adapters that the pool knows.
func Builtin() []*Adapter { return []*Adapter{delve(), debugpy(), lldb(), node(), bun()} }

// delveBinary is the beginning of the names of the programs that Delve builds.
const delveBinary = "kaged-debug-"

func delve() *Adapter {
	return &Adapter{
		Runtimes: []string{"go"},
		Commands: [][]string{{"dlv", "dap", "--listen=127.0.0.1:0"}},
		Program:  "dlv",
		Install:  "go install github.com/go-delve/delve/cmd/dlv@v1.27.2",
		Listens:  "DAP server listening at: ",
		Traces:   []Request{Launch, Attach},
		Modes:    []string{ModeDebug, ModeTest, ModeExec},
		Entry:    "main.main",
		Outdated: "too old for Go version",
		Leaves:   delveBinary,
		Calls:    "call ",
		Counts:   ">= ",
		Globals:  func(show bool) string { return "dlv config showGlobalVariables " + strconv.FormatBool(show) },
		Arguments: func(s *Start) map[string]any {
			if s.Request == Attach {
				return map[string]any{"request": "attach", "mode": "local", "processId": s.ProcessID}
			}
			arguments := map[string]any{
				"request": "launch", "mode": s.Mode, "program": s.Program, "args": s.Args, "cwd": s.Dir, "env": s.Env,
				"stopOnEntry": false,
			}
			if s.Mode != ModeExec {
				// In the folder of temporary files, so that no program is left in the project; a repository that
				// git does not trust fails no build.
				arguments["output"] = filepath.Join(s.temporary(), delveBinary+s.ID)
				arguments["buildFlags"] = []string{"-buildvcs=false"}
			}
			return arguments
		},
	}
}

// findDebugpy runs debugpy with the first Python that has it: of the project, of PATH, of the system.
const findDebugpy = `for p in ./.venv/bin/python ./venv/bin/python python3 /usr/bin/python3; do
	"$p" -c 'import debugpy' 2>/dev/null && exec "$p" -m debugpy.adapter
done
echo 'No module named debugpy' >&2; exit 1`

func debugpy() *Adapter {
	return &Adapter{
		Runtimes: []string{"python"},
		Commands: [][]string{{"/bin/sh", "-c", findDebugpy, "debugpy"}},
		Program:  "debugpy",
		Install:  "apt-get install python3-debugpy",
		Outdated: "No module named",
		Counts:   ">= ",
		Arguments: func(s *Start) map[string]any {
			if s.Request == Attach {
				return map[string]any{
					"request": "attach", "connect": map[string]any{"host": "127.0.0.1", "port": s.Port}, "justMyCode": false,
				}
			}
			return map[string]any{
				"request": "launch", "program": s.Program, "args": s.Args, "cwd": s.Dir, "env": s.Env,
				"console": "internalConsole", "redirectOutput": true, "stopOnEntry": s.StopOnEntry, "justMyCode": false,
				"subProcess": false,
			}
		},
	}
}

func lldb() *Adapter {
	return &Adapter{
		Runtimes: []string{"c", "cpp", "rust"},
		Commands: [][]string{{"lldb-dap"}, {"lldb-dap-19"}, {"lldb-dap-18"}},
		Program:  "lldb-dap",
		Install:  "apt-get install lldb-19",
		Traces:   []Request{Launch, Attach},
		Entry:    "main", // its own entry is the loader's, ahead of all code of the program
		Arguments: func(s *Start) map[string]any {
			if s.Request == Attach {
				return map[string]any{"request": "attach", "pid": s.ProcessID}
			}
			return map[string]any{
				"request": "launch", "program": s.Program, "args": s.Args, "cwd": s.Dir, "env": s.Env,
				"stopOnEntry": false,
			}
		},
	}
}

// inspected returns the adapter of a runtime with an inspector.
func inspected(a Adapter) *Adapter {
	a.Listens = "ws://"
	a.Arguments = func(*Start) map[string]any { return map[string]any{} }
	a.Runs = func(s *Start) []string {
		return slices.Concat(a.Hides, []string{a.Waits + "127.0.0.1:0", s.Program}, s.Args)
	}
	return &a
}

func node() *Adapter {
	return inspected(Adapter{
		Runtimes: []string{"node"}, Commands: [][]string{{"node"}}, Program: "node", Install: "apt-get install nodejs",
		Inspector: inspector.Node, Hides: []string{"--inspect-publish-uid=stderr"},
		Waits: "--inspect-brk=", WaitsAt: "node --inspect=127.0.0.1:%d",
		Noise: func() func(string) bool {
			return func(line string) bool {
				return strings.HasPrefix(line, "Debugger listening on ws://") ||
					strings.HasPrefix(line, "For help, see: https://nodejs.org/") || line == "Debugger attached." ||
					line == "Waiting for the debugger to disconnect..." ||
					strings.HasPrefix(line, "Debugger ending on ws://")
			}
		},
	})
}

func bun() *Adapter {
	return inspected(Adapter{
		Runtimes: []string{"bun"}, Commands: [][]string{{"bun"}}, Program: "bun", Install: "npm install -g bun",
		Inspector: inspector.Bun, Waits: "--inspect-wait=", WaitsAt: "bun --inspect=127.0.0.1:%d/",
		Noise: func() func(string) bool {
			rules := 0 // the banner is between two of them
			return func(line string) bool {
				if strings.Trim(line, "- ") == "Bun Inspector" {
					rules++
					return true
				}
				return rules == 1
			}
		},
	})
}

// find returns the adapter of a runtime, nil for an unknown one.
func find(list []*Adapter, runtime string) *Adapter {
	i := slices.IndexFunc(list, func(a *Adapter) bool { return slices.Contains(a.Runtimes, runtime) })
	if i < 0 {
		return nil
	}
	return list[i]
}

// runtimes returns the names of all runtimes.
func runtimes(list []*Adapter) string {
	var names []string
	for _, a := range list {
		for _, name := range a.Runtimes {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}
