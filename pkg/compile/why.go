package compile

import (
	"fmt"
	"strings"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/dsl"
)

// String returns the layer's name in outputs, "" for the zero value.
func (l Layer) String() string {
	return [...]string{"", "default", "operator", "profile", "agent", "principal_scope"}[l]
}

// Place returns the position of an agent's pattern as file:line, "" for another layer.
func (d Decision) Place() string {
	if d.Pos.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", d.Pos.File, d.Pos.Line)
}

// Actions returns the actions that the agent has of a tool, nil if it has the whole tool.
func (d Decision) Actions() []string {
	if len(d.Names) > 0 && d.Names[0] != d.Tool {
		return d.Names
	}
	return nil
}

// Why gives the reason in a few words, and for a disabled tool the setting that enables it. defaultRoot is that of the
// catalogue.
func (d Decision) Why(defaultRoot bool) string {
	text := ""
	switch d.By {
	case ByScope:
		return "for the root agent only"
	case ByOperator:
		text = fmt.Sprintf("operator: [default_tools] %q", d.Pattern)
		if !d.Enabled {
			text += ", which no project overrides"
		}
	case ByProfile:
		text = "tools_profile: " + d.Pattern
	case ByAgent:
		text = fmt.Sprintf("tools: %q (%s)", d.Pattern, d.Place())
	default:
		text = d.defaultWhy(defaultRoot)
	}
	if d.ShownAs != "" {
		text += ", shown as " + d.ShownAs
	}
	if actions := d.Actions(); len(actions) > 0 {
		text += ", " + strings.Join(actions, ", ") + " only"
	}
	return text
}

func (d Decision) defaultWhy(defaultRoot bool) string {
	switch {
	case d.Enabled:
		return "default of a root agent"
	case defaultRoot:
		return "not in the agent's tools"
	case d.By == 0:
		return "listed since the project was compiled"
	}
	return "not given: tools: {" + d.Tool + ": {enabled: true}}"
}

// Explained is an agent with the decisions about its tools.
type Explained struct {
	Agent *dsl.Agent
	// Decisions are about every tool of the catalogue, in its order.
	Decisions []Decision
}

// ExplainAll explains the tools of every agent of a project, parents before children, and returns the catalogue. The
// list is empty for files that do not compile. It fails as Catalogue does.
func ExplainAll(in Input) ([]Explained, catalogue.Tools, error) {
	parsed := dsl.Parse(in.Files)
	if parsed.Project == nil {
		return nil, nil, nil
	}
	tools, err := in.Catalogue()
	if err != nil {
		return nil, nil, err
	}
	r := resolver{catalogue: tools, operator: in.OperatorTools}
	var list []Explained
	for a := range parsed.Project.Agents {
		list = append(list, Explained{a, r.decide(a, a == parsed.Project.Primary)})
	}
	return list, tools, nil
}
