package loop

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/llm"
)

// unseen replaces text that a child may not read.
const unseen = "(kaged leaves out what was said here: it came of files that you cannot see.)"

// lookers are the tools with results that depend only on the path in their input. The value is true if a missing path
// means the project's folder.
var lookers = map[string]bool{
	"file.read": false, "file.list": true, "file.create": false, "file.write": false, "edit.text": false, "edit.ast": true,
	"search.glob": true, "search.grep": true, "search.ast": true,
}

// forwarded returns the conversation for a child with `context: parent`, nil for another child (H-SUP-HOOK-03). It
// holds the texts of the operator and of the agent, without tool calls, results and thinking (H-SUP-HYG-01). After a
// call about files that the child cannot see, a notice replaces the agent's texts up to the operator's next message. So
// it does from the note of a compaction on, unless the child sees all that the agent sees: the note is made of calls
// that are gone.
func (v *invocation) forwarded(child *compile.Agent) []llm.Message {
	if !child.ParentContext {
		return nil
	}
	var said []llm.Message
	say := func(role llm.Role, text string) {
		said = append(said, llm.Message{Role: role, Blocks: []llm.Block{{Text: &llm.Text{Text: text}}}})
	}
	tainted, told := false, false
	for i, m := range v.talk.Messages() {
		switch m.Role {
		case llm.RoleUser:
			tainted, told = v.blind(child, i), false
		case llm.RoleSystem:
			tainted = tainted || !v.seesAll(child)
		}
		text := textOf(m.Blocks)
		switch {
		case m.Role == llm.RoleTool || text == "":
		case m.Role == llm.RoleUser || !tainted:
			say(m.Role, text)
		case !told:
			told = true
			say(m.Role, unseen)
		}
		tainted = tainted || slices.ContainsFunc(callsOf(m.Blocks), func(c llm.ToolCall) bool { return !v.visible(child, c) })
	}
	return said
}

// seesAll reports whether a child sees every file that the agent sees.
func (v *invocation) seesAll(child *compile.Agent) bool {
	return child.Cage == nil || v.within(v.agent.Cage, child.Cage)
}

// blind reports whether a message may come from files that the child cannot see, with no tool calls to tell: messages
// of earlier runs lack them unless the agent includes tool results.
func (v *invocation) blind(child *compile.Agent, message int) bool {
	return v.parent == nil && !v.agent.IncludeToolResults && message < v.talk.Prior()-1 && !v.seesAll(child)
}

// visible reports whether a child can see all files of a call.
func (v *invocation) visible(child *compile.Agent, c llm.ToolCall) bool {
	if v.seesAll(child) {
		return true
	}
	o := v.offers[c.Name]
	name := v.canonicalName(c.Name)
	switch {
	case o.child != nil:
		return v.within(o.child.Cage, child.Cage)
	case strings.HasPrefix(name, "kaged."):
		return true
	}
	whole, looks := lookers[name]
	paths, ok := pathsOf(c.Input, whole)
	return looks && ok && !slices.ContainsFunc(paths, func(p string) bool {
		if !path.IsAbs(p) {
			p = path.Join(v.start.ProjectRoot, p)
		}
		return child.Cage.Access(v.start.ProjectRoot, path.Clean(p)) == dsl.NoAccess
	})
}

// within reports whether all files seen in the inner cage are seen in the outer one.
func (v *invocation) within(inner, outer *dsl.Cage) bool {
	return inner != nil && !slices.ContainsFunc(inner.FS, func(m dsl.Mount) bool {
		p, ok := dsl.InProject(m.Path)
		if ok {
			p = path.Join(v.start.ProjectRoot, p)
		} else {
			p = m.Path
		}
		return outer.Access(v.start.ProjectRoot, path.Clean(p)) == dsl.NoAccess
	})
}

// pathsOf returns the paths in the input of a tool in [lookers]. whole allows an input without a path.
func pathsOf(input string, whole bool) (paths []string, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(input), &fields) != nil {
		return nil, false
	}
	for _, key := range []string{"path", "new_path", "file_path"} {
		if raw, there := fields[key]; there {
			var p string
			if json.Unmarshal(raw, &p) != nil {
				return nil, false
			}
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 {
		return []string{"."}, whole
	}
	return paths, true
}
