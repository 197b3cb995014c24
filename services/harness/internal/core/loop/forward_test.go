package loop

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/llm"
)

// said returns a message with a text and tool calls.
func said(role llm.Role, text string, calls ...llm.ToolCall) llm.Message {
	m := llm.Message{Role: role}
	if text != "" {
		m.Blocks = append(m.Blocks, llm.Block{Text: &llm.Text{Text: text}})
	}
	for _, c := range calls {
		m.Blocks = append(m.Blocks, llm.Block{Call: &c})
	}
	return m
}

// returned returns the results of calls; each shows the call's file.
func returned(calls ...llm.ToolCall) llm.Message {
	m := llm.Message{Role: llm.RoleTool}
	for _, c := range calls {
		result := llm.ToolResult{CallID: c.ID, Name: c.Name, Content: "the content of " + c.Input}
		m.Blocks = append(m.Blocks, llm.Block{Result: &result})
	}
	return m
}

// A child with context: parent gets the texts of the operator and its parent. It gets no tool calls, results and
// thinking, and none of the parent's texts about a file outside the child's cage, up to the operator's next message
// (H-SUP-HOOK-03, H-SUP-HYG-01, H-SUP-DEFER-01).
func TestForwardedContext(t *testing.T) {
	t.Parallel()
	src := &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "project:/src"}}}
	all := &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "project:/"}}}
	public, secret := call("a", "file.read", `{"path":"./src/a.go"}`), call("b", "file.read", `{"path":"secret/key"}`)
	escape := call("c", "file.read", `{"path":"src/../secret/key"}`)
	outside := call("d", "file.read", `{"path":"/etc/passwd"}`)
	shell, search := call("e", "shell.bash", `{"command":"cat src/a.go"}`), call("f", "search.grep", `{"pattern":"x"}`)
	for name, c := range map[string]struct {
		own, child *dsl.Cage
		asked      llm.ToolCall
		forgets    bool // the parent's history lacks tool calls
		want       string
	}{
		"what it sees":            {child: src, asked: public, want: "It is 42."},
		"what it does not see":    {child: src, asked: secret, want: unseen},
		"a way out":               {child: src, asked: escape, want: unseen},
		"a file of the machine":   {child: all, asked: outside, want: unseen},
		"a search of all":         {child: src, asked: search, want: unseen},
		"a command":               {child: src, asked: shell, want: unseen},
		"a command in a cage":     {own: src, child: src, asked: shell, want: "It is 42."},
		"a command in a wide one": {own: all, child: src, asked: shell, want: unseen},
		"a child without a cage":  {asked: outside, want: "It is 42."},
		"tools of before unknown": {child: src, asked: public, forgets: true, want: unseen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, wants(asks("c1", "scout", "Look.")), says("Done."))
			scout := f.child(f.start.Agent, "scout", says("Seen."))
			f.start.ProjectRoot = "/home/me/project"
			f.start.Agent.IncludeToolResults = !c.forgets
			f.start.NoSandbox = true
			f.start.Agent.Cage, scout.Cage, scout.ParentContext = c.own, c.child, true
			asked := said(llm.RoleAssistant, "I look.", c.asked)
			asked.Blocks = append([]llm.Block{{Thinking: &llm.Thinking{Text: "Hm.", Driver: "fake"}}}, asked.Blocks...)
			f.start.History = []llm.Message{
				said(llm.RoleUser, "What is it?"), asked, returned(c.asked), said(llm.RoleAssistant, "It is 42."),
				said(llm.RoleUser, "Do it."),
			}
			f.run(t.Context())
			first := "I look."
			if c.forgets {
				first = ""
			}
			want := []llm.Message{said(llm.RoleUser, "What is it?")}
			answer := llm.Message{Role: llm.RoleAssistant}
			for _, text := range []string{first, c.want} {
				if text != "" {
					answer.Blocks = append(answer.Blocks, llm.Block{Text: &llm.Text{Text: text}})
				}
			}
			ask := said(llm.RoleUser, "Do it.")
			ask.Blocks = append(ask.Blocks, llm.Block{Text: &llm.Text{Text: "Look."}})
			if d := cmp.Diff(append(want, answer, ask), f.models["scout"].requests[0].Messages); d != "" {
				t.Error(d)
			}
		})
	}
}

// The note of a compaction may tell of files that a child cannot see: a notice replaces it and the agent's texts up to
// the operator's next message, unless the child sees all that its parent sees (H-SUP-HOOK-03).
func TestForwardedNotes(t *testing.T) {
	t.Parallel()
	src := &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "project:/src"}}}
	const note = "A summary: secret/key holds 42."
	for name, c := range map[string]struct {
		own, child *dsl.Cage
		forwarded  bool
	}{
		"a caged child":           {child: src},
		"a child without a cage":  {forwarded: true},
		"a parent in such a cage": {own: src, child: src, forwarded: true},
	} {
		f := newFamily(t, wants(asks("c1", "scout", "Look.")), says("Done."))
		scout := f.child(f.start.Agent, "scout", says("Seen."))
		f.start.ProjectRoot, f.start.NoSandbox = "/home/me/project", true
		f.start.Agent.IncludeToolResults, scout.ParentContext = true, true
		f.start.Agent.Cage, scout.Cage = c.own, c.child
		f.start.History = []llm.Message{
			said(llm.RoleUser, "What is it?"), said(llm.RoleSystem, note), said(llm.RoleAssistant, "It is 42."),
			said(llm.RoleUser, "Do it."),
		}
		f.run(t.Context())
		var read strings.Builder
		for _, m := range f.models["scout"].requests[0].Messages {
			read.WriteString(textOf(m.Blocks) + "\n")
		}
		if got := read.String(); strings.Contains(got, "42") != c.forwarded || strings.Contains(got, unseen) == c.forwarded ||
			!strings.Contains(got, "What is it?") || !strings.Contains(got, "Do it.") {
			t.Errorf("%s reads %q", name, got)
		}
	}
}
