package projects

import (
	"context"
	"slices"
	"strings"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/dsl"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

// compile compiles files with the tools of a workspace.
func (s *Service) compile(
	ctx context.Context, workspace string, files []dsl.File, rules []catalogue.Switch,
) (CompileOutput, error) {
	compiled, err := compile.Compile(compile.Input{
		Files: files, OperatorTools: rules,
		Catalogue: func() (catalogue.Tools, error) { return s.Workspace.Catalogue(ctx, workspace) },
	})
	if err != nil {
		return CompileOutput{}, err
	}
	out := CompileOutput{
		Wanted: compiled.Wanted, Diagnostics: diagnostics(compiled.Diagnostics),
		Aliases: references(compiled.Aliases), Prompts: references(compiled.Prompts),
	}
	p := compiled.Project
	if p == nil {
		return out, nil
	}
	encoded, hash, err := p.Encode()
	if err != nil {
		return CompileOutput{}, err
	}
	out.ID, out.Description, out.Version = p.Slug, p.Description, p.Version
	out.Snapshot = &Snapshot{Hash: hash, Compiled: encoded, Outline: outlineOf(p)}
	return out, nil
}

//convert:one diagnostics []dsl.Diagnostic []Diagnostic >list
//convert:one diagnosticOf dsl.Diagnostic Diagnostic Pos.File=File Pos.Line=Line Pos.Column=Column
//convert:with >Warning=in.Severity==dsl.Warning
//convert:one references []dsl.Reference []Reference >list
//convert:one referenceOf dsl.Reference Reference >SHA256=- >Writable=-

// outlineOf returns the outline of a compiled project.
func outlineOf(p *compile.Project) Outline {
	root := p.Root
	if root == nil {
		root = &compile.Agent{}
	}
	out := Outline{
		RootModel: root.Model, ResumeOnCrash: root.ResumeOnCrash, Caged: root.Cage != nil,
		LanguageServers: p.LanguageServers, Debugging: p.Debugging,
		Capabilities: Capabilities{Tools: root.Tools, ToolsOff: p.ToolsOff},
	}
	if root.Cage != nil {
		out.Capabilities.Net = root.Cage.Net
		for _, m := range root.Cage.FS {
			out.Capabilities.Mounts = append(out.Capabilities.Mounts, m.Path)
		}
	}
	aliases, prompts := users{}, users{}
	for a := range p.Root.Agents {
		out.Capabilities.Agents = append(out.Capabilities.Agents, AgentCage{
			Path: a.Path, Caged: a.Cage != nil, Summary: a.Cage.Summary(),
		})
		aliases.add(a.Model, a.Path)
		prompts.add(a.PromptPath, a.Path+".system_prompt")
		if a.AgentsMD {
			prompts.add(dsl.InstructionsPath, a.Path+".instructions")
		}
		if c := a.Compaction; c != nil {
			if c.Strategy != "" {
				if out.Strategies == nil {
					out.Strategies = map[string]string{}
				}
				out.Strategies[a.Path] = c.Strategy
			}
			aliases.add(c.SummarizeModel, a.Path+".compaction.summarize")
			prompts.add(c.SummarizePrompt, a.Path+".compaction.summarize.prompt")
		}
		out.Agents = append(out.Agents, approval.Agent{
			Path: a.Path, Model: a.Model, Prompt: a.PromptPath, Tools: a.Tools, Writes: a.Writes, MaxSteps: a.MaxSteps,
			MaxOutputTokens: a.MaxOutputTokens, Cage: a.Cage, Budget: a.Budget, Policy: a.Policy, ResumeOnCrash: a.ResumeOnCrash,
			AutoTodos: a.AutoTodos, ApproveWrites: a.ApproveWrites,
		})
	}
	out.Aliases, out.Prompts = aliases.references(), prompts.references()
	return out
}

// users are the tree paths of the agents that use a name.
type users map[string][]string

func (u users) add(name, by string) {
	if name != "" {
		u[name] = append(u[name], by)
	}
}

func (u users) references() []Reference {
	out := make([]Reference, 0, len(u))
	for name, by := range u {
		out = append(out, Reference{Name: name, UsedBy: by})
	}
	slices.SortFunc(out, func(a, b Reference) int { return strings.Compare(a.Name, b.Name) })
	return out
}
