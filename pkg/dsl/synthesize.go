package dsl

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// SourceKey marks an agent of a synthesized document with the referenced project it comes from. It has no other effect.
const SourceKey = "_source"

// sourceShape describes [SourceKey].
var sourceShape = &shape{
	kind: objectShape,
	doc:  "Where a synthesized project has the agent from; no effect.",
	fields: []field{
		{name: "project_ref", required: true, shape: text("The folder of the referenced project.", 512, mountPattern)},
		{name: "name", shape: text("The name that the reference shows.", 120, nil)},
	},
}

// Synthesize returns the project as one YAML document: the overlay is merged, references are replaced by their agents,
// marked with [SourceKey], and every path is relative to the root project. defaults returns the tools that an agent has
// without an entry of the file; they are written as entries. The document compiles to the same snapshot as the project.
func (p *Project) Synthesize(defaults func(*Agent) []string) ([]byte, error) {
	doc := p.document
	doc = doc.with("primary", doc.entry("primary").keyPos, synthesizedAgent(doc.get("primary"), p.Primary, "", defaults))
	return yaml.MarshalWithOptions(
		doc.ordered(),
		yaml.Indent(2),
		yaml.IndentSequence(true),
		yaml.UseLiteralStyleIfMultiline(false),
	)
}

// synthesizedAgent returns the node of an agent for a synthesized document. above is the folder of its parent's
// project.
func synthesizedAgent(n *node, a *Agent, above string, defaults func(*Agent) []string) *node {
	rebased := func(key string) {
		if e := n.entry(key); e != nil {
			n = n.with(key, e.keyPos, rebase(e.value, key))
		}
	}
	for _, key := range []string{"system_prompt", "cage", "compaction"} {
		rebased(key)
	}
	if names := defaults(a); len(names) > 0 {
		n = n.with("tools", n.pos, switchedOn(n.get("tools"), names))
	}
	if subagents := n.entry("subagents"); subagents != nil {
		out := &node{kind: mapNode, pos: subagents.value.pos}
		for _, e := range subagents.value.entries {
			i := slices.IndexFunc(a.Subagents, func(child *Agent) bool { return child.Key == e.key })
			out.entries = append(
				out.entries,
				entry{e.key, e.keyPos, synthesizedAgent(e.value, a.Subagents[i], a.ProjectRef, defaults)},
			)
		}
		n = n.with("subagents", subagents.keyPos, out)
	}
	n = n.with(refKey, n.pos, nil).with(nameKey, n.pos, nil)
	if a.ProjectRef != above {
		source := &node{kind: mapNode, entries: []entry{{key: "project_ref", value: textNode("project:/" + a.ProjectRef)}}}
		if a.Name != "" {
			source.entries = append(source.entries, entry{key: "name", value: textNode(a.Name)})
		}
		n = n.with(SourceKey, n.pos, source)
	}
	return n
}

// rebase returns a value of an agent with its paths relative to the root project. Any part may come from another file
// than the rest, because an overlay and the overrides of a reference mix files.
func rebase(n *node, key string) *node {
	switch {
	case n.kind == stringNode && (key == "system_prompt" || key == "prompt"):
		return textNode("project:/" + promptPath(n.text, rootOf(n.pos.File)))
	case n.kind == stringNode && key == "path":
		return textNode(mountPath(n.text, rootOf(n.pos.File)))
	case n.kind == mapNode && key != "env" && key != "plugins":
		out := *n
		out.entries = make([]entry, len(n.entries))
		for i, e := range n.entries {
			out.entries[i] = entry{e.key, e.keyPos, rebase(e.value, e.key)}
		}
		return &out
	case n.kind == listNode && key == "fs":
		out := *n
		out.items = make([]*node, len(n.items))
		for i, item := range n.items {
			out.items[i] = rebase(item, "")
		}
		return &out
	}
	return n
}

// switchedOn returns a map of tools that enables the named ones before its own entries.
func switchedOn(tools *node, names []string) *node {
	out := &node{kind: mapNode}
	for _, name := range names {
		on := &node{kind: mapNode, entries: []entry{{key: "enabled", value: &node{kind: boolNode, flag: true}}}}
		out.entries = append(out.entries, entry{key: name, value: on})
	}
	if tools != nil {
		for _, e := range tools.entries {
			if out.entry(e.key) == nil {
				out.entries = append(out.entries, e)
			}
		}
	}
	return out
}

func textNode(s string) *node { return &node{kind: stringNode, text: s} }

// ordered returns n in the types of the YAML library, with the keys of maps in their order.
func (n *node) ordered() any {
	switch n.kind {
	case boolNode:
		return n.flag
	case intNode:
		return n.int
	case floatNode:
		return n.float
	case stringNode:
		return writtenText(n.text)
	case listNode:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.ordered()
		}
		return list
	case mapNode:
		m := make(yaml.MapSlice, len(n.entries))
		for i, e := range n.entries {
			m[i] = yaml.MapItem{Key: e.key, Value: e.value.ordered()}
		}
		return m
	}
	return nil
}

// writtenText is a string in its written form: in quotes, unless every YAML parser reads it as this text without them.
type writtenText string

// plainText is text that needs no quotes.
var plainText = regexp.MustCompile(`^(?:[A-Za-z]|\./)[A-Za-z0-9 ./_,()-]*(?::[A-Za-z0-9./_-]+)*$`)

// MarshalYAML implements [yaml.BytesMarshaler].
func (w writtenText) MarshalYAML() ([]byte, error) {
	if plainText.MatchString(string(w)) && strings.TrimSpace(string(w)) == string(w) &&
		!reservedText[strings.ToLower(string(w))] {
		return []byte(w), nil
	}
	return json.Marshal(string(w))
}

// reservedText are words that a version of YAML reads as another type than text.
var reservedText = map[string]bool{
	"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true, "null": true,
	".inf": true, ".nan": true,
}

// sourceFolder returns the folder that a [SourceKey] names, "" without one.
func sourceFolder(n *node) string {
	return strings.Trim(path.Clean("/"+strings.TrimPrefix(n.get(SourceKey).str("project_ref"), "project:/")), "/")
}
