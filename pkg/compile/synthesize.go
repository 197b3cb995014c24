package compile

import (
	"slices"

	"kaged.dev/pkg/dsl"
)

// Synthesis is a project as one YAML document, or its errors.
type Synthesis struct {
	// YAML is nil if there are errors or missing files.
	YAML []byte
	// HasOverlay and HasReferences say whether the project has an overlay, and whether an agent refers to another
	// project. They are valid only if Wanted is empty.
	HasOverlay, HasReferences bool
	// Tools are the root agent's tools.
	Tools []string
	// Diagnostics and Wanted are as in [Output].
	Diagnostics []dsl.Diagnostic
	Wanted      []string
}

// Synthesize returns the resolved project as YAML (spec/http-api.md, GET /projects/:id/dsl/synthesized). Compiled by
// itself under the same rules, the YAML gives the same snapshot as the project, except for the line numbers of cage
// paths. Synthesize fails as Catalogue does.
func Synthesize(in Input) (Synthesis, error) {
	parsed := dsl.Parse(in.Files)
	out := Synthesis{
		HasOverlay: parsed.HasOverlay, HasReferences: parsed.HasReferences,
		Diagnostics: parsed.Diagnostics, Wanted: parsed.Wanted,
	}
	if parsed.Project == nil {
		return out, nil
	}
	tools, err := in.Catalogue()
	if err != nil {
		return out, err
	}
	r := resolver{catalogue: tools, operator: in.OperatorTools}
	root := r.agent(parsed.Project.Primary, true)
	out.Diagnostics = append(out.Diagnostics, r.diagnostics...)
	if slices.ContainsFunc(r.diagnostics, func(d dsl.Diagnostic) bool { return d.Severity == dsl.Error }) {
		return out, nil
	}
	out.Tools = root.Tools
	out.YAML, err = parsed.Project.Synthesize(func(a *dsl.Agent) []string { return r.defaults(a, a.Path == rootPath) })
	return out, err
}

// defaults returns the tools that the agent has without any setting for them.
func (r *resolver) defaults(a *dsl.Agent, isRoot bool) (names []string) {
	for _, d := range r.decide(a, isRoot) {
		if d.Enabled && d.By == ByDefault {
			names = append(names, d.Tool)
		}
	}
	return names
}
