package tools_test

import (
	"encoding/json"
	"testing"

	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// T-DBG-EVAL-02, T-DBG-EXT-11: a read-only action has the grade read, an action that continues or changes the program
// the grade write, and an action that changes memory or sends a request to the adapter the grade admin. Evaluation has
// the grade write in both contexts, because an adapter may run code of the program for either.
func TestGradesOfDebug(t *testing.T) {
	t.Parallel()
	entry := newBench(t).entry("debug")
	grades := map[tool.Category][]string{
		tool.Read: {
			`{"action":"list_breakpoints"}`, `{"action":"stack_trace"}`, `{"action":"threads"}`, `{"action":"scopes"}`,
			`{"action":"variables"}`, `{"action":"modules"}`, `{"action":"loaded_sources"}`,
			`{"action":"read_memory","memory_reference":"0x1","count":8}`,
			`{"action":"disassemble","memory_reference":"0x1"}`,
		},
		tool.Write: {
			`{"action":"launch","runtime":"go","script":"."}`, `{"action":"set_breakpoint","path":"a.go","line":1}`,
			`{"action":"step_over"}`, `{"action":"continue"}`, `{"action":"pause"}`, `{"action":"disconnect"}`,
			`{"action":"evaluate","expression":"x"}`, `{"action":"evaluate","expression":"f()","context":"repl"}`,
		},
		tool.Admin: {
			`{"action":"write_memory","memory_reference":"0x1","data":"AA=="}`,
			`{"action":"custom_request","command":"x"}`,
		},
	}
	for want, inputs := range grades {
		for _, input := range inputs {
			t.Run(input, func(t *testing.T) {
				t.Parallel()
				params, err := entry.Decode("debug", schema.Parse([]byte(input)))
				if err != nil {
					t.Fatal(err)
				}
				if got := entry.Effect(params).Category; got != want {
					t.Errorf("the grade is %v, want %v", got, want)
				}
				if looks := entry.OnlyLooks("debug", json.RawMessage(input)); looks != (want == tool.Read) {
					t.Errorf("it only looks: %v", looks)
				}
			})
		}
	}
}
