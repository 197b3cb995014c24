// Package compile turns a project's files into the snapshot that its sessions run on. It is pure: equal files, rules
// and catalogue give an equal snapshot.
package compile

import (
	"slices"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/dsl"
)

// Input are the facts that decide a snapshot.
type Input struct {
	// Files are the files known so far.
	Files []dsl.File
	// OperatorTools are the operator's default_tools, in order.
	OperatorTools []catalogue.Switch
	// Catalogue returns the known tools. It is called once, and only if the files are complete and valid.
	Catalogue func() (catalogue.Tools, error)
}

// Output is a snapshot, or the list of its missing files.
type Output struct {
	// Project is nil if there are errors or missing files.
	Project *Project
	// Diagnostics are the errors and warnings.
	Diagnostics []dsl.Diagnostic
	// Wanted are the missing files, to be added for the next call.
	Wanted []string
	// Aliases and Prompts are the used names.
	Aliases, Prompts []dsl.Reference
}

// Compile compiles. It fails only if Catalogue fails.
func Compile(in Input) (Output, error) {
	parsed := dsl.Parse(in.Files)
	out := Output{Diagnostics: parsed.Diagnostics, Wanted: parsed.Wanted}
	if parsed.Project == nil {
		return out, nil
	}
	tools, err := in.Catalogue()
	if err != nil {
		return Output{}, err
	}
	r := resolver{catalogue: tools, operator: in.OperatorTools}
	p := parsed.Project
	root := r.agent(p.Primary, true)
	out.Aliases, out.Prompts = p.Aliases, p.Prompts
	out.Diagnostics = append(out.Diagnostics, r.diagnostics...)
	if !slices.ContainsFunc(r.diagnostics, func(d dsl.Diagnostic) bool { return d.Severity == dsl.Error }) {
		out.Project = &Project{
			Slug: p.Slug, Description: p.Description, Version: p.Version, Root: root, LanguageServers: p.LanguageServers,
			Debugging: p.Debugging,
		}
		for i := range tools {
			t := &tools[i]
			given := t.Given(root.Tools)
			off := slices.DeleteFunc(t.Units(), func(unit string) bool { return slices.Contains(given, unit) })
			if len(off) > 0 {
				out.Project.ToolsOff = append(out.Project.ToolsOff, t.NamesOf(off)...)
			}
		}
	}
	return out, nil
}
