package clitools_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/services/tool-runner/internal/core/clitools"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// declared is a file with one command.
func declared(t *testing.T, program string, args []string, more map[string]any) []byte {
	t.Helper()
	item := map[string]any{"name": "t", "category": "read", "cmd": program, "args": args}
	for key, value := range more {
		item[key] = value
	}
	data, err := json.Marshal(map[string]any{"tools": []any{item}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A file that would insert a value into shell text is refused, for every shell, every way to pass the text and every
// program that starts the shell (T-CLI-10).
func TestNoValueInAShellsText(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"/bin/bash|-euc|echo {{x}}", "env|A=b|sh|-c|{{x}}", "sh|-ce|echo {{x}}", "sh|-c|-e|echo {{x}}",
		"bash|-c|--|echo {{x}}", "bash|-c|-o|pipefail|echo {{x}}", "tcsh|-c|{{x}}", "csh|-c|{{x}}",
		"rbash|-c|{{x}}", "yash|-c|{{x}}", "fish|--command={{x}}", "fish|--command|{{x}}", "fish|-C|{{x}}",
		"fish|-c|ls {{x}}", "su|--command|{{x}}", "su|-c|{{x}}|ada", "su|ada|--|-c|{{x}}",
		"runuser|-u|ada|--|sh|-c|{{x}}", "env|-S|{{x}}", "env|--split-string={{x}}", "env|-S|ls {{x}}", "busybox|sh|-c|{{x}}",
		"timeout|5|sh|-c|{{x}}", "flock|f|-c|{{x}}", "flock|--new|5|f|sh|-c|{{x}}",
		"script|-c|{{x}}|f", "watch|ls {{x}}", "watch|ls|{{x}}", "ssh|h|ls {{x}}", "ssh|h|ls|{{x}}",
		"parallel|ls {{x}}|:::|a", "xargs|sh|-c|{{x}}", "find|.|-exec|sh|-c|ls {{x}}|;", "git|rebase|-x|{{x}}",
		"git|-c|alias.a=!ls {{x}}|a", "git|submodule|foreach|ls {{x}}", "nice|--adjustment|{{x}}|sh|-c|{{x}}",
		"timeout|{{x}}|sh|-c|ls {{x}}", "tar|-I|{{x}}|-cf|a|b", "sh|-c|eval \"$1\" {{x}}",
	} {
		list := strings.Split(words, "|")
		entries, _, err := clitools.Load("tools.yaml", declared(t, list[0], list[1:], nil), nil, clitools.Deps{})
		if entries != nil || !errors.Is(err, fault.LocalConfigInvalid) ||
			!strings.Contains(fault.From(err).Msg, "a shell would read the value as commands") {
			t.Errorf("%s: %v", words, err)
		}
	}
	parameters := map[string]any{
		"x": map[string]any{"type": "string", "optional": true},
		"s": map[string]any{"type": "string", "enum": []string{"ls", "sh"}},
	}
	for name, data := range map[string][]byte{
		"an option": declared(t, "sh", []string{"-c"}, map[string]any{
			"parameters": map[string]any{"x": parameters["x"]}, "optional_args": map[string]any{"x": []string{"ls {{x}}"}},
		}),
		"a choice": declared(t, "env", []string{"{{s}}"}, map[string]any{
			"parameters": parameters, "optional_args": map[string]any{"x": []string{"-c", "{{x}}"}},
		}),
		"a sequence": declared(t, "sh", nil, map[string]any{
			"parameters":    map[string]any{"v": map[string]any{"type": "boolean"}, "x": parameters["x"]},
			"optional_args": map[string]any{"v": []string{"-c"}, "x": []string{"{{x}}"}},
		}),
	} {
		if _, _, err := clitools.Load("tools.yaml", data, nil, clitools.Deps{}); !errors.Is(err, fault.LocalConfigInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, words := range []string{
		"sh|-c|echo \"$1\"|x|{{x}}", "git|-c|{{x}}|log", "git|log|--grep={{x}}", "kubectl|get|{{x}}",
		"find|.|-name|{{x}}|-exec|grep|-l|x|{}|;", "env|A={{x}}|make", "xargs|grep|{{x}}", "ssh|{{x}}|uptime",
		"python3|-c|print(1)|{{x}}", "timeout|5|curl|--|{{x}}", "sh|run.sh|{{x}}", "bash|-x|run.sh|-c|{{x}}",
		"flock|f|make|{{x}}", "watch|-n|{{x}}|ls", "su|-c|ls|{{x}}", "rsync|-e|ssh|{{x}}|d", "deploy|-c|{{x}}",
	} {
		list := strings.Split(words, "|")
		if _, _, err := clitools.Load("tools.yaml", declared(t, list[0], list[1:], nil), nil, clitools.Deps{}); err != nil {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// A value neither begins nor selects an option, after any fixed and empty values.
func TestNoValueBecomesAnOption(t *testing.T) {
	t.Parallel()
	file := "tools:\n  - name: t\n    category: read\n    cmd: argv\n    args: [\"{{a}}{{b}}\"]\n" +
		"    parameters: {a: {type: string, enum: [\"\", \"-\", \"--n=\", x]}, b: {type: string}}\n"
	b := newBench(t, file)
	for input, want := range map[string]fault.Code{
		`{"a":"","b":"-rf"}`: fault.InvalidParams, `{"a":"-","b":"rf"}`: fault.InvalidParams,
		`{"a":"-","b":"-rf"}`: fault.InvalidParams,
		`{"a":"","b":"rf"}`:   0, `{"a":"x","b":"-rf"}`: 0, `{"a":"--n=","b":"-5"}`: 0, `{"a":"-","b":""}`: 0,
	} {
		if out := b.do("t", input); out.Fault == nil && want != 0 || out.Fault != nil && out.Fault.Code != want {
			t.Errorf("%s: %v", input, out.Fault)
		}
	}
}

// refusing is a runner that refuses every command.
type refusing struct{ sandbox.Runner }

func (refusing) Run(context.Context, sandbox.Spec, func([]byte)) (contract.Exit, error) {
	return contract.Exit{}, fault.New(fault.RateLimited, "Too many.")
}

// Too many running commands is an error of the call, as for shell.bash, and not of the infrastructure.
func TestTooManyCommands(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	entries, _, err := clitools.Load("tools.yaml", declared(t, "x", nil, nil), nil, clitools.Deps{
		Commands: refusing{}, LookupEnv: func(string) (string, bool) {
			return "", false
		}, Limits: clitools.Limits{ValueBytes: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := dispatch.New(entries, dispatch.Options{
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), LockWait: time.Second, Timeout: time.Minute, AuditValue: 1 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.from.Tools = []string{"cli.t"}
	call := &tool.Call{ID: "c", Name: "t", Input: []byte(`{}`), From: b.from, Emit: func(string, string) {}}
	if out, err := d.Dispatch(t.Context(), call); err != nil || out.Fault == nil || out.Fault.Code != fault.RateLimited {
		t.Error(out.Fault, err)
	}
}
