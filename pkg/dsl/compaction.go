package dsl

import "cmp"

func (b *builder) compaction(c *node, a *Agent, agent *node) *Compaction {
	out := &Compaction{Strategy: c.str("strategy"), AlwaysKeep: c.strings("always_keep")}
	out.UpperThreshold, _ = c.get("upper_threshold").numberOrZero()
	out.LowerThreshold, _ = c.get("lower_threshold").numberOrZero()
	b.thresholds(c, out, a.Path)
	b.inForce(c, a.Path)
	if p := c.get("prune"); p != nil && p.kind == mapNode {
		out.Prune = prune(p)
	}
	if s := c.get("summarize"); s != nil {
		out.SummarizeModel = s.str("model")
		if out.SummarizeModel != "" {
			b.aliases = used(b.aliases, out.SummarizeModel, a.Path+".compaction.summarize")
		}
		if prompt := s.get("prompt"); prompt != nil && prompt.kind == stringNode {
			out.SummarizePrompt = promptPath(prompt.text, rootOf(prompt.pos.File))
			b.prompts = used(b.prompts, out.SummarizePrompt, a.Path+".compaction.summarize.prompt")
		}
	}
	if d := c.get("delegate"); d != nil && d.kind == mapNode {
		out.DelegatePlugin = d.str("plugin")
		switch {
		case out.DelegatePlugin == Summarizer && out.SummarizeModel == "":
			b.diags.errorf(InvalidValue, d.pos, a.Path+".compaction.delegate.plugin",
				"%s needs a model: set compaction.summarize.model.", Summarizer)
		case out.DelegatePlugin != Summarizer && agent.get("plugins").entry(out.DelegatePlugin) == nil:
			b.diags.errorf(InvalidValue, d.pos, a.Path+".compaction.delegate.plugin",
				"The agent has no plugin in the slot %q, and %s is the only built-in one.", out.DelegatePlugin, Summarizer)
		}
	}
	if k := c.get("checkpoint"); k != nil {
		out.CheckpointFallback = k.str("fallback")
	}
	return out
}

// keepPattern is the form of an entry of always_keep.
var keepPattern = newPattern(`^(role:(user|assistant|tool)|tool:.+|text:[\s\S]+)$`,
	"role:ROLE, tool:GLOB or text:LITERAL")

// thresholds checks that the lower threshold is below the upper one.
func (b *builder) thresholds(c *node, out *Compaction, agent string) {
	upper, lower := cmp.Or(out.UpperThreshold, DefaultUpperThreshold), cmp.Or(out.LowerThreshold, DefaultLowerThreshold)
	if lower < upper {
		return
	}
	v := cmp.Or(c.get("lower_threshold"), c.get("upper_threshold"))
	b.diags.errorf(SchemaViolation, v.pos, agent+".compaction.lower_threshold",
		"lower_threshold is %s and must be less than upper_threshold, which is %s.", plain(lower), plain(upper))
}

// Summarizer is the built-in compactor, a value of compaction.delegate.plugin besides the agent's slots.
const Summarizer = "kaged-summarizer"

// inForce warns of strategies and compactors that kaged does not implement.
func (b *builder) inForce(c *node, agent string) {
	plugin := ""
	if d := c.get("delegate"); d != nil && d.kind == mapNode {
		plugin = d.str("plugin")
		if plugin != Summarizer {
			b.diags.warnf(NotInForce, d.pos, agent+".compaction.delegate.plugin", "%s",
				NotInForceReason("plugin: "+plugin, "no plugin is loaded, and "+Summarizer+" is the only built-in compactor"))
		}
	}
	s := c.get("strategy")
	if s == nil || s.text == "drop" || s.text == "summarize" || s.text == "delegate" && plugin == Summarizer {
		return
	}
	b.diags.warnf(NotInForce, s.pos, agent+".compaction.strategy", "%s",
		NotInForceReason("strategy: "+s.text, "conversations are compacted by drop"))
}

// isTrue reports whether a node is the value true.
func (n *node) isTrue() bool { return n != nil && n.kind == boolNode && n.flag }

func prune(n *node) *Prune {
	out := &Prune{ProtectedTools: n.strings("protected_tools")}
	if v := n.get("enabled"); v != nil && v.kind == boolNode {
		out.Disabled = !v.flag
	}
	out.ProtectTokens, out.MinimumSavings = tokens(n.get("protect_tokens")), tokens(n.get("minimum_savings"))
	return out
}

// tokens returns a number of tokens, nil if it is absent.
func tokens(n *node) *int64 {
	if n == nil {
		return nil
	}
	number := int64(first(n.numberOrZero()))
	return &number
}
