package clitools_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"kaged.dev/pkg/testkit/sandboxtest"
	"kaged.dev/services/tool-runner/internal/core/clitools"
	"kaged.dev/services/tool-runner/internal/core/schema"
)

// For any values and any text around them, a call has as many arguments as the file declares, each contains its value
// unchanged, and an argument that begins with a value does not begin with a hyphen unless a -- precedes it.
func FuzzArguments(f *testing.F) {
	for _, seed := range [][3]string{
		{"", "", ""},
		{"a", "", "pods"},
		{"", "b", "-rf"},
		{"--", "", "-x"},
		{"{{", "}}", "{{v}}"},
		{"-n=", "", "-x"},
		{"-", "", "x"},
		{"", "", "$(id); `rm` 'x'"},
		{"", "", "\x00"},
		{"{{v}}", "{{ v }}", "a"},
		{"%", "\\", "\n-x"},
		{"", "-", ""},
		{"x", "", "\xff"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, before, after, value string) {
		if !utf8.ValidString(before) || !utf8.ValidString(after) || !utf8.ValidString(value) {
			return // neither the file nor JSON can contain it
		}
		file := map[string]any{"tools": []any{map[string]any{
			"name": "t", "category": "read", "cmd": "x", "args": []any{before + "{{v}}" + after, "{{v}}"},
			"parameters": map[string]any{"v": map[string]any{"type": "string"}},
		}}}
		text, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		entries, _, err := clitools.Load("tools.yaml", text, nil, clitools.Deps{
			Commands: &sandboxtest.Shell{}, LookupEnv: func(string) (string, bool) {
				return "", false
			}, Limits: clitools.Limits{ValueBytes: 1 << 20},
		})
		if err != nil {
			return // not allowed in a file
		}
		input, err := json.Marshal(map[string]string{"v": value})
		if err != nil {
			t.Fatal(err)
		}
		params, err := entries[0].Decode("t", schema.Parse(input))
		if err != nil {
			t.Fatalf("a string is refused: %v", err)
		}
		commands := entries[0].Commands(params)
		if len(commands) == 0 {
			if !strings.HasPrefix(value, "-") && !strings.Contains(value, "\x00") && !strings.HasPrefix(value+after, "-") {
				t.Fatalf("%q is refused between %q and %q", value, before, after)
			}
			return
		}
		argv := commands[0].Argv
		if len(argv) != 3 || argv[2] != value || !strings.Contains(argv[1], value) || strings.Contains(argv[1], "\x00") {
			t.Fatalf("%q between %q and %q became %q", value, before, after, argv)
		}
		if strings.HasPrefix(argv[2], "-") && argv[1] != "--" {
			t.Fatalf("%q became an option", value)
		}
	})
}
