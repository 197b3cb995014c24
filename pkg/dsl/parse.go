package dsl

import (
	"path"
	"slices"
	"strings"
)

// File is a file that Parse reads.
type File struct {
	// Path is relative to the project's root, with forward slashes.
	Path string `json:"path"`
	// Present is true if the file exists and can be used.
	Present bool `json:"present,omitempty"`
	// Content is its bytes; a prompt needs no content, only Present.
	Content []byte `json:"content,omitempty"`
	// Reason is the reason why an existing file cannot be used.
	Reason string `json:"reason,omitempty"`
}

// Result is the result of Parse.
type Result struct {
	// Project is the project, nil if there are errors or missing files.
	Project *Project
	// Diagnostics are the errors and warnings, by position.
	Diagnostics []Diagnostic
	// Wanted are the missing files, to be added for the next call. Errors may exist already; the next call repeats them
	// together with the errors in these files.
	Wanted []string
	// HasOverlay is true if the project has an overlay, HasReferences if a subagent refers to another project.
	HasOverlay, HasReferences bool
}

// Failed reports whether a diagnostic is an error.
func (r Result) Failed() bool {
	return slices.ContainsFunc(r.Diagnostics, func(d Diagnostic) bool { return d.Severity == Error })
}

// Parse parses a project from the files known so far. It is pure: call it again with the missing files until the list
// is empty.
func Parse(files []File) Result {
	l := &loader{
		files:  make(map[string]File, len(files)),
		parsed: map[string]*node{},
		right:  map[string]*node{},
		tokens: maxProjectTokens,
	}
	for _, f := range files {
		l.files[f.Path] = f
	}
	doc, overlay := l.document("", Position{}, "", nil)
	var p *Project
	if doc != nil && !l.diags.failed() {
		doc = doc.with("primary", doc.entry("primary").keyPos, l.agent(doc.get("primary"), "primary", 1, []string{""}))
		if len(l.wanted) == 0 && !l.diags.failed() {
			p = l.build(doc)
		}
	}
	if l.diags.failed() || len(l.wanted) > 0 {
		p = nil
	}
	return Result{
		Project: p, Diagnostics: l.diags.sorted(), Wanted: l.wanted, HasOverlay: overlay, HasReferences: l.references,
	}
}

// loader resolves overlays and references into one document.
type loader struct {
	files      map[string]File
	diags      diagnostics
	wanted     []string
	agents     int
	references bool
	// parsed caches files, right the folders' documents without overrides, because a project may be referred to many
	// times.
	parsed, right map[string]*node
	// tokens is the remaining number of YAML tokens.
	tokens int
}

func (l *loader) want(path string) {
	if !slices.Contains(l.wanted, path) {
		l.wanted = append(l.wanted, path)
	}
}

// document returns the validated document of the project in folder root, with its overlay and overrides applied; nil if
// it is missing or invalid. For a nested project ref and tree are the position and the tree path of the reference.
func (l *loader) document(root string, ref Position, tree string, overrides *node) (doc *node, overlay bool) {
	mainPath, overlayPath := path.Join(root, ProjectFile), path.Join(root, OverlayFile)
	mainFile, known := l.files[mainPath]
	overlayFile, overlayKnown := l.files[overlayPath]
	if !known || !overlayKnown {
		for _, p := range []string{mainPath, overlayPath} {
			if _, ok := l.files[p]; !ok {
				l.want(p)
			}
		}
		return nil, false
	}
	if !mainFile.Present {
		l.missing(mainFile, root, ref, tree)
		return nil, false
	}
	if !overlayFile.Present && overlayFile.Reason != "" {
		l.diags.errorf(
			ParseError,
			Position{File: overlayPath},
			tree,
			"The overlay cannot be used: %s.",
			sentence(overlayFile.Reason),
		)
		return nil, false
	}
	if doc := l.right[root]; doc != nil && overrides == nil {
		return doc, overlayFile.Present
	}
	doc, ok := l.yaml(mainFile, nil), true
	if overlayFile.Present {
		nothing := &node{kind: mapNode}
		over := l.yaml(overlayFile, nothing)
		ok = over != nil
		if doc != nil && ok && over != nothing {
			doc = merge(doc, over)
		}
	}
	if doc == nil || !ok {
		return nil, overlayFile.Present
	}
	if overrides != nil {
		doc = merge(doc, overrides)
	}
	if !l.checkDocument(doc, tree) {
		return nil, overlayFile.Present
	}
	if overrides == nil {
		l.right[root] = doc
	}
	return doc, overlayFile.Present
}

// checkDocument reports whether doc fits the schema. A nested project's diagnostics have the path in the whole tree.
func (l *loader) checkDocument(doc *node, tree string) bool {
	var own diagnostics
	(&checker{&own}).check(doc, projectShape, "", doc.pos)
	for _, d := range own.list {
		if tree != "" {
			rest, isPrimary := strings.CutPrefix(d.Path, "primary")
			if !isPrimary {
				rest = "." + d.Path
			}
			d.Path = tree + strings.TrimSuffix(rest, ".")
		}
		l.diags.add(d)
	}
	l.diags.dropped += own.dropped
	return !own.failed()
}

func (l *loader) yaml(f File, empty *node) *node {
	if n, ok := l.parsed[f.Path]; ok {
		return n
	}
	n := parsePart(f.Path, f.Content, &l.diags, empty, &l.tokens)
	l.parsed[f.Path] = n
	return n
}

func (l *loader) missing(f File, root string, ref Position, tree string) {
	kind, pos := ProjectMissing, Position{File: f.Path}
	if tree != "" {
		kind, pos = NestedProjectMissing, ref
	}
	if f.Reason != "" {
		l.diags.errorf(kind, pos, tree, "%s cannot be used: %s.", f.Path, sentence(f.Reason))
		return
	}
	l.diags.errorf(kind, pos, tree, "There is no %s.", f.Path)
}

// sentence strips the end of a foreign reason, for use at the end of a sentence.
func sentence(s string) string { return strings.TrimRight(strings.TrimSpace(s), ".") }

// agent returns the agent n with the references below it resolved. chain holds the folders of the projects around it,
// the innermost last.
func (l *loader) agent(n *node, tree string, depth int, chain []string) *node {
	l.agents++
	subagents := n.get("subagents")
	if subagents == nil || subagents.kind != mapNode {
		return n
	}
	out := &node{kind: mapNode, pos: subagents.pos}
	for _, e := range subagents.entries {
		sub := join(tree+".subagents", e.key)
		if depth+1 > MaxDepth {
			l.diags.errorf(DepthExceeded, e.keyPos, sub, "Agents stand at most %d levels deep.", MaxDepth)
			continue
		}
		if l.agents >= MaxAgents {
			l.diags.errorf(DepthExceeded, e.keyPos, sub, "A project has at most %d agents.", MaxAgents)
			break
		}
		value := e.value
		if value.entry("path") != nil {
			value = l.reference(e, sub, depth, chain)
		} else {
			value = l.agent(value, sub, depth+1, chain)
		}
		if value != nil {
			out.entries = append(out.entries, entry{e.key, e.keyPos, value})
		}
	}
	return n.with("subagents", n.entry("subagents").keyPos, out)
}

// reference returns the root agent of the project that e refers to, marked with its origin; nil if that fails.
func (l *loader) reference(e entry, tree string, depth int, chain []string) *node {
	l.references = true
	ref := e.value.get("path")
	root, ok := referencePath(ref.text, rootOf(ref.pos.File))
	if !ok {
		l.diags.errorf(SchemaViolation, ref.pos, tree+".path", "The path %q leaves the project.", shown(ref.text))
		return nil
	}
	if slices.Contains(chain, root) {
		l.diags.errorf(
			CompileCycle,
			ref.pos,
			tree,
			"The project in %s refers to itself%s.",
			folderName(root),
			through(chain, root),
		)
		return nil
	}
	doc, _ := l.document(root, ref.pos, tree, e.value.get("overrides"))
	if doc == nil {
		l.agents++ // an unreadable project counts too
		return nil
	}
	for _, key := range []string{"lsp", "dap"} {
		if e := doc.entry(key); e != nil {
			l.diags.warnf(NotInForce, e.keyPos, tree+"."+key, "%s has an effect in the root project's file only.", key)
		}
	}
	agent := l.agent(doc.get("primary"), tree, depth+1, append(slices.Clone(chain), root))
	description := firstNode(e.value.get("description"), agent.get("description"), doc.get("description"))
	if description != nil {
		agent = agent.with("description", description.pos, description)
	}
	agent = agent.with(refKey, ref.pos, &node{kind: stringNode, pos: ref.pos, text: root})
	if name := e.value.get("name"); name != nil {
		agent = agent.with(nameKey, name.pos, name)
	}
	return agent
}

// refKey and nameKey carry a reference's additions to an agent; no file can hold these keys.
const (
	refKey  = "\x00ref"
	nameKey = "\x00name"
)

func firstNode(nodes ...*node) *node {
	for _, n := range nodes {
		if n != nil && n.kind == stringNode {
			return n
		}
	}
	return nil
}

func folderName(root string) string {
	if root == "" {
		return "the root folder"
	}
	return root
}

func through(chain []string, root string) string {
	between := chain[slices.Index(chain, root)+1:]
	if len(between) == 0 {
		return ""
	}
	return " through " + strings.Join(between, " and ")
}
