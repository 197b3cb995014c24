package cage

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/termtext"
)

// Line is one fact about a view.
type Line struct {
	// About is the topic of the line in a word or two: "may", "read-only", "system", "limits" and
	// the like.
	About string `json:"about"`
	// Text is the sentence.
	Text string `json:"text"`
}

// Describe states in plain words the effect of a view: first the reachable paths and hosts, then
// the read-only ones with the reason, then the rest of the environment and the limits.
func (v *View) Describe() []Line {
	lines := []Line{{"may", v.May()}}
	add := func(about, format string, args ...any) {
		lines = append(lines, Line{about, fmt.Sprintf(format, args...)})
	}
	if names := v.names(func(g Grant) bool { return g.Protected && !g.Missing }); len(names) > 0 {
		add("read-only", "%s, because tools outside the cage run code that they find there; name one in the cage to make "+
			"it writable", list(names))
	}
	if names := v.names(func(g Grant) bool { return g.Missing }); len(names) > 0 {
		add("kept empty", "%s, which would be such a place: an empty one stands there while the agent runs", list(names))
	}
	if names := v.names(func(g Grant) bool { return g.Pinned }); len(names) > 0 {
		add("not renamed", "%s, so that nothing else can take the place of what is read-only in it", list(names))
	}
	if v.Partial {
		add("not searched", "the deepest folders: there are more than %d, and repositories may be among those left, which "+
			"are not protected unless an earlier run found them", searched)
	}
	if words := v.gitWords(); words != "" {
		add("git", "%s", words)
	}
	if len(v.Sockets) > 0 {
		add("sockets", "%s: covered, as processes outside listen there", list(v.namesOf(v.Sockets)))
	}
	if v.PartialSockets {
		add("not searched", "the deepest folders of what may be read: a socket of a process in another container would "+
			"not be found there")
	}
	add("system", "the machine's programs and libraries, read-only; a /tmp, /dev and /proc of its own; none of the "+
		"machine's other files, processes and sockets")
	add("home", "%s", map[bool]string{
		true:  "/home/agent, kept for the agent's next run",
		false: "/home/agent, empty at first and gone with the run",
	}[v.Persistent])
	add("system calls", "%s", map[bool]string{
		true:  "relaxed: the default ones, and what debuggers need (ptrace and its like)",
		false: "default: none to trace processes, mount, load into the kernel, or make namespaces",
	}[v.Relaxed])
	add("tools", "%s", v.tools())
	if len(v.Env) > 0 {
		add("variables", "%s", list(slices.Sorted(maps.Keys(v.Env))))
	}
	add("limits", "%s", limitWords(v.Limits))
	return lines
}

// gitWords describes the agent's rights on repositories; "" if it can write to none.
func (v *View) gitWords() string {
	switch {
	case !v.Writes():
		return ""
	case v.GitReadOnly:
		return "read-only: no repository in what may be written can be changed, so there are no commits and no git add"
	case slices.ContainsFunc(v.Found, func(f Found) bool { return f.Kind == FoundRepository }):
		return "writable: the agent may commit and change the index; a submodule, repository or hook path that it adds is " +
			"reported when its cage ends, " +
			"not prevented (git: read_only prevents it)"
	}
	return ""
}

// May states in one sentence the readable, writable and reachable parts.
func (v *View) May() string {
	var parts []string
	named := func(g Grant) bool { return !g.Protected && !g.Pinned }
	if names := v.names(func(g Grant) bool { return named(g) && !g.Writable }); len(names) > 0 {
		parts = append(parts, "may read "+list(names))
	}
	if names := v.names(func(g Grant) bool { return named(g) && g.Writable }); len(names) > 0 {
		parts = append(parts, "may write "+list(names))
	}
	if len(v.Net) > 0 {
		rules := make([]string, len(v.Net))
		for i, r := range v.Net {
			rules[i] = r.String()
		}
		parts = append(parts, "may reach "+list(rules))
	}
	if len(parts) == 0 {
		return "may see no files and reach no host"
	}
	return strings.Join(append(parts, "nothing else"), ", ")
}

// names returns the chosen grants; paths of the project begin with ./.
func (v *View) names(chosen func(Grant) bool) []string {
	var names []string
	for _, g := range v.Grants {
		if chosen(g) {
			names = append(names, v.name(g.Path))
		}
	}
	return names
}

func (v *View) namesOf(paths []string) []string {
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = v.name(path)
	}
	return names
}

// name formats a path for display: relative to the project's root if it is in the project, and quoted if it has an
// invisible character. An agent may have chosen the name to look like more than a path.
func (v *View) name(path string) string {
	if !termtext.Plain(path) {
		return termtext.Quote(path)
	}
	if rel, err := filepath.Rel(v.Root, path); err == nil && filepath.IsLocal(rel) {
		if rel == "." {
			return "./"
		}
		return "./" + rel
	}
	return path
}

func (v *View) tools() string {
	if len(v.Capabilities) == 0 {
		return "none that run commands: the cage has no capabilities"
	}
	words := make([]string, len(v.Capabilities))
	for i, name := range v.Capabilities {
		words[i] = name
		if enables, known := dsl.Capabilities[name]; known {
			words[i] += ": may " + enables
		}
	}
	return strings.Join(words, "; ")
}

func limitWords(l dsl.Limits) string {
	var words []string
	if l.Memory > 0 {
		words = append(words, dsl.Bytes(l.Memory)+" of memory")
	}
	if l.CPU > 0 {
		words = append(words, strconv.FormatFloat(l.CPU, 'f', -1, 64)+" cores")
	}
	if l.PIDs > 0 {
		words = append(words, strconv.FormatInt(l.PIDs, 10)+" processes and threads")
	}
	if l.Disk > 0 {
		words = append(words, dsl.Bytes(l.Disk)+" more on disk than before")
	}
	if l.Walltime > 0 {
		words = append(words, dsl.Span(l.Walltime)+" for one run")
	}
	if len(words) == 0 {
		return "none of its own"
	}
	return "at most " + list(words)
}

func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
