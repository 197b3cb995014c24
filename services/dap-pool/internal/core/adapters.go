package core

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kaged.dev/services/dap-pool/internal/inspector"
)

// Request is the way a session starts.
type Request string

// The requests.
const (
	Launch Request = "launch"
	Attach Request = "attach"
)

// The modes of a launch.
const (
	ModeDebug = "debug" // builds a package and runs it
	ModeTest  = "test"  // builds the tests of a package and runs them
	ModeExec  = "exec"  // runs a program that is already built
)

// Adapter describes the debug adapter of a runtime.
type Adapter struct {
	// Runtimes are the names that select the adapter.
	Runtimes []string
	// Commands are the command lines to try, in their order. Program is the adapter's name for people, Install the way to
	// install it.
	Commands         [][]string
	Program, Install string
	// By is the path of the declaration of the adapter, "" for a built-in one.
	By string
	// Listens is the text that the adapter prints before the address it listens at, "" for an adapter that uses its
	// standard files.
	Listens string
	// Traces lists the requests for which the adapter traces processes. The usual system call filter of a cage forbids
	// tracing.
	Traces []Request
	// Modes are the modes of launch, the default first; nil if there is no choice.
	Modes []string
	// Entry is the function at which a launch with stop_on_entry stops, "" if the adapter stops by itself.
	Entry string
	// Outdated is a part of the error of an adapter that is too old.
	Outdated string
	// Leaves is the start of the names of files that a killed adapter leaves in the folder of temporary files; the
	// session's id follows. It is "" for an adapter that leaves none.
	Leaves string
	// Calls is the start of an expression that calls a function of the program, "" if expressions are code.
	Calls string
	// Globals returns the expression that shows or hides package variables among the scopes. It is nil if they cost
	// nothing; Delve reads all of them for each list of scopes.
	Globals func(show bool) string
	// Counts is the text before the number in a hit condition.
	Counts string
	// Arguments returns the arguments of the request.
	Arguments func(s *Start) map[string]any
	// Inspector is the protocol of a runtime with an inspector, nil for a debug adapter. The pool starts the runtime
	// itself, with the words of Runs after the command line; for an attach it starts no program.
	Inspector *inspector.Dialect
	Runs      func(s *Start) []string
	// Hides are the runtime's options that hide the random path of its inspector from other users of the host, who could
	// run code in the program if they knew it.
	Hides []string
	// Waits is the runtime's option for a program that waits for its debugger; the address follows it. WaitsAt is the
	// command line of a program that can be attached to.
	Waits, WaitsAt string
	// Noise returns a function that recognises lines that the runtime itself writes to its standard error; nil if it
	// writes none. The function is called with each line, in their order.
	Noise func() func(line string) bool
}

// traces reports whether the adapter traces processes for a request.
func (a *Adapter) traces(r Request) bool { return slices.Contains(a.Traces, r) }

// hits returns the hit condition of a count: the program skips the hits before it.
func (a *Adapter) hits(count int) string {
	if count == 0 {
		return ""
	}
	return a.Counts + strconv.Itoa(count)
}

// Builtin returns the built-in adapters.
func Builtin() []*Adapter { return []*Adapter{delve(), debugpy(), lldb(), node(), bun()} }

// delveBinary is the start of the names of programs that Delve builds.
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
				// The program is built in the folder of temporary files, so that the project gets no new file. A repository that
				// git does not trust must not fail the build.
				arguments["output"] = filepath.Join(s.temporary(), delveBinary+s.ID)
				arguments["buildFlags"] = []string{"-buildvcs=false"}
			}
			return arguments
		},
	}
}

// findDebugpy runs debugpy with the first Python that has it: the project's, the one in PATH, the system's.
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
		Entry:    "main", // by default the adapter would stop in the loader, before all code of the program
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
			rules := 0 // the banner is between two of these lines
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
