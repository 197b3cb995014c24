package tools

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/dsl"
	"kaged.dev/services/kaged/internal/workbench"
)

// WriteReference writes the reference page of the catalogue.
func WriteReference(w io.Writer, l workbench.Listing) {
	fmt.Fprint(
		w,
		"# The tools of agents\n\nGenerated from the catalogue itself; `kaged tools list --json` says the same of the "+
			"kaged you run, with the commands its\n"+
			"operator declares ([how](../howto/give-agents-a-command.md)).\n\n"+
			"A call passes one dispatcher: resolve, validate, principal scope, permission, approval, lock, run, audit. A "+
			"refusal of a tool is a\n"+
			"result, `{\"error\": {\"code\", \"message\", \"hint\", \"details\", \"rpc_code\"}}`, with a code of "+
			"[errors.md](errors.md).\n\n"+
			"*Root* says whether a root agent has the tool by default; other agents start without tools. A tool of category\n"+
			"*read* only looks, one of *write* changes files or runs commands, one of *admin* needs an operator's approval "+
			"each time.\n\n"+
			"| tool | category | root | aliases |\n|---|---|---|---|\n",
	)
	for _, t := range l.Tools {
		fmt.Fprintf(
			w,
			"| [`%s`](#%s) | %s | %s | %s |\n",
			t.Name,
			anchor(t.Name),
			t.Category,
			map[bool]string{true: "yes", false: ""}[t.DefaultRoot],
			codes(t.AliasNames()),
		)
	}
	writeFlat(w, l)
	for _, t := range l.Tools {
		writeTool(w, t)
	}
}

// writeFlat writes the twenty flat names and their tools.
func writeFlat(w io.Writer, l workbench.Listing) {
	fmt.Fprint(
		w,
		"\nAn agent with `tools_profile: flat20` has these instead of the defaults, and is shown them under these names; "+
			"one that is not the\n"+
			"root has those that only look. A name no tool answers to yet gives nothing.\n\n| flat name | group | not only "+
			"the root | tool |\n|---|---|---|---|\n",
	)
	for _, f := range dsl.Flat20Tools() {
		i := slices.IndexFunc(l.Tools, func(t workbench.Tool) bool { return slices.Contains(t.AliasNames(), f.Name) })
		name := ""
		if i >= 0 {
			name = "`" + l.Tools[i].Name + "`"
		}
		fmt.Fprintf(
			w,
			"| `%s` | %s | %s | %s |\n",
			f.Name,
			f.Group,
			map[bool]string{true: "yes", false: ""}[f.Subagent],
			name,
		)
	}
}

// anchor returns the fragment of the heading of a tool.
func anchor(name string) string { return strings.ReplaceAll(name, ".", "") }

func codes(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + n + "`"
	}
	return strings.Join(quoted, ", ")
}

func writeTool(w io.Writer, t workbench.Tool) {
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n", t.Name, quoted(t.Description))
	facts := []string{"Category " + t.Category}
	if t.PrincipalScope != "" {
		facts = append(facts, "for the root agent only")
	}
	if t.Parallel {
		facts = append(facts, "calls of one turn run side by side")
	}
	fmt.Fprintf(w, "%s. Requires %s.\n\n", strings.Join(facts, "; "), requirements(t.Requires))
	writeFields(w, "parameter", t.Parameters)
	fmt.Fprint(w, "The result:\n\n")
	writeFields(w, "field", t.Returns)
	if len(t.Limits) > 0 {
		fmt.Fprint(w, "| limit | default | |\n|---|---|---|\n")
		for _, l := range t.Limits {
			fmt.Fprintf(w, "| `%s` | %s | %s |\n", l.Key, amount(l), l.Doc)
		}
		fmt.Fprintln(w)
	}
	for _, a := range t.Aliases {
		writeAlias(w, t, a)
	}
}

func writeAlias(w io.Writer, t workbench.Tool, a workbench.Alias) {
	same := reflect.DeepEqual(a.Parameters, t.Parameters)
	fmt.Fprintf(w, "### As %s\n\n", a.Name)
	if a.Description != t.Description {
		fmt.Fprintf(w, "%s\n\n", quoted(a.Description))
	}
	if same {
		fmt.Fprint(w, "The same parameters.\n\n")
		return
	}
	writeFields(w, "parameter", a.Parameters)
}

// quoted returns a text for models as a quotation.
func quoted(text string) string {
	return strings.ReplaceAll("> "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n> "), "> \n", ">\n")
}

func requirements(list []workbench.Requirement) string {
	if len(list) == 0 {
		return "nothing of a cage"
	}
	texts := make([]string, len(list))
	for i, r := range list {
		switch r.Kind {
		case "fs":
			mode := map[string]string{"ro": "reading", "rw": "writing"}[r.Mode]
			texts[i] = mode + " the path the call names"
		default:
			texts[i] = fmt.Sprintf("the %s `%s`", r.Kind, cmp.Or(r.Name, r.Target, r.Profile))
		}
	}
	return strings.Join(texts, " and ")
}

func amount(l workbench.Limit) string {
	switch l.Unit {
	case "bytes":
		for _, u := range []struct {
			size int64
			name string
		}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
			if l.Value >= u.size && l.Value%u.size == 0 {
				return fmt.Sprintf("%d %s", l.Value/u.size, u.name)
			}
		}
		return fmt.Sprintf("%d bytes", l.Value)
	case "ms":
		return (time.Duration(l.Value) * time.Millisecond).String()
	}
	return fmt.Sprint(l.Value)
}

// writeFields writes the fields of an object's schema as a table, with the paths of the fields of nested objects.
func writeFields(w io.Writer, what string, schema map[string]any) {
	rows := fieldRows("", schema)
	if len(rows) == 0 {
		fmt.Fprintf(w, "No %ss.\n\n", what)
		return
	}
	fmt.Fprintf(w, "| %s | type | | |\n|---|---|---|---|\n%s\n", what, strings.Join(rows, ""))
}

func fieldRows(prefix string, schema map[string]any) []string {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	var rows []string
	// Required parameters come first.
	names := slices.SortedFunc(maps.Keys(properties), func(a, b string) int {
		return cmp.Or(-compareBool(slices.Contains(required, any(a)), slices.Contains(required, any(b))), cmp.Compare(a, b))
	})
	for _, name := range names {
		p, _ := properties[name].(map[string]any)
		note := ""
		if slices.Contains(required, any(name)) {
			note = "always"
		}
		if d, ok := p["default"]; ok {
			note = fmt.Sprintf("default `%v`", d)
		}
		rows = append(rows, fmt.Sprintf("| `%s%s` | %s | %s | %s |\n", prefix, name, typeOf(p), note, meaning(p)))
		if items, ok := p["items"].(map[string]any); ok {
			rows = append(rows, fieldRows(prefix+name+"[].", items)...)
		}
		rows = append(rows, fieldRows(prefix+name+".", p)...)
	}
	return rows
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func typeOf(p map[string]any) string {
	typ, _ := p["type"].(string)
	if items, ok := p["items"].(map[string]any); ok {
		return "list of " + typeOf(items)
	}
	if values, ok := p["additionalProperties"].(map[string]any); ok {
		return "map of " + typeOf(values)
	}
	return cmp.Or(typ, "any")
}

func meaning(p map[string]any) string {
	doc, _ := p["description"].(string)
	parts := []string{}
	if doc != "" {
		parts = append(parts, doc)
	}
	if enum, ok := p["enum"].([]any); ok {
		words := make([]string, len(enum))
		for i, v := range enum {
			words[i] = fmt.Sprintf("`%v`", v)
		}
		parts = append(parts, "One of "+strings.Join(words, ", ")+".")
	}
	low, hasLow := p["minimum"]
	high, hasHigh := p["maximum"]
	switch {
	case hasLow && hasHigh:
		parts = append(parts, fmt.Sprintf("From %v to %v.", low, high))
	case hasLow:
		parts = append(parts, fmt.Sprintf("At least %v.", low))
	case hasHigh:
		parts = append(parts, fmt.Sprintf("At most %v.", high))
	}
	return strings.ReplaceAll(strings.ReplaceAll(strings.Join(parts, " "), "|", `\|`), "\n", " ")
}
