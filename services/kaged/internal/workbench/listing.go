package workbench

import (
	"context"
	"strings"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Listing is the catalogue for one agent.
type Listing struct {
	// Project is the project's slug, empty without a project. Agent is the tree path of the agent, Agents are those of all
	// agents.
	Project string   `json:"project"`
	Agent   string   `json:"agent"`
	Agents  []string `json:"agents"`
	// Caged is true if the agent has a cage.
	Caged bool `json:"caged"`
	// Tools are all tools in the catalogue's order.
	Tools []Tool `json:"tools"`
	// Children are the agents that the agent can call, in the order of their keys.
	Children []Child `json:"children"`
	// Warnings are warnings about the project, one sentence each.
	Warnings []string `json:"warnings"`
}

// Child is an agent for its calling parent.
type Child struct {
	// Tool is the name of the tool that calls it, Agent its tree path.
	Tool        string `json:"tool"`
	Agent       string `json:"agent"`
	Description string `json:"description"`
	// Caged is true if the agent has a cage.
	Caged bool `json:"caged"`
}

// Tool is one tool for one agent.
type Tool struct {
	Name        string `json:"name"`
	Namespace   string `json:"namespace"`
	Description string `json:"description"`
	Category    string `json:"category"`
	// Source is builtin, cli or plugin; Plugin names the plugin.
	Source string `json:"source"`
	Plugin string `json:"plugin_name,omitempty"`
	// PrincipalScope is root-only for tools of the root agent, else empty.
	PrincipalScope string `json:"principal_scope,omitempty"`
	DefaultRoot    bool   `json:"default_root"`
	Parallel       bool   `json:"parallel"`

	// Enabled is true if the agent has the tool. DecidedBy is the layer that determined this, Pattern the matching
	// pattern, and Place the pattern's position in the configuration.
	Enabled   bool   `json:"enabled"`
	DecidedBy string `json:"decided_by"`
	Pattern   string `json:"pattern,omitempty"`
	Place     string `json:"place,omitempty"`
	// Actions are the names of the actions that the agent has, if it does not have all actions of the tool.
	Actions []string `json:"actions,omitempty"`
	// ShownAs is the alias in the catalogue for the model.
	ShownAs string `json:"shown_as,omitempty"`
	// Usable is true if the agent has the tool and a call of it can succeed. Why is the reason for either value. Denied is
	// the code with which a call would fail.
	Usable bool   `json:"usable"`
	Why    string `json:"why"`
	Denied string `json:"denied,omitempty"`

	Requires   []Requirement  `json:"requires"`
	Limits     []Limit        `json:"limits"`
	Aliases    []Alias        `json:"aliases"`
	Parameters map[string]any `json:"parameters"`
	Returns    map[string]any `json:"returns"`
}

// Requirement is one grant that a caller's cage must have.
type Requirement struct {
	Kind string `json:"kind"`
	Mode string `json:"mode,omitempty"`
	Path string `json:"path,omitempty"`
	// Name is the capability, or the target of net and seccomp.
	Name    string `json:"name,omitempty"`
	Target  string `json:"target,omitempty"`
	Profile string `json:"profile,omitempty"`
}

// Limit is a limit of a tool.
type Limit struct {
	Key   string `json:"key,omitempty"`
	Value int64  `json:"value"`
	Unit  string `json:"unit"`
	Doc   string `json:"doc"`
}

// Alias is another name of a tool.
type Alias struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
}

// AliasNames are the tool's other names.
func (t Tool) AliasNames() []string {
	names := make([]string, len(t.Aliases))
	for i, a := range t.Aliases {
		names[i] = a.Name
	}
	return names
}

// List returns the catalogue for an agent of the project, "" for the root. It fails as [Bench.Explain] does, and with
// not_found for another agent if there is no project.
func (b *Bench) List(ctx context.Context, agent string) (Listing, error) {
	explained, warnings, err := b.Explain(ctx, agent)
	if err != nil {
		return Listing{}, err
	}
	cage := explained.Agent.Cage
	tools, err := b.Catalogue(ctx, Caller{Agent: explained.Agent.Path, Cage: cage.Proto()})
	if err != nil {
		return Listing{}, err
	}
	l := Listing{
		Project: explained.Project, Agent: explained.Agent.Path, Agents: explained.Agents, Caged: cage != nil,
		Warnings: append([]string{}, warnings...), Children: []Child{},
	}
	for _, c := range explained.Agent.Subagents {
		l.Children = append(l.Children, Child{contract.AgentTool + c.Key, c.Path, c.Description, c.Cage != nil})
	}
	if ignored, err := b.projectTools(ctx); err != nil {
		return Listing{}, err
	} else if ignored {
		l.Warnings = append(l.Warnings, projectToolsFile+
			" is not read, because agents can write it; declare commands in tools.yaml beside the operator's local.toml.")
	}
	decisions := map[string]compile.Decision{}
	for _, d := range explained.Decisions {
		decisions[d.Tool] = d
	}
	for _, t := range tools {
		l.Tools = append(l.Tools, toolOf(t, decisions[t.GetName()]))
	}
	return l, nil
}

// projectToolsFile is a file of a project with commands, which kaged does not read.
const projectToolsFile = ".kaged/tools.yaml"

// projectTools reports whether the project has such a file.
func (b *Bench) projectTools(ctx context.Context) (bool, error) {
	files, err := b.read(ctx, []string{projectToolsFile})
	return err == nil && files[0].Present, err
}

var categories = map[toolrunnerv1.Category]string{
	toolrunnerv1.Category_CATEGORY_READ: "read", toolrunnerv1.Category_CATEGORY_WRITE: "write",
	toolrunnerv1.Category_CATEGORY_ADMIN: "admin",
}

var limitUnits = map[toolrunnerv1.LimitUnit]string{
	toolrunnerv1.LimitUnit_LIMIT_UNIT_BYTES: "bytes", toolrunnerv1.LimitUnit_LIMIT_UNIT_MILLISECONDS: "ms",
	toolrunnerv1.LimitUnit_LIMIT_UNIT_COUNT: "count",
}

func toolOf(t *toolrunnerv1.Tool, d compile.Decision) Tool {
	out := Tool{
		Name: t.GetName(), Namespace: t.GetNamespace(), Description: t.GetDescription(),
		Category: categories[t.GetCategory()],
		Source:   t.GetSource(), Plugin: t.GetPlugin(), DefaultRoot: t.GetDefaultRoot(), Parallel: t.GetParallel(),
		Enabled: d.Enabled, DecidedBy: d.By.String(), Pattern: d.Pattern, ShownAs: d.ShownAs,
		Parameters: t.GetInputSchema().AsMap(), Returns: t.GetOutputSchema().AsMap(),
		Requires: []Requirement{}, Limits: []Limit{}, Aliases: []Alias{},
	}
	out.Actions = d.Actions()
	if t.GetRootOnly() {
		out.PrincipalScope = "root-only"
	}
	out.Place = d.Place()
	for _, r := range t.GetRequires() {
		out.Requires = append(out.Requires, requirementOf(r))
	}
	for _, l := range t.GetLimits() {
		out.Limits = append(out.Limits, Limit{
			Key: l.GetKey(), Value: l.GetValue(), Unit: limitUnits[l.GetUnit()], Doc: l.GetDoc(),
		})
	}
	for _, a := range t.GetAliases() {
		out.Aliases = append(out.Aliases, Alias{a.GetName(), a.GetDescription(), a.GetInputSchema().AsMap()})
	}
	reason := fault.FromProto(t.GetAvailability().GetReason())
	out.Usable = out.Enabled && reason == nil
	out.Why = why(out, d, reason)
	if reason != nil {
		out.Denied = reason.Code.String()
	} else if !out.Enabled {
		out.Denied = fault.ToolNotFound.String()
	}
	return out
}

func requirementOf(r *toolrunnerv1.ToolRequirement) Requirement {
	out := Requirement{Kind: r.GetKind(), Mode: r.GetMode(), Path: r.GetPath()}
	switch r.GetKind() {
	case "net":
		out.Target = r.GetName()
	case "seccomp":
		out.Profile = r.GetName()
	default:
		out.Name = r.GetName()
	}
	return out
}

// why returns the reason of a decision about a tool in a few words, and for a disabled tool the way to enable it.
func why(t Tool, d compile.Decision, reason *fault.Error) string {
	if t.Enabled && reason != nil {
		return strings.TrimSuffix(reason.Msg, ".")
	}
	d.Tool = t.Name // a tool that the decisions do not know has an empty one
	return d.Why(t.DefaultRoot)
}
