package dsl

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const debugged = `version: 1
project: p
primary:
  model: m
  system_prompt: ./prompt.md
  cage: disabled
dap:
  adapters:
`

// T-DBG-CFG-03: adapters may be declared by a command only, and in the form of other tools, with the runtime's command
// beside the adapter's. Bun needs no adapter. An entry without both is refused.
func TestDebugAdapters(t *testing.T) {
	t.Parallel()
	const documented = `    - {runtime: bun, command: [bun, --inspect-brk=0, --inspect-wait], type: bun}
    - {runtime: node, command: [node, --inspect-brk], adapter: [js-debug-adapter], type: pwa-node}
    - {runtime: python, adapter: [debugpy, --listen, "0"], type: debugpy}
    - {runtime: dart, command: [dart, debug_adapter]}
`
	r := parse(t, from(debugged+documented))
	if r.Project == nil {
		t.Fatal(r.Diagnostics)
	}
	want := []DebugAdapter{
		{Runtime: "dart", Command: []string{"dart", "debug_adapter"}},
		{Runtime: "node", Command: []string{"js-debug-adapter"}, Type: "pwa-node"},
		{Runtime: "python", Command: []string{"debugpy", "--listen", "0"}, Type: "debugpy"},
	}
	if d := cmp.Diff(want, r.Project.Debugging.Adapters); d != "" {
		t.Error(d)
	}
	if r := parse(t, from(debugged+"    - {runtime: dart}\n")); r.Project != nil {
		t.Error("an adapter without a command is accepted")
	}
}

// from returns the files of a project: its file and its prompt.
func from(text string) func(string) File {
	return func(path string) File {
		switch path {
		case ProjectFile:
			return File{Path: path, Content: []byte(text), Present: true}
		case "prompt.md":
			return File{Path: path, Content: []byte("You debug.\n"), Present: true}
		}
		return File{Path: path}
	}
}
