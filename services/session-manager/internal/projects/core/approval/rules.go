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

// Rule decides whether a change of one key widens an agent's rights.
type Rule struct {
	// Key is the key as in [Widening]; a "*" stands for the rest of a key.
	Key string
	// Widens describes the changes that widen, Free those that do not.
	Widens, Free string
	// compare is nil for keys that other code compares: prompts when their texts are read, the others in [dormant].
	compare func(pair) []Widening
}

const agentKey = "agent"

// Rules define widening, key by key. A key without a rule leaves an agent's rights unchanged.
var Rules = []Rule{
	{agentKey, "a new agent", "a removed agent", newAgent},
	{"cage", "`disabled` instead of a cage", "a cage instead of none", cage("")},
	{
		"cage.fs",
		"a path that was hidden or read-only; an explicit `rw` for a path that is read-only by default",
		"fewer paths, `ro` instead of `rw`, another spelling of the same path", cage("fs"),
	},
	{"cage.net.allow", "another host or port", "fewer", cage("net.allow")},
	{"cage.seccomp", "`relaxed`", "`default`", cage("seccomp")},
	{"cage.capabilities", "another capability", "fewer", cage("capabilities")},
	{"cage.git", "`writable`, or absent", "`read_only`", cage("git")},
	{"cage.state", "`persistent`", "`ephemeral`", cage("state")},
	{"cage.env", "a new variable, or another value", "fewer variables", cage("env")},
	{"cage.limits.*", "a higher limit, or its removal", "a lower or a new limit", cage("limits.")},
	{
		"tools", "a tool that the agent did not have, resolved with the present `default_tools`",
		"fewer tools, other aliases", tools,
	},
	{
		"model",
		"an alias of a provider that no agent of the approved version used, by the present `[models]`",
		"an unbound alias, or one of providers in use; a change of `[models]` by the operator", model,
	},
	{
		"system_prompt", "a file that agents can write, with a text that was never accepted",
		"a file that agents cannot write, or a missing one", nil,
	},
	{
		"instructions", "a text of `AGENTS.md` that was never accepted, or its removal; runs keep the accepted text",
		"the key", nil,
	},
	{"max_steps", "a higher number; absent means `[limits] max_steps`, 20 by default", "a lower one", maxSteps},
	{"max_output_tokens", "a higher number; adding or removing the key", "a lower one", maxOutputTokens},
	{
		"budget.*", "a higher limit, or its removal; `unpriced: allow` under a budget in US dollars",
		"a lower or a new limit", budget,
	},
	{
		"approve", "`listed` or absent instead of `writes`: an operator is asked less often",
		"`writes`, also inherited from a caller", approveWrites,
	},
	{"todo_review", "`auto`: its todos are stored without review", "`review`", todoReview},
	{"on_crash", "`resume` of the root agent: it calls models without a new message", "`stop`", onCrash},
	{
		"lsp.servers", "a new, changed or removed command of a language, or other extensions",
		"another order", nil,
	},
	{
		"dap.adapters", "a new, changed or removed adapter of a runtime",
		"another order", nil,
	},
	{
		"dap.launch_json", "a new or changed configuration in `.vscode/launch.json`, if `launch_json` is set",
		"a removed one", nil,
	},
	{"plugins", "a new or changed plugin, although none is loaded yet", "fewer", nil},
	{"workflows", "a new or changed workflow, although none can be started yet", "fewer", nil},
	{"compaction", "a change of `summarize` or `delegate`", "any other change", nil},
	{
		"policy.token_hard_limit", "a higher limit, or its removal", "a lower or a new limit",
		tokenLimit,
	},
	{"policy.content_gates", "a removed gate", "a new gate, or another `action`", contentGates},
	{"policy.redact_secrets", "`false`", "`true`, or absent", showSecrets},
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

// cage returns the comparison of one key of a cage, or of all keys that start with it if it ends in a dot.
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

// policies returns the policies of the pair, an empty one for an agent without a policy.
func (p pair) policies() (before, after dsl.Policy) {
	if p.before.Policy != nil {
		before = *p.before.Policy
	}
	if p.after.Policy != nil {
		after = *p.after.Policy
	}
	return before, after
}

func tokenLimit(p pair) []Widening {
	before, after := p.policies()
	from, to := before.TokenHardLimit, after.TokenHardLimit
	if from == 0 || to != 0 && to <= from {
		return nil
	}
	said := "none"
	if to != 0 {
		said = strconv.FormatInt(to, 10)
	}
	return p.widened("policy.token_hard_limit", strconv.FormatInt(from, 10), said)
}

func contentGates(p pair) []Widening {
	before, after := p.policies()
	var list []Widening
	for _, g := range before.ContentGates {
		kept := slices.ContainsFunc(after.ContentGates, func(k dsl.ContentGate) bool { return k.Pattern == g.Pattern })
		if !kept {
			list = append(list, p.widened("policy.content_gates", g.Pattern, "none")...)
		}
	}
	return list
}

func showSecrets(p pair) []Widening {
	before, after := p.policies()
	if before.ShowSecrets || !after.ShowSecrets {
		return nil
	}
	return p.widened("policy.redact_secrets", "true", "false")
}

func onCrash(p pair) []Widening {
	if p.after.Path != "primary" || p.before.ResumeOnCrash || !p.after.ResumeOnCrash {
		return nil
	}
	return p.widened("on_crash", "stop", "resume")
}

// debugging compares the debug adapters, where a removal widens as for language servers, and the entries of
// .vscode/launch.json.
func debugging(from, to Version) []Widening {
	adapters := func(v Version) map[string]string {
		texts := map[string]string{}
		for _, a := range v.Debugging.Adapters {
			text, _ := json.Marshal(a) // strings can be encoded as JSON
			texts[a.Runtime] = string(text)
		}
		return texts
	}
	entries := func(v Version) map[string]string {
		texts := map[string]string{}
		for _, c := range v.Debugging.Configurations {
			texts[c.Name] = c.JSON
		}
		return texts
	}
	list := differences("dap.adapters.", adapters(from), adapters(to), true)
	return append(list, differences("dap.launch_json.", entries(from), entries(to), false)...)
}

// differences returns a widening for each new or changed entry and, if gone is true, for each removed entry.
func differences(key string, before, after map[string]string, gone bool) []Widening {
	names := slices.Collect(maps.Keys(after))
	for name := range before {
		if _, ok := after[name]; !ok && gone {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var list []Widening
	for _, name := range names {
		if before[name] != after[name] {
			list = append(list, Widening{Place{Key: key + name}, before[name], after[name]})
		}
	}
	return list
}

func approveWrites(p pair) []Widening {
	if !p.before.ApproveWrites || p.after.ApproveWrites {
		return nil
	}
	return p.widened("approve", "writes", "listed")
}

func todoReview(p pair) []Widening {
	if p.before.AutoTodos || !p.after.AutoTodos {
		return nil
	}
	return p.widened("todo_review", "review", "auto")
}

// languageServers compares the commands of the project's language servers. A removal widens too: the operator's or
// kaged's own server takes its place and may run other code of the project.
func languageServers(from, to Version) []Widening {
	said := func(v Version) map[string]string {
		texts := map[string]string{}
		for _, s := range v.LanguageServers {
			text, _ := json.Marshal(s.Command) // strings can be encoded as JSON
			texts[s.Lang] = string(text)
			if len(s.Extensions) > 0 {
				texts[s.Lang] += " for " + strings.Join(s.Extensions, ", ")
			}
		}
		return texts
	}
	return differences("lsp.servers.", said(from), said(to), true)
}

// dormant compares the values of keys without effect, because the present approval still applies once they have
// one.
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
		if there && before != after || there && !known {
			list = append(list, Widening{at, before, after})
		}
	}
	return list
}

// DormantIn returns the values of keys that have no effect yet and will widen rights once they have.
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
			put(a.Path, "compaction", map[string]string{
				"model": c.SummarizeModel, "prompt": c.SummarizePrompt, "delegate": c.DelegatePlugin,
			})
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
