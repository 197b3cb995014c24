package compile

import (
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// Layer is a source of a decision about an agent's tools.
type Layer int

// The layers, in the order of application.
const (
	ByDefault  Layer = iota + 1 // the defaults of the root agent; other agents have no defaults
	ByOperator                  // the operator's default_tools
	ByProfile                   // the agent's tools_profile
	ByAgent                     // the agent's tools
	ByScope                     // the tool is for the root agent only, and this is another agent
)

// Decision is the reason why an agent has or lacks a tool.
type Decision struct {
	// Tool is the canonical name.
	Tool string
	// Enabled is true if the agent has the tool or some of its actions; Names are the names that grant it.
	Enabled bool
	Names   []string
	By      Layer
	// Pattern is the deciding pattern of the operator or the agent, or the name of the profile.
	Pattern string
	// Pos is the position of an agent's pattern.
	Pos dsl.Position
	// ShownAs is the alias that the model sees, "" for the canonical name.
	ShownAs string
}

// Explanation is an agent's tools with the reasons, or the missing files.
type Explanation struct {
	// Agent is nil if there are errors or missing files.
	Agent *dsl.Agent
	// Decisions has one entry for each tool of the catalogue, in its order.
	Decisions []Decision
	// Project is the project's slug, Agents are the tree paths of its agents.
	Project string
	Agents  []string
	// AnyCaged is true if an agent of the project has a cage. LanguageServers are those that the project declares.
	AnyCaged        bool
	LanguageServers []dsl.LanguageServer
	// Debugging are the project's settings for debugging its programs.
	Debugging dsl.Debugging
	// Diagnostics and Wanted are as in [Output].
	Diagnostics []dsl.Diagnostic
	Wanted      []string
}

// Explain explains the tools of the agent at a tree path, the root for "". Without files it explains the root agent of
// a project without tool settings. It fails with not_found for an unknown agent, and if Catalogue fails.
func Explain(in Input, agent string) (Explanation, error) {
	root := &dsl.Agent{Key: rootPath, Path: rootPath}
	out := Explanation{Agents: []string{rootPath}}
	if len(in.Files) > 0 {
		parsed := dsl.Parse(in.Files)
		out.Diagnostics, out.Wanted = parsed.Diagnostics, parsed.Wanted
		if parsed.Project == nil {
			return out, nil
		}
		root, out.Project, out.Agents = parsed.Project.Primary, parsed.Project.Slug, nil
		out.LanguageServers, out.Debugging = parsed.Project.LanguageServers, parsed.Project.Debugging
		for a := range parsed.Project.Agents {
			out.Agents = append(out.Agents, a.Path)
			out.AnyCaged = out.AnyCaged || a.Cage != nil
		}
	}
	found := find(root, agent)
	if found == nil {
		return out, fault.New(fault.NotFound, "The project has no agent %.200q.", agent).With("agent", agent).
			With("agents", anys(out.Agents))
	}
	tools, err := in.Catalogue()
	if err != nil {
		return out, err
	}
	r := resolver{catalogue: tools, operator: in.OperatorTools}
	r.checkPatterns(found, found == root)
	out.Agent, out.Decisions = found, r.decide(found, found == root)
	out.Diagnostics = append(out.Diagnostics, r.diagnostics...)
	return out, nil
}

// rootPath is the tree path of a project's root agent.
const rootPath = "primary"

func find(a *dsl.Agent, path string) *dsl.Agent {
	if path == "" || a.Path == path {
		return a
	}
	for _, child := range a.Subagents {
		if found := find(child, path); found != nil {
			return found
		}
	}
	return nil
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
