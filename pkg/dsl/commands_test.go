package dsl

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sample is the example file of the specification.
const sample = "testdata/tools.yaml"

// The specification's example is parsed with programs, arguments, optional parts, and inherited variables (T-CLI-01,
// T-CLI-05, T-CLI-06, T-CLI-07, T-ENV-05).
func TestParseCommands(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	got, diags := ParseCommands("tools.yaml", data)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	text := func(s string) TemplatePart { return TemplatePart{Text: s} }
	param := func(s string) TemplatePart { return TemplatePart{Parameter: s} }
	want := []Command{
		{
			Name: "kubectl_get", Description: "Get Kubernetes resources", Category: "read", Program: "kubectl",
			Args:     []Template{{text("get")}, {param("resource")}},
			Optional: []OptionalArgs{{"namespace", []Template{{text("-n")}, {param("namespace")}}}},
			Parameters: []CommandParameter{
				{
					Name:        "resource",
					Type:        "string",
					Description: "The resource type",
					Enum:        []any{"pods", "services", "deployments", "configmaps", "secrets", "nodes", "namespaces"},
				},
				{
					Name:        "namespace",
					Type:        "string",
					Description: "The Kubernetes namespace",
					Pattern:     "^[a-z0-9-]+$",
					Optional:    true,
				},
			},
			Pos: Position{"tools.yaml", 2, 5},
		},
		{
			Name: "kubectl_apply", Description: "Apply a Kubernetes manifest", Category: "write", Program: "kubectl",
			Args: []Template{{text("apply")}, {text("-f")}, {param("file")}},
			Parameters: []CommandParameter{
				{Name: "file", Type: "string", Description: "Path to the manifest file", Pattern: "^[a-zA-Z0-9_./-]+$"},
			},
			Pos: Position{"tools.yaml", 19, 5},
		},
		{
			Name: "deploy_app", Description: "Runs deploy --env {{environment}}.", Category: "admin", Program: "deploy",
			Args: []Template{
				{text("--env")},
				{param("environment")},
			},
			Parameters: []CommandParameter{{Name: "environment", Type: "string"}},
			Env:        map[string]string{"DEPLOY_TOKEN": "${DEPLOY_TOKEN}"}, Timeout: 90 * time.Second, MaxOutput: 50 << 10,
			Pos: Position{"tools.yaml", 30, 5},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// command is a file of one tool with additional lines.
func command(lines string) string {
	text := "tools:\n  - name: t\n    category: read\n    cmd: x\n"
	for line := range strings.Lines(lines) {
		text += "    " + line
	}
	return text
}

// An invalid entry is refused with its position and a remedy (T-CLI-02, T-CLI-10).
func TestParseCommandsRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"no category": {
			"tools:\n  - {name: t, cmd: x}\n", `2:6: schema_violation: tools[0].category: category is required.`,
		},
		"another category": {
			"tools:\n  - {name: t, cmd: x, category: all}\n",
			`2:33: schema_violation: tools[0].category: category is read, write or admin, not "all".`,
		},
		"a shell's text": {
			command("command: rm -rf\n"),
			"5:5: schema_violation: tools[0].command: There is no key command: a tool is no text for a shell; write the " +
				"program under cmd and its arguments under args.",
		},
		"a misspelt key": {
			command("parameter: {}\n"),
			`5:5: schema_violation: tools[0].parameter: Unknown key "parameter"; did you mean "parameters"?`,
		},
		"a bad name": {
			"tools:\n  - {name: Kube Get, cmd: x, category: read}\n",
			`2:12: schema_violation: tools[0].name: name is "Kube Get" and must be a tool's name: a-z, 0-9, - and single _, ` +
				`beginning with a letter.`,
		},
		"a name twice": {
			command("") + "  - {name: t, category: read, cmd: y}\n",
			`5:12: invalid_value: tools[1].name: There are two tools called "t".`,
		},
		"a program of a project": {
			"tools:\n  - {name: t, category: read, cmd: ./bin/x}\n",
			`2:36: invalid_value: tools[0].cmd: cmd is the name of a program or its absolute path; "./bin/x" would be looked ` +
				`for in the project, where agents can write.`,
		},
		"a number as argument": {
			command("args: [-n, 5]\n"),
			`5:16: schema_violation: tools[0].args[1]: args[1] is text, not 5; put it in quotes if it is meant as text.`,
		},
		"a time without a unit": {
			command("timeout: 30\n"),
			`5:14: schema_violation: tools[0].timeout: timeout is 30 and has no unit; write 30s or 30m.`,
		},
		"no such parameter": {
			command("args: [\"{{resorce}}\"]\nparameters: {resource: {type: string}}\n"),
			`5:12: invalid_value: tools[0].args[0]: Unknown parameter "resorce"; did you mean "resource"?` + "\n" +
				`6:18: invalid_value: tools[0].parameters.resource: No argument uses resource; write {{resource}} where its ` +
				`value belongs.`,
		},
		"an undeclared option": {
			command("optional_args: {n: [\"-n\"]}\nparameters: {}\n"),
			`5:21: invalid_value: tools[0].optional_args.n: There is no parameter "n"; declare it under parameters.`,
		},
		"an option always given": {
			command("optional_args: {n: [\"-n\", \"{{n}}\"]}\nparameters: {n: {type: string}}\n"),
			`5:21: invalid_value: tools[0].optional_args.n: n is always given; say optional: true, or put its arguments ` +
				`under args.`,
		},
		"a gap in the arguments": {
			command("args: [\"{{n}}\"]\nparameters: {n: {type: string, optional: true}}\n"),
			`5:12: invalid_value: tools[0].args[0]: n may be left out, and this argument needs it; put the argument under ` +
				`optional_args.n.`,
		},
		"a broken placeholder": {
			command("args: [\"{{n}\"]\n"),
			`5:12: invalid_value: tools[0].args[0]: The argument "{{n}" holds a {{ that no }} ends.`,
		},
		"the option's own name": {
			command("args: [\"--{{n}}\"]\n"),
			`5:12: invalid_value: tools[0].args[0]: In "--{{n}}" the caller could choose which option this is; write the ` +
				`value as an argument of its own, or after =.`,
		},
		"an option's name's end": {
			command("args: [\"-x{{n}}\"]\n"),
			`5:12: invalid_value: tools[0].args[0]: In "-x{{n}}" the caller could choose which option this is; write the ` +
				`value as an argument of its own, or after =.`,
		},
		"a pattern for numbers": {
			command("args: [\"{{n}}\"]\nparameters: {n: {type: integer, pattern: x}}\n"),
			`6:37: invalid_value: tools[0].parameters.n.pattern: pattern is for strings; this is of type integer.`,
		},
		"no pattern": {
			command("args: [\"{{n}}\"]\nparameters: {n: {type: string, pattern: \"^(?=x)$\"}}\n"),
			"6:45: invalid_value: tools[0].parameters.n.pattern: The pattern is no regular expression (RE2): invalid or " +
				"unsupported Perl syntax: `(?=`.",
		},
		"another type": {
			command("args: [\"{{n}}\"]\nparameters: {n: {type: string, enum: [a, 5]}}\n"),
			`6:46: invalid_value: tools[0].parameters.n.enum[1]: The value 5 is not of type string; put it in quotes if it ` +
				`is meant as text.`,
		},
		"a default beside": {
			command("args: [\"{{n}}\"]\nparameters: {n: {type: string, enum: [a], default: b}}\n"),
			`6:56: invalid_value: tools[0].parameters.n.default: The default "b" is none of the values in enum.`,
		},
		"bounds the wrong way": {
			command("args: [\"{{n}}\"]\nparameters: {n: {type: integer, minimum: 5, maximum: 1}}\n"),
			`6:22: invalid_value: tools[0].parameters.n: The lower bound is greater than the upper one.`,
		},
		"a variable's name": {
			command("env: {\"A B\": x}\n"),
			`5:11: schema_violation: tools[0].env["A B"]: The key "A B" is not a variable's name.`,
		},
		"no YAML": {"tools: [", "1:8: parse_error: This is not valid YAML: sequence end token ']' not found."},
	} {
		commands, diags := ParseCommands("tools.yaml", []byte(c.file))
		var got []string
		for _, d := range diags {
			got = append(got, strings.TrimPrefix(d.String(), "tools.yaml:"))
		}
		if commands != nil || strings.Join(got, "\n") != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), c.want)
		}
	}
}

// Unusual but valid entries are accepted: an empty file, braces of the program's own, values after =, fixed values, and
// numbers after an option's letter. An unanchored pattern gives a warning.
func TestParseCommandsAccepts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file     string
		tools    int
		warnings int
	}{
		"an empty file":     {"", 0, 0},
		"no tools":          {"tools: []\n", 0, 0},
		"braces of its own": {command("args: [--format, \"{{.Names}}\", \"}}\", \"{{ }}\"]\n"), 1, 0},
		"a value after =":   {command("args: [\"--name={{ n }}\"]\n"), 1, 0},
		"a number":          {command("args: [\"-j{{n}}\"]\nparameters: {n: {type: integer}}\n"), 1, 0},
		"fixed values":      {command("args: [\"--{{n}}\"]\nparameters: {n: {type: string, enum: [all, none]}}\n"), 1, 0},
		"a flag":            {command("optional_args: {v: [\"-v\"]}\nparameters: {v: {type: boolean}}\n"), 1, 0},
		"a script's argument": {
			"tools: [{name: t, category: read, cmd: sh, args: [-c, 'echo \"$1\"', x, \"{{v}}\"]}]\n", 1, 0,
		},
		"no shell's -c":        {"tools: [{name: t, category: read, cmd: git, args: [-c, \"{{v}}\"]}]\n", 1, 0},
		"a default":            {command("args: [\"{{n}}\"]\nparameters: {n: {type: number, default: 1.5}}\n"), 1, 0},
		"an unanchored":        {command("args: [\"{{n}}\"]\nparameters: {n: {type: string, pattern: \"[a-z]\"}}\n"), 1, 1},
		"a name with a hyphen": {"tools: [{name: go-test, category: read, cmd: /usr/bin/go}]\n", 1, 0},
	} {
		commands, diags := ParseCommands("tools.yaml", []byte(c.file))
		errors := slices.ContainsFunc(diags, func(d Diagnostic) bool { return d.Severity == Error })
		if len(commands) != c.tools || len(diags) != c.warnings || errors {
			t.Errorf("%s: %d tools, %v", name, len(commands), diags)
		}
	}
}

// The example file of the recipe is parsed without errors and warnings.
func TestParseCommandsOfTheRecipe(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/howto/give-agents-a-command.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	file, _, _ := strings.Cut(rest, "```")
	if commands, diags := ParseCommands("tools.yaml", []byte(file)); len(commands) != 2 || len(diags) > 0 {
		t.Errorf("%d commands, %v", len(commands), diags)
	}
}

// ParseCommands returns commands or errors for any bytes, and every template formats as it was written.
func FuzzParseCommands(f *testing.F) {
	data, err := os.ReadFile(sample)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, seed := range []string{
		"", "tools:\n- &a {name: t}\n- *a\n", command("args: [\"{{a}}{{ b }}{{.c}}{{\"]\n"),
		command("optional_args: {a: [\"-n={{a}}\"]}\nparameters: {a: {type: boolean, default: true}}\n"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		commands, diags := ParseCommands("tools.yaml", data)
		failed := slices.ContainsFunc(diags, func(d Diagnostic) bool { return d.Severity == Error })
		if failed && commands != nil {
			t.Fatal("commands come with errors")
		}
		for _, c := range commands {
			for _, a := range c.Args {
				if again, ok := ParseTemplate(a.String()); !ok || again.String() != a.String() {
					t.Fatalf("%q reads as %q", a, again)
				}
			}
			for _, p := range c.Parameters {
				if p.Name == "" || p.Type == "" {
					t.Fatalf("parameter %+v", p)
				}
			}
		}
	})
}
