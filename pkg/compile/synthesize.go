package compile

import (
	"slices"

	"kaged.dev/pkg/dsl"
)

// Synthesis is a project as one document, or its errors.
type Synthesis struct {
	// YAML is nil while there are errors or wanted files.
	YAML []byte
	// HasOverlay and HasReferences say whether the project has an overlay, and whether an agent refers to another
	// project. They are known once every file is there.
	HasOverlay, HasReferences bool
	// Tools are the root agent's.
	Tools []string
	// Diagnostics and Wanted are as in [Output].
	Diagnostics []dsl.Diagnostic
	Wanted      []string
}

// Synthesize returns the resolved project as YAML (spec/http-api.md, GET /projects/:id/dsl/synthesized): compiled alone
// under the same rules it makes the snapshot that the project makes, but for the lines that the paths of cages are
// written in. It fails as Catalogue does.
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

// defaults returns the tools that an agent has without any setting about them.
func (r *resolver) defaults(a *dsl.Agent, isRoot bool) (names []string) {
	for _, d := range r.decide(a, isRoot) {
		if d.Enabled && d.By == ByDefault {
			names = append(names, d.Tool)
		}
	}
	return names
}
