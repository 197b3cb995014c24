// Package clitools makes tools from the commands that an operator declares in tools.yaml.
//
// A call runs one program with a list of arguments. No shell reads a value: values are validated by the schema of the
// parameters, inserted into their arguments, and reach the program unchanged. A file is refused if a shell declared by
// the operator, or a program that shellguard knows to pass its arguments to a shell, would read a value as commands. A
// value cannot become an option: if it would begin an argument with a hyphen the call is refused, unless the operator
// listed the value or wrote a -- before it; and a free value is never part of an option's name.
//
// The file belongs to the operator. Folders that agents can write, such as a project's, are never read for commands,
// and no program is looked up there.
package clitools

import (
	"fmt"
	"strings"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/catalogue"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// Namespace is the namespace of these tools; a tool's alias is its name without it.
const Namespace = "cli"

// Load reads tools.yaml and returns its tools and warnings. It fails with local_config_invalid, whose details hold
// path, line and column of the first error and all errors, for an invalid file or a name of a tool of builtin.
func Load(
	file string,
	data []byte,
	builtin []*tool.Entry,
	deps Deps,
) (entries []*tool.Entry, warnings []string, err error) {
	commands, diagnostics := dsl.ParseCommands(file, data)
	for i := range commands {
		if why := unusable(commands[i].Name, builtin); why != "" {
			diagnostics = append(diagnostics, dsl.Diagnostic{Kind: dsl.InvalidValue, Pos: commands[i].Pos, Message: why})
		}
		for _, text := range shellText(&commands[i]) {
			diagnostics = append(diagnostics, dsl.Diagnostic{Kind: dsl.InvalidValue, Pos: commands[i].Pos, Message: fmt.Sprintf(
				"In %q of %s a shell would read the value as commands; put it behind as an argument of its own, and write "+
					"\"$1\" here.",
				text,
				commands[i].Name,
			)})
		}
	}
	var wrong []dsl.Diagnostic
	for _, d := range diagnostics {
		if d.Severity == dsl.Warning {
			warnings = append(warnings, sentence(d))
			continue
		}
		wrong = append(wrong, d)
	}
	if len(wrong) > 0 {
		return nil, nil, refusal(wrong)
	}
	for i := range commands {
		entry, err := deps.entry(commands[i])
		if err != nil {
			return nil, nil, err
		}
		entries = append(entries, entry)
	}
	return entries, warnings, nil
}

// unusable returns the reason why a tool cannot have this name, "" if it can.
func unusable(name string, builtin []*tool.Entry) string {
	if why := catalogue.CheckName(name); why != "" {
		return "A tool cannot be called " + name + ": " + why + "."
	}
	for _, e := range builtin {
		if e.Name() == name {
			return "The name " + name + " is that of a tool of kaged's own; choose another."
		}
		for _, a := range e.Aliases {
			if a.Name == name {
				return "The name " + name + " is an alias of " + e.Name() + "; choose another."
			}
		}
	}
	return ""
}

func sentence(d dsl.Diagnostic) string { return d.Pos.String() + ": " + d.Message }

func refusal(wrong []dsl.Diagnostic) error {
	lines := make([]string, len(wrong))
	all := make([]any, len(wrong))
	for i, d := range wrong {
		lines[i] = sentence(d)
		all[i] = map[string]any{"line": d.Pos.Line, "column": d.Pos.Column, "path": d.Path, "reason": d.Message}
	}
	first := wrong[0].Pos
	return fault.New(fault.LocalConfigInvalid, "The operator's tools cannot be used:\n  %s", strings.Join(lines, "\n  ")).
		With("path", first.File).With("line", first.Line).With("column", first.Column).With("errors", all)
}
