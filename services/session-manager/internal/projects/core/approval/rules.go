package approval

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kaged.dev/pkg/dsl"
)

// Rule says when a change of one key widens.
type Rule struct {
	// Key is the key, as [Widening] names it; a "*" stands for the rest of a name.
	Key string
	// Widens says which change widens, Free which does not.
	Widens, Free string
	// compare is nil for keys that are compared elsewhere: prompts where their texts are read, the rest by [dormant].
	compare func(pair) []Widening
}

const agentKey = "agent"

// Rules are what widening is, key by key. A key that stands in no rule changes nothing that an agent may do.
var Rules = []Rule{
	{agentKey, "an agent that was not there", "an agent that is gone", newAgent},
	{"cage", "`disabled`, where there was a cage", "a cage, where there was none", cage("")},
	{
		"cage.fs", "a path that could not be seen, or could only be read; a grant to write that names what stays read-only otherwise",
		"fewer paths, `ro` instead of `rw`, the same in another spelling", cage("fs"),
	},
	{"cage.net.allow", "another host or port", "fewer", cage("net.allow")},
	{"cage.seccomp", "`relaxed`", "`default`", cage("seccomp")},
	{"cage.capabilities", "another capability", "fewer", cage("capabilities")},
	{"cage.git", "`writable`, or absent", "`read_only`", cage("git")},
	{"cage.state", "`persistent`", "`ephemeral`", cage("state")},
	{"cage.env", "a new variable, or another value", "fewer variables", cage("env")},
	{"cage.limits.*", "a higher limit, or none any more", "a lower one, or one where there was none", cage("limits.")},
	{"tools", "a tool that the agent did not have, as it is resolved with `default_tools` of now", "fewer tools, other aliases of them", tools},
	{
		"model", "an alias that leads to a provider, and its credentials, that no agent of the approved version reached, as `[models]` binds them now",
		"an alias that is not bound, or leads to providers that were reached already; what the operator binds", model,
	},
	{"system_prompt", "a file that agents can write and whose text was never accepted", "a file that they cannot write, or that is missing", nil},
	{"max_steps", "a higher number; an absent one counts as `[limits] max_steps`, 20 by default", "a lower one", maxSteps},
	{"max_output_tokens", "a higher number, or any where one was absent or is absent now", "a lower one", maxOutputTokens},
	{
		"budget.*", "a higher limit, or none any more; `unpriced: allow` under a budget in US dollars",
		"a lower one, or one where there was none", budget,
	},
	{"on_crash", "`resume` of the root agent, which calls models unasked", "`stop`", onCrash},
	{
		"lsp.servers", "a language whose command is new, changed or gone, or that has other extensions",
		"the same in another order", nil,
	},
	{"plugins", "a new or changed one, though none is loaded yet", "fewer", nil},
	{"workflows", "a new or changed one, though none can be invoked yet", "fewer", nil},
	{"compaction", "another `summarize` or `delegate`, though nothing is compacted yet", "everything else", nil},
	{"policy", "another or none any more, though none is in force yet", "one where there was none", nil},
}

func newAgent(p pair) []Widening {
	if p.before != nil {
		return nil
	}
	return p.widened(agentKey, "", "model "+p.after.Model+"; tools "+some(p.after.Tools)+"; cage "+p.after.Cage.Summary())
}

func some(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// cage returns the comparison of one key of a cage, or of those that begin with it if it ends in a dot.
func cage(key string) func(pair) []Widening {
	return func(p pair) []Widening {
		var list []Widening
		for _, d := range dsl.Wider(p.to.Root, p.before.Cage, p.after.Cage) {
			switch {
			case d.Key == "" && key == "":
				list = append(list, p.widened("cage", d.From, d.To)...)
			case d.Key == key && key != "", strings.HasSuffix(key, ".") && strings.HasPrefix(d.Key, key):
				list = append(list, p.widened("cage."+d.Key, d.From, d.To)...)
			}
		}
		return list
	}
}

func tools(p pair) []Widening {
	var more []string
	for _, t := range p.after.Tools {
		if !slices.Contains(p.before.Tools, t) {
			more = append(more, t)
		}
	}
	if len(more) == 0 {
		return nil
	}
	return p.widened("tools", "", strings.Join(more, ", "))
}

func model(p pair) []Widening {
	if p.before.Model == p.after.Model {
		return nil
	}
	reached := map[string]bool{}
	for _, a := range p.from.Agents {
		for _, provider := range p.to.Providers[a.Model] {
			reached[provider] = true
		}
	}
	for _, provider := range p.to.Providers[p.after.Model] {
		if !reached[provider] {
			return p.widened("model", p.before.Model, p.after.Model+" (provider "+provider+")")
		}
	}
	return nil
}

func maxSteps(p pair) []Widening {
	before, after := p.before.MaxSteps, p.after.MaxSteps
	if before == 0 {
		before = p.to.DefaultSteps
	}
	if after == 0 {
		after = p.to.DefaultSteps
	}
	if after <= before {
		return nil
	}
	return p.widened("max_steps", strconv.Itoa(before), strconv.Itoa(after))
}

func maxOutputTokens(p pair) []Widening {
	before, after := p.before.MaxOutputTokens, p.after.MaxOutputTokens
	if before == after || after != 0 && before != 0 && after < before {
		return nil
	}
	return p.widened("max_output_tokens", number(before), number(after))
}

func number(n int) string {
	if n == 0 {
		return "the provider's"
	}
	return strconv.Itoa(n)
}

func budget(p pair) []Widening {
	var list []Widening
	for _, x := range p.before.Budget.Beyond(p.after.Budget) {
		list = append(list, p.widened("budget."+x.Field, x.Limit, cmp.Or(x.Wanted, "none"))...)
	}
	return list
}

func onCrash(p pair) []Widening {
	if p.after.Path != "primary" || p.before.ResumeOnCrash || !p.after.ResumeOnCrash {
		return nil
	}
	return p.widened("on_crash", "stop", "resume")
}

// languageServers compares the programs that the project's languages start. One that is gone widens as well: the
// operator's or kaged's own takes its place, which may run other code of the project.
func languageServers(from, to Version) []Widening {
	said := func(v Version) map[string]string {
		texts := map[string]string{}
		for _, s := range v.LanguageServers {
			text, _ := json.Marshal(s.Command) // strings have a JSON form
			texts[s.Lang] = string(text)
			if len(s.Extensions) > 0 {
				texts[s.Lang] += " for " + strings.Join(s.Extensions, ", ")
			}
		}
		return texts
	}
	before, after := said(from), said(to)
	langs := slices.Collect(maps.Keys(after))
	for lang := range before {
		if _, ok := after[lang]; !ok {
			langs = append(langs, lang)
		}
	}
	slices.Sort(langs)
	var list []Widening
	for _, lang := range langs {
		if before[lang] != after[lang] {
			list = append(list, Widening{Place{Key: "lsp.servers." + lang}, before[lang], after[lang]})
		}
	}
	return list
}

// dormant compares the values of keys that are not in force: what is approved now will count once they are.
func dormant(from, to Version) []Widening {
	places := map[Place]bool{}
	for at := range from.Dormant {
		places[at] = true
	}
	for at := range to.Dormant {
		places[at] = true
	}
	var list []Widening
	for _, at := range slices.SortedFunc(maps.Keys(places), func(a, b Place) int {
		return strings.Compare(a.AgentPath+"\x00"+a.Key, b.AgentPath+"\x00"+b.Key)
	}) {
		before, known := from.Dormant[at]
		after, there := to.Dormant[at]
		gone := !there && at.Key == "policy" && known
		added := there && !known && at.Key != "policy"
		changed := known && there && before != after
		if gone || added || changed {
			list = append(list, Widening{at, before, after})
		}
	}
	return list
}

// DormantIn returns the values of keys that are not in force and will widen once they are.
func DormantIn(p *dsl.Project) map[Place]string {
	values := map[Place]string{}
	put := func(agent, key string, v any) {
		text, err := json.Marshal(v)
		if err == nil {
			values[Place{agent, key}] = string(text)
		}
	}
	for _, w := range p.Workflows {
		put("", "workflows."+w.Name, w)
	}
	for a := range p.Agents {
		for _, plugin := range a.Plugins {
			put(a.Path, "plugins."+plugin.Slot, plugin)
		}
		if c := a.Compaction; c != nil && (c.SummarizeModel != "" || c.SummarizePrompt != "" || c.DelegatePlugin != "") {
			put(a.Path, "compaction", map[string]string{"model": c.SummarizeModel, "prompt": c.SummarizePrompt, "delegate": c.DelegatePlugin})
		}
		if a.Policy != nil {
			put(a.Path, "policy", a.Policy)
		}
	}
	return values
}

// Table returns the rules as the Markdown table of the reference page.
func Table() string {
	var b strings.Builder
	b.WriteString("| key | widens | does not |\n|---|---|---|\n")
	for _, r := range Rules {
		b.WriteString("| `" + r.Key + "` | " + r.Widens + " | " + r.Free + " |\n")
	}
	return b.String()
}
