package dsl

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/catalogue"
)

// build turns a validated and flattened document into a Project and reports errors that need the whole document.
func (l *loader) build(doc *node) *Project {
	p := &Project{
		Version: int(first(doc.get("version").numberOrZero())), Slug: doc.str("project"), Description: doc.str("description"),
		positions: map[string]Position{}, document: doc,
	}
	b := builder{loader: l, project: p, bounds: map[*Agent]*Budget{}}
	for _, e := range doc.entries {
		b.locate(e, e.key)
	}
	p.Primary = b.agent(doc.get("primary"), "primary", "primary", nil)
	p.Workflows = b.workflows(doc)
	p.LanguageServers = b.languageServers(doc.get("lsp"))
	p.Debugging = b.debugging(doc.get("dap"))
	p.Prompts, p.Aliases = sortedReferences(b.prompts), sortedReferences(b.aliases)
	b.checkPrompts()
	return p
}

type builder struct {
	*loader
	project *Project
	prompts []Reference
	aliases []Reference
	// bounds are the effective limits of an agent: those of its own and of its ancestors' budgets; an agent without a
	// limit is missing.
	bounds map[*Agent]*Budget
}

// locate records the positions of a value and of the values inside it. Agents locate their own subagents, because these
// keep their tree paths in every file.
func (b *builder) locate(e entry, tree string) {
	b.project.positions[tree] = e.value.pos
	if e.value.kind == mapNode {
		for _, sub := range e.value.entries {
			b.locate(sub, join(tree, sub.key))
		}
	}
}

func (b *builder) agent(n *node, key, tree string, parent *Agent) *Agent {
	a := &Agent{
		Key: key, Path: tree, Name: cmp.Or(n.str(nameKey), n.get(SourceKey).str("name")),
		ProjectRef: cmp.Or(n.str(refKey), sourceFolder(n)),
		Model:      n.str("model"), Description: n.str("description"), ToolsProfile: n.str("tools_profile"),
		MaxSteps:        int(first(n.get("max_steps").numberOrZero())),
		MaxOutputTokens: int(first(n.get("max_output_tokens").numberOrZero())),
		ResumeOnCrash:   n.str("on_crash") == "resume", IncludeToolResults: true,
		ParentContext: parent != nil && n.str("context") == "parent",
		ApproveWrites: n.str("approve") == "writes" || parent != nil && parent.ApproveWrites,
	}
	if v := n.get("include_tool_results_in_context"); v != nil && v.kind == boolNode {
		a.IncludeToolResults = v.flag
	}
	if i := n.get("instructions"); i != nil && i.kind == mapNode {
		a.AgentsMD, a.Skills = i.get("agents_md").isTrue(), i.get("skills").isTrue()
	}
	if parent != nil {
		a.AutoTodos = n.str("todo_review") == "auto"
	} else {
		b.belowRoot(n, tree, "context", "todo_review")
	}
	if parent != nil && a.ProjectRef == "" {
		a.ProjectRef = parent.ProjectRef
	}
	prompt := n.get("system_prompt")
	a.Prompt = promptPath(prompt.text, rootOf(prompt.pos.File))
	b.prompts = used(b.prompts, a.Prompt, tree+".system_prompt")
	if a.AgentsMD {
		b.prompts = used(b.prompts, InstructionsPath, tree+".instructions")
	}
	b.aliases = used(b.aliases, a.Model, tree)
	if tools := n.get("tools"); tools != nil {
		for _, e := range tools.entries {
			a.Tools = append(a.Tools, ToolSwitch{
				Switch: catalogue.Switch{Pattern: e.key, Enabled: e.value.get("enabled").flag}, Pos: e.keyPos,
			})
		}
		b.principalScope(a, parent)
	}
	b.cage(a, n, parent)
	b.budget(a, n, parent)
	b.extras(a, n, parent)
	if subagents := n.get("subagents"); subagents != nil {
		for _, e := range subagents.entries {
			a.Subagents = append(a.Subagents, b.agent(e.value, e.key, join(tree+".subagents", e.key), a))
		}
		slices.SortFunc(a.Subagents, func(x, y *Agent) int { return cmp.Compare(x.Key, y.Key) })
	}
	return a
}

// principalScope refuses tools of the kaged namespace to a subagent, because they are the root's, except
// kaged.checkpoint.
func (b *builder) principalScope(a *Agent, parent *Agent) {
	for _, s := range a.Tools {
		isKaged := s.Pattern == "kaged" || strings.HasPrefix(s.Pattern, "kaged.")
		if parent != nil && s.Enabled && isKaged && s.Pattern != "kaged.checkpoint" {
			b.diags.errorf(PrincipalScope, s.Pos, join(a.Path+".tools", s.Pattern), "%q is for the root agent only.", s.Pattern)
		}
	}
}

// cage sets the cage of a. Without a cage key a child has its parent's cage. A child of a caged parent always has a
// cage, which is never wider.
func (b *builder) cage(a *Agent, n *node, parent *Agent) {
	e := n.entry("cage")
	switch {
	case e == nil:
		if parent != nil {
			a.Cage = parent.Cage
		}
	case e.value.kind == mapNode:
		a.Cage = buildCage(e.value, func(v *node) string { return rootOf(v.pos.File) })
		checkCage(a.Cage, e.value, a.Path+".cage", &b.diags)
		if parent != nil && parent.Cage != nil {
			var excess []Excess
			a.Cage, excess = Narrow(parent.Cage, a.Cage)
			for _, x := range excess {
				b.diags.errorf(CageWiderThanParent, e.value.at(x.Field).pos, a.Path+".cage."+x.Field, "%s", x.Message)
			}
		}
	case parent != nil && parent.Cage != nil:
		b.diags.errorf(CageWiderThanParent, e.value.pos, a.Path+".cage",
			"An agent below one in a cage needs a cage, so that it can reach no more than its parent.")
	case parent != nil:
		b.diags.warnf(Uncaged, e.value.pos, a.Path, "The agent runs without a cage.")
	}
}

// belowRoot warns of keys of the root agent that instruct the caller, because the root has no caller.
func (b *builder) belowRoot(root *node, path string, keys ...string) {
	for _, key := range keys {
		if e := root.entry(key); e != nil {
			b.diags.warnf(NotInForce, e.keyPos, path+"."+key, "%s has an effect on agents below the root only.", key)
		}
	}
}

func (b *builder) extras(a *Agent, n *node, parent *Agent) {
	if plugins := n.get("plugins"); plugins != nil {
		for _, e := range plugins.entries {
			p := Plugin{Slot: e.key, Package: e.value.str("package"), Source: e.value.str("source")}
			if c := e.value.get("config"); c != nil {
				p.Config, _ = c.value().(map[string]any)
			}
			a.Plugins = append(a.Plugins, p)
		}
	}
	if parent != nil {
		a.Compaction = parent.Compaction
	}
	if c := n.get("compaction"); c != nil && c.kind == mapNode {
		a.Compaction = b.compaction(c, a, n)
	}
	if p := n.get("policy"); p != nil && p.kind == mapNode {
		a.Policy = b.policy(p, a.Path)
	}
}

func (b *builder) policy(n *node, agent string) *Policy {
	p := &Policy{TokenHardLimit: int64(first(n.get("token_hard_limit").numberOrZero())), OnExceed: n.str("on_exceed")}
	if v := n.get("on_exceed"); v != nil && p.OnExceed == "truncate" {
		b.diags.warnf(NotInForce, v.pos, agent+".policy.on_exceed", "%s",
			NotInForceReason("on_exceed: truncate", "a request that is too long fails"))
	}
	if v := n.get("redact_secrets"); v != nil && v.kind == boolNode {
		p.ShowSecrets = !v.flag
	}
	for _, item := range n.list("content_gates") {
		gate := ContentGate{Pattern: item.text, Action: GateRedact}
		if item.kind == mapNode {
			gate = ContentGate{Pattern: item.str("pattern"), Action: cmp.Or(item.str("action"), GateRedact)}
		}
		if gate.Pattern != "" {
			p.ContentGates = append(p.ContentGates, gate)
		}
	}
	return p
}

func (b *builder) workflows(doc *node) []Workflow {
	var out []Workflow
	for _, item := range doc.list("workflows") {
		w := Workflow{
			Name: item.str("name"), Description: item.str("description"), InvokableBy: item.strings("invokable_by"),
			Timeout: time.Duration(first(item.get("timeout_seconds").numberOrZero())) * time.Second,
		}
		if slices.ContainsFunc(out, func(o Workflow) bool { return o.Name == w.Name }) {
			b.diags.errorf(InvalidValue, item.pos, "workflows", "There are two workflows called %q.", w.Name)
		}
		if inputs := item.get("inputs"); inputs != nil {
			for _, e := range inputs.entries {
				in := WorkflowInput{Name: e.key, Type: e.value.str("type"), Description: e.value.str("description")}
				if v := e.value.get("required"); v != nil {
					in.Required = v.flag
				}
				if v := e.value.get("default"); v != nil {
					in.Default = v.value()
				}
				w.Inputs = append(w.Inputs, in)
			}
		}
		out = append(out, w)
	}
	return out
}

// languageServers returns the project's language servers by language.
func (b *builder) languageServers(lsp *node) []LanguageServer {
	if lsp == nil {
		return nil
	}
	var out []LanguageServer
	for _, item := range lsp.list("servers") {
		s := LanguageServer{Lang: item.str("lang"), Command: item.strings("command")}
		for _, ext := range item.strings("extensions") {
			s.Extensions = append(s.Extensions, strings.ToLower(ext))
		}
		if slices.ContainsFunc(out, func(o LanguageServer) bool { return o.Lang == s.Lang }) {
			b.diags.errorf(InvalidValue, item.pos, "lsp.servers", "There are two language servers for %q.", s.Lang)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(x, y LanguageServer) int { return cmp.Compare(x.Lang, y.Lang) })
	return out
}

// checkPrompts requests the prompt files that are not loaded and refuses files that cannot be prompts.
func (b *builder) checkPrompts() {
	for i := range b.project.Prompts {
		prompt := &b.project.Prompts[i]
		f, known := b.files[prompt.Name]
		prompt.Present = known && f.Present
		switch {
		case !known:
			b.want(prompt.Name)
		case !f.Present && f.Reason != "" && prompt.Name != InstructionsPath:
			for _, user := range prompt.UsedBy {
				b.diags.errorf(
					PromptRefused,
					b.project.Position(user),
					user,
					"The prompt %s cannot be used: %s.",
					prompt.Name,
					sentence(f.Reason),
				)
			}
		}
	}
}

func used(list []Reference, name, by string) []Reference {
	for i := range list {
		if list[i].Name == name {
			list[i].UsedBy = append(list[i].UsedBy, by)
			return list
		}
	}
	return append(list, Reference{Name: name, UsedBy: []string{by}})
}

func sortedReferences(list []Reference) []Reference {
	slices.SortFunc(list, func(a, b Reference) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
