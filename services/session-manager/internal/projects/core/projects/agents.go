package projects

import (
	"context"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/compile"
)

// Agents are the agents of a project with their tools.
type Agents struct {
	// List has parents before children.
	List []compile.Explained
	// Catalogue is the workspace's tools.
	Catalogue catalogue.Tools
	// Bindings are the first targets of bound aliases.
	Bindings map[string]string
}

// Agents returns the agents of a project's approved version under the operator's present rules. It fails with
// not_found, with project_not_ready before the first approval, with local_config_invalid, and with unavailable if the
// workspace cannot be reached.
func (s *Service) Agents(ctx context.Context, owner, id string) (Agents, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return Agents{}, err
	}
	if p.CompiledHash == "" {
		return Agents{}, unapproved()
	}
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return Agents{}, err
	}
	var out Agents
	out.List, out.Catalogue, err = compile.ExplainAll(compile.Input{
		Files: p.Sources, OperatorTools: cfg.ToolRules(),
		Catalogue: func() (catalogue.Tools, error) { return s.Workspace.Catalogue(ctx, p.Workspace) },
	})
	out.Bindings = map[string]string{}
	for _, a := range out.List {
		if target, bound := cfg.Binding(a.Agent.Model); bound {
			out.Bindings[a.Agent.Model] = target
		}
	}
	return out, err
}
