package dsl

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// actsOn maps each key with an effect to the part of kaged that implements it. [TestEveryKeyIsClassified] fails for a
// key that is neither here nor in notInForce.
var actsOn = map[string]string{
	"project.version":     "dsl: the format",
	"project.project":     "session-manager: the id",
	"project.description": "session-manager: the project's answer",
	"project.primary":     "compile: the root agent",

	"project.lsp":                      "lsp-pool",
	"project.lsp.servers":              "lsp-pool: the entry of a language",
	"project.lsp.servers[].lang":       "lsp-pool: the entry of a language",
	"project.lsp.servers[].command":    "lsp-pool: the program",
	"project.lsp.servers[].extensions": "lsp-pool: the language of a file",
	"project.dap":                      "dap-pool",
	"project.dap.launch_json":          "tool-runner: the tool debug",
	"project.dap.adapters":             "dap-pool: the adapter of a runtime",
	"project.dap.adapters[].runtime":   "dap-pool: the adapter of a runtime",
	"project.dap.adapters[].command":   "dap-pool: the program",
	"project.dap.adapters[].adapter":   "dap-pool: the program",
	"project.dap.adapters[].announces": "dap-pool: the connection to it",
	"project.dap.adapters[].type":      "dap-pool: the request that begins a session",

	"agent.model":                           "session-manager/projects: routes",
	"agent.system_prompt":                   "session-manager/projects: prompts",
	"agent.description":                     "dsl: text for a parent, part of the snapshot",
	"agent.tools":                           "compile: tools",
	"agent.tools.*.enabled":                 "compile: tools",
	"agent.tools_profile":                   "compile: tools",
	"agent.max_steps":                       "harness/loop: the bound of a run",
	"agent.max_output_tokens":               "harness/loop: each request",
	"agent.subagents":                       "harness/loop: calls of agents",
	"agent._source":                         "dsl: says where a synthesized agent is from, and nothing else",
	"agent._source.project_ref":             "dsl: see agent._source",
	"agent._source.name":                    "dsl: see agent._source",
	"agent.cage":                            "sandbox-supervisor",
	"agent.todo_review":                     "harness/loop: proposed todos",
	"agent.approve":                         "tool-runner/dispatch: approving",
	"agent.on_crash":                        "session-manager/live: resume",
	"agent.include_tool_results_in_context": "session-manager/transcript",
	"agent.context":                         "harness/loop: calls of agents",

	"agent.instructions":           "harness/loop: the system prompt",
	"agent.instructions.agents_md": "tool-runner/project: the text; harness/loop: the system prompt",
	"agent.instructions.skills":    "compile: the tool project.skill",

	"agent.compaction":                       "harness/compact",
	"agent.compaction.strategy":              "harness/loop: drop, summarize, kaged-summarizer; the others warn",
	"agent.compaction.delegate":              "harness/loop: the built-in compactor",
	"agent.compaction.delegate.plugin":       "harness/loop: kaged-summarizer; plugins warn",
	"agent.compaction.summarize":             "harness/loop: the summarizer",
	"agent.compaction.summarize.model":       "harness/loop: the summarizer",
	"agent.compaction.summarize.prompt":      "harness/loop: the summarizer",
	"agent.compaction.upper_threshold":       "harness/loop: room",
	"agent.compaction.lower_threshold":       "harness/loop: room",
	"agent.compaction.always_keep":           "harness/loop: room",
	"agent.compaction.prune":                 "harness/compact: pruning",
	"agent.compaction.prune.enabled":         "harness/compact: pruning",
	"agent.compaction.prune.protect_tokens":  "harness/compact: pruning",
	"agent.compaction.prune.minimum_savings": "harness/compact: pruning",
	"agent.compaction.prune.protected_tools": "harness/compact: pruning",

	"cage.fs":              "pkg/cage",
	"cage.fs[].mode":       "pkg/cage",
	"cage.fs[].path":       "pkg/cage",
	"cage.net":             "sandbox-supervisor: the gate",
	"cage.net.allow":       "sandbox-supervisor: the gate",
	"cage.seccomp":         "sandbox-supervisor: the init",
	"cage.capabilities":    "tool-runner: permission",
	"cage.git":             "pkg/cage",
	"cage.state":           "sandbox-supervisor: the home",
	"cage.env":             "sandbox-supervisor: commands",
	"cage.limits":          "sandbox-supervisor: limits",
	"cage.limits.memory":   "sandbox-supervisor: limits",
	"cage.limits.disk":     "sandbox-supervisor: limits",
	"cage.limits.cpu":      "sandbox-supervisor: limits",
	"cage.limits.pids":     "sandbox-supervisor: limits",
	"cage.limits.walltime": "sandbox-supervisor: limits",

	"agent.policy":                         "harness/loop: each request",
	"agent.policy.token_hard_limit":        "harness/loop: each request",
	"agent.policy.on_exceed":               "harness/loop: abort; truncate is warned of",
	"agent.policy.redact_secrets":          "harness/loop: each request",
	"agent.policy.content_gates":           "harness/loop: each request",
	"agent.policy.content_gates[].pattern": "harness/loop: each request",
	"agent.policy.content_gates[].action":  "harness/loop: each request",

	"agent.budget":       "harness/budget",
	"budget.usd":         "harness/budget",
	"budget.tokens":      "harness/budget",
	"budget.calls":       "harness/budget",
	"budget.walltime":    "harness/loop: the clock of an invocation",
	"budget.live_agents": "harness/budget",
	"budget.depth":       "harness/budget",
	"budget.unpriced":    "harness/budget",

	"reference.path":                  "dsl: references",
	"reference.name":                  "dsl: references",
	"reference.description":           "dsl: references",
	"reference.overrides":             "dsl: references",
	"reference.overrides.description": "dsl: references",
	"reference.overrides.primary":     "dsl: references",
}

// Every key of a project file either has a named effect or is listed without one and gives a warning; no key is on both
// lists, and both name only known keys.
func TestEveryKeyIsClassified(t *testing.T) {
	keys := Keys()
	for _, key := range keys {
		_, acted := actsOn[key]
		if dormant := isDormant(key); acted == dormant {
			t.Errorf("%s: acted on %t, not in force %t; want exactly one", key, acted, dormant)
		}
	}
	for _, list := range []map[string]string{actsOn, notInForce} {
		for key := range list {
			if !slices.Contains(keys, key) {
				t.Errorf("%s is classified and there is no such key", key)
			}
		}
	}
}

// isDormant reports whether a key or its parent key has no effect.
func isDormant(key string) bool {
	for dormant := range notInForce {
		if rest, ok := strings.CutPrefix(key, dormant); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[")) {
			return true
		}
	}
	return false
}

// Each key and each value without effect gives a warning at its position, in every agent.
func TestNotInForceIsSaid(t *testing.T) {
	const agent = "model: m, system_prompt: ./p.md, cage: disabled"
	yaml := "version: 1\nproject: demo\nworkflows: [{name: w}]\nprimary:\n  model: m\n  system_prompt: ./p.md\n  " +
		"plugins: {memory: {package: x}}\n" +
		"  compaction: {strategy: checkpoint}\n  policy: {token_hard_limit: 9, on_exceed: abort}\n" +
		"  subagents:\n    a: {" + agent + ", policy: {token_hard_limit: 9, on_exceed: truncate}}\n"
	r := parse(t, only(yaml))
	if r.Failed() {
		t.Fatal(r.Diagnostics)
	}
	var got []string
	for _, d := range r.Diagnostics {
		if d.Kind == NotInForce && d.Severity == Warning && d.Pos.Line > 0 {
			got = append(got, d.Path)
		}
	}
	want := []string{
		"workflows", "primary.plugins", "primary.compaction.strategy", "primary.subagents.a.policy.on_exceed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("warned of %v, want %v", got, want)
	}
}

// The rules of a policy are read in their short and their long form.
func TestPolicy(t *testing.T) {
	r := parse(t,
		only(head+"  model: m\n  system_prompt: ./p.md\n  policy:\n    token_hard_limit: 9\n    redact_secrets: false\n"+
			"    content_gates: [secret, {pattern: other, action: strip}]\n"))
	if r.Failed() {
		t.Fatal(r.Diagnostics)
	}
	want := &Policy{
		TokenHardLimit: 9, ShowSecrets: true, ContentGates: []ContentGate{{"secret", GateRedact}, {"other", GateStrip}},
	}
	if d := cmp.Diff(want, r.Project.Primary.Policy); d != "" {
		t.Error(d)
	}
}
