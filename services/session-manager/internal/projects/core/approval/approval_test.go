package approval_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"kaged.dev/pkg/dsl"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

var update = flag.Bool("update", false, "rewrite the table of the reference page")

const root = "/home/p"

func version(agents ...approval.Agent) approval.Version {
	return approval.Version{
		Root: root, Agents: agents, DefaultSteps: 20, Dormant: map[approval.Place]string{},
		Providers: map[string][]string{"smart": {"a"}, "cheap": {"a"}, "far": {"a", "b"}},
	}
}

func agent(change func(*approval.Agent)) approval.Agent {
	a := approval.Agent{
		Path: "primary", Model: "smart", Prompt: ".kaged/p.md", Tools: []string{"file.read"},
		Cage: &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "project:/"}}},
	}
	if change != nil {
		change(&a)
	}
	return a
}

func said(list []approval.Widening) string {
	var words []string
	for _, w := range list {
		words = append(words, w.AgentPath+" "+w.Key+": "+w.From+" → "+w.To)
	}
	return strings.Join(words, ", ")
}

// Each key widens as its rule states, and changes without a grant need no approval.
func TestWidened(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*approval.Agent)
		want   string
	}{
		"nothing": {nil, ""},
		"no cage": {
			func(a *approval.Agent) {
				a.Cage = nil
			}, "primary cage: fs rw project:/; net none; seccomp default; capabilities none → disabled",
		},
		"a tool": {
			func(a *approval.Agent) { a.Tools = []string{"file.read", "shell.bash"} }, "primary tools:  → shell.bash",
		},
		"no tool":                   {func(a *approval.Agent) { a.Tools = nil }, ""},
		"another model there":       {func(a *approval.Agent) { a.Model = "cheap" }, ""},
		"a model that is not bound": {func(a *approval.Agent) { a.Model = "none" }, ""},
		"another provider": {
			func(a *approval.Agent) { a.Model = "far" }, "primary model: smart → far (provider b)",
		},
		"more steps than by default":  {func(a *approval.Agent) { a.MaxSteps = 21 }, "primary max_steps: 20 → 21"},
		"fewer steps than by default": {func(a *approval.Agent) { a.MaxSteps = 19 }, ""},
		"a number of tokens": {
			func(a *approval.Agent) { a.MaxOutputTokens = 9 }, "primary max_output_tokens: the provider's → 9",
		},
		"unreviewed todos": {func(a *approval.Agent) { a.AutoTodos = true }, "primary todo_review: review → auto"},
		"going on after a crash": {
			func(a *approval.Agent) { a.ResumeOnCrash = true }, "primary on_crash: stop → resume",
		},
		"a budget": {
			func(a *approval.Agent) { a.Budget = &dsl.Budget{Calls: 9, AllowUnpriced: true} }, "",
		},
		"a host and a limit gone": {
			func(a *approval.Agent) { a.Cage.Net = []string{"x.y:1"} },
			"primary cage.net.allow:  → x.y:1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := said(approval.Widened(version(agent(nil)), version(agent(tt.change)))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	bounded := agent(func(a *approval.Agent) {
		a.Budget = &dsl.Budget{NanoUSD: dsl.Nano(0.5), Calls: 9, Walltime: time.Minute}
	})
	for name, tt := range map[string]struct {
		budget *dsl.Budget
		want   string
	}{
		"less":  {&dsl.Budget{NanoUSD: dsl.Nano(0.25), Calls: 9, Walltime: time.Second, Depth: 1}, ""},
		"more":  {&dsl.Budget{NanoUSD: dsl.Nano(0.75), Calls: 9, Walltime: time.Minute}, "primary budget.usd: 0.5 → 0.75"},
		"fewer": {&dsl.Budget{NanoUSD: dsl.Nano(0.5), Walltime: time.Minute}, "primary budget.calls: 9 → none"},
		"free models": {
			&dsl.Budget{NanoUSD: dsl.Nano(0.5), Calls: 9, Walltime: time.Minute, AllowUnpriced: true},
			"primary budget.unpriced: refuse → allow",
		},
		"none": {nil, "primary budget.usd: 0.5 → none, primary budget.calls: 9 → none, primary budget.walltime: 1m → none"},
	} {
		after := agent(func(a *approval.Agent) { a.Budget = tt.budget })
		if got := said(approval.Widened(version(bounded), version(after))); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	child := agent(func(a *approval.Agent) { a.Path = "primary.subagents.x" })
	if got := said(approval.Widened(version(agent(nil)), version(agent(nil), child))); !strings.HasPrefix(got,
		"primary.subagents.x agent:  → model smart; tools file.read; cage fs rw") {
		t.Errorf("a new agent: %q", got)
	}
	if got := said(approval.Widened(version(agent(nil), child), version(agent(nil)))); got != "" {
		t.Errorf("an agent less: %q", got)
	}
}

// A new or changed debug adapter and entry of .vscode/launch.json widen. A removed adapter widens too, because another
// takes its place.
func TestDebuggingWidens(t *testing.T) {
	with := func(d dsl.Debugging) approval.Version {
		v := version(agent(nil))
		v.Debugging = d
		return v
	}
	adapter := func(command string) dsl.Debugging {
		return dsl.Debugging{Adapters: []dsl.DebugAdapter{{Runtime: "lua", Command: []string{command}}}}
	}
	entry := func(text string) dsl.Debugging {
		return dsl.Debugging{Configurations: []dsl.DebugConfiguration{{Name: "run", JSON: text}}}
	}
	for name, tt := range map[string]struct {
		from, to dsl.Debugging
		want     []string
	}{
		"a new adapter":    {dsl.Debugging{}, adapter("lua-debug"), []string{" dap.adapters.lua:  → ", "lua-debug"}},
		"another program":  {adapter("lua-debug"), adapter("./evil"), []string{" dap.adapters.lua: ", "./evil"}},
		"one that is gone": {adapter("lua-debug"), dsl.Debugging{}, []string{" dap.adapters.lua: "}},
		"a new entry":      {dsl.Debugging{}, entry("{}"), []string{" dap.launch_json.run:  → {}"}},
		"a changed entry":  {entry("{}"), entry("[]"), []string{" dap.launch_json.run: {} → []"}},
		"an entry less":    {entry("{}"), dsl.Debugging{}, nil},
		"the same":         {adapter("lua-debug"), adapter("lua-debug"), nil},
	} {
		got := said(approval.Widened(with(tt.from), with(tt.to)))
		for _, part := range tt.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q, want %q in it", name, got, part)
			}
		}
		if tt.want == nil && got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A change of a language server's program always widens, because an agent's query starts it.
func TestLanguageServersWiden(t *testing.T) {
	servers := func(list ...dsl.LanguageServer) approval.Version {
		v := version(agent(nil))
		v.LanguageServers = list
		return v
	}
	other := func(lang string, command ...string) dsl.LanguageServer {
		return dsl.LanguageServer{Lang: lang, Command: command}
	}
	gopls := dsl.LanguageServer{Lang: "go", Command: []string{"gopls", "-v"}}
	zls := dsl.LanguageServer{Lang: "zig", Command: []string{"zls"}, Extensions: []string{".zig"}}
	for name, tt := range map[string]struct {
		from, to approval.Version
		want     string
	}{
		"a new one": {servers(), servers(gopls), ` lsp.servers.go:  → ["gopls","-v"]`},
		"another program": {
			servers(gopls), servers(other("go", "./evil")),
			` lsp.servers.go: ["gopls","-v"] → ["./evil"]`,
		},
		"an argument in two": {
			servers(gopls), servers(other("go", "gopls", "-", "v")),
			` lsp.servers.go: ["gopls","-v"] → ["gopls","-","v"]`,
		},
		"another extension": {
			servers(zls), servers(other("zig", "zls")),
			` lsp.servers.zig: ["zls"] for .zig → ["zls"]`,
		},
		"one less":               {servers(gopls), servers(), ` lsp.servers.go: ["gopls","-v"] → `},
		"the same":               {servers(gopls, zls), servers(gopls, zls), ""},
		"the same the other way": {servers(gopls, zls), servers(zls, gopls), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := said(approval.Widened(tt.from, tt.to)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A policy that restricts less than the approved one widens.
func TestPoliciesWiden(t *testing.T) {
	with := func(p *dsl.Policy) approval.Version {
		return version(agent(func(a *approval.Agent) { a.Policy = p }))
	}
	limit := func(n int64) *dsl.Policy { return &dsl.Policy{TokenHardLimit: n} }
	gates := func(list ...dsl.ContentGate) *dsl.Policy { return &dsl.Policy{ContentGates: list} }
	gate := dsl.ContentGate{Pattern: "x", Action: dsl.GateRedact}
	strip := dsl.ContentGate{Pattern: "x", Action: dsl.GateStrip}
	for name, tt := range map[string]struct {
		from, to *dsl.Policy
		want     string
	}{
		"a first one":       {nil, limit(9), ""},
		"a lower limit":     {limit(9), limit(8), ""},
		"a higher limit":    {limit(9), limit(10), "primary policy.token_hard_limit: 9 → 10"},
		"no limit any more": {limit(9), nil, "primary policy.token_hard_limit: 9 → none"},
		"a gate more":       {nil, gates(gate), ""},
		"a gate less":       {gates(gate), gates(), "primary policy.content_gates: x → none"},
		"another action":    {gates(gate), gates(strip), ""},
		"secrets are shown": {nil, &dsl.Policy{ShowSecrets: true}, "primary policy.redact_secrets: true → false"},
		"they are no more":  {&dsl.Policy{ShowSecrets: true}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := said(approval.Widened(with(tt.from), with(tt.to))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Keys without effect count as if they had one, because the present approval applies when a later version of kaged uses
// them.
func TestDormantKeysWiden(t *testing.T) {
	parse := func(extra string) map[approval.Place]string {
		r := dsl.Parse([]dsl.File{
			{
				Path: dsl.ProjectFile, Present: true,
				Content: []byte("version: 1\nproject: x\nprimary:\n  model: m\n  system_prompt: ./p.md\n" + extra),
			},
			{Path: dsl.OverlayFile},
			{Path: "p.md", Present: true},
			{Path: "s.md", Present: true},
		})
		if r.Project == nil {
			t.Fatal(r.Diagnostics)
		}
		return approval.DormantIn(r.Project)
	}
	const plugin = "  plugins: {memory: {package: good}}\n"
	for name, tt := range map[string]struct{ from, to, want string }{
		"a plugin":       {"", plugin, "primary plugins.memory"},
		"another plugin": {plugin, strings.ReplaceAll(plugin, "good", "evil"), "primary plugins.memory"},
		"no plugin":      {plugin, "", ""},
		"a workflow":     {"", "workflows: [{name: w}]\n", " workflows.w"},
		"a summarizer":   {"", "  compaction: {summarize: {model: m, prompt: ./s.md}}\n", "primary compaction"},
		"a threshold":    {"", "  compaction: {upper_threshold: 0.9}\n", ""},
		"the same":       {plugin, plugin, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := version(agent(nil)), version(agent(nil))
			from.Dormant, to.Dormant = parse(tt.from), parse(tt.to)
			var got []string
			for _, w := range approval.Widened(from, to) {
				got = append(got, w.AgentPath+" "+w.Key)
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

// Agents can write a prompt if a cage grants it, or if an agent without a cage has a tool for it. .kaged stays
// read-only in a cage unless a grant names it.
func TestWritable(t *testing.T) {
	caged := func(mounts ...dsl.Mount) approval.Agent { return approval.Agent{Cage: &dsl.Cage{FS: mounts}} }
	rw := func(path string) dsl.Mount { return dsl.Mount{Mode: "rw", Path: path} }
	for name, tt := range map[string]struct {
		agent  approval.Agent
		prompt string
		want   bool
	}{
		"no cage, tools that read":       {approval.Agent{}, "p.md", false},
		"no cage, tools that write":      {approval.Agent{Writes: true}, ".kaged/p.md", true},
		"the project":                    {caged(rw("project:/")), "prompts/p.md", true},
		"the project, by its name":       {caged(rw("/home/p")), "prompts/p.md", true},
		"the project, its .kaged":        {caged(rw("project:/")), ".kaged/prompts/p.md", false},
		"a name that begins like .kaged": {caged(rw("project:/")), ".kaged-old/p.md", true},
		"a folder beside":                {caged(rw("project:/src")), "prompts/p.md", false},
		"read-only": {
			caged(rw("project:/"), dsl.Mount{Mode: "ro", Path: "project:/prompts"}), "prompts/p.md", false,
		},
		".kaged, named":                    {caged(rw("project:/.kaged/prompts")), ".kaged/prompts/p.md", true},
		".kaged, another part named":       {caged(rw("project:/.kaged/other")), ".kaged/prompts/p.md", false},
		".kaged of a project inside":       {caged(rw("project:/")), "lib/.kaged/p.md", true},
		"a folder around the project, too": {caged(rw("/home")), "prompts/p.md", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := version(tt.agent).Writable(tt.prompt); got != tt.want {
				t.Errorf("writable is %t, want %t", got, tt.want)
			}
		})
	}
}

// If no key widens, each agent of the new version existed in the old one, and has no further tool, no wider cage and no
// higher limit.
func TestNothingWidenedMeansNothingMore(t *testing.T) {
	free := 0
	holds := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 2))
		from, to := version(randomAgents(r)...), version(randomAgents(r)...)
		if len(approval.Widened(from, to)) > 0 {
			return true
		}
		free++
		for _, after := range to.Agents {
			i := slices.IndexFunc(from.Agents, func(a approval.Agent) bool { return a.Path == after.Path })
			if i < 0 {
				t.Errorf("seed %d: %s is new", seed, after.Path)
				return false
			}
			before := from.Agents[i]
			more := slices.ContainsFunc(after.Tools, func(tool string) bool { return !slices.Contains(before.Tools, tool) })
			uncaged := before.Cage != nil && (after.Cage == nil || len(dsl.Wider(root, before.Cage, after.Cage)) > 0)
			steps := func(n int) int { return map[int]int{0: 20}[n] + n }
			if more || uncaged || steps(after.MaxSteps) > steps(before.MaxSteps) || after.ResumeOnCrash &&
				!before.ResumeOnCrash && after.Path == "primary" {
				t.Errorf("seed %d: %+v grants more than %+v", seed, after, before)
				return false
			}
		}
		return true
	}
	if err := quick.Check(holds, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
	if free < 100 {
		t.Errorf("only %d pairs widened nothing; the test says little", free)
	}
}

func randomAgents(r *rand.Rand) []approval.Agent {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	paths := []string{"primary", "primary.subagents.a"}
	var list []approval.Agent
	for _, path := range paths[:1+r.IntN(2)] {
		a := approval.Agent{
			Path: path, Model: pick("smart", "cheap"), Prompt: pick("p.md", ".kaged/p.md"), ResumeOnCrash: r.IntN(4) == 0,
		}
		for _, tool := range []string{"file.read", "file.write"} {
			if r.IntN(3) > 0 {
				a.Tools = append(a.Tools, tool)
				a.Writes = a.Writes || tool == "file.write"
			}
		}
		if r.IntN(3) > 0 {
			a.Cage = &dsl.Cage{FS: []dsl.Mount{{Mode: pick("ro", "rw"), Path: pick("project:/", "project:/src")}}}
		}
		if r.IntN(3) == 0 {
			a.MaxSteps = 10 + r.IntN(20)
		}
		list = append(list, a)
	}
	return list
}

// compared has, for every field of a compiled project, the rule that compares it, or the reason why it grants no right.
var compared = map[string]string{
	"CompiledProject.project":     "a change is refused: sessions hang on the id",
	"CompiledProject.description": "free: shown to people",
	"CompiledProject.version":     "free: the format",
	"CompiledProject.root":        "agents",
	"CompiledProject.tools_off":   "tools: the rest of the catalogue",

	"CompiledProject.language_servers": "lsp.servers",
	"CompiledProject.debugging":        "dap.adapters",

	"AgentNode.key":               "agent",
	"AgentNode.path":              "agent",
	"AgentNode.model":             "model",
	"AgentNode.prompt_path":       "system_prompt",
	"AgentNode.description":       "free: text, as anything a model reads",
	"AgentNode.max_steps":         "max_steps",
	"AgentNode.max_output_tokens": "max_output_tokens",
	"AgentNode.cage":              "cage; dsl.TestWiderComparesEveryField has its fields",
	"AgentNode.tools":             "tools",
	"AgentNode.children":          "agents",
	"AgentNode.on_crash":          "on_crash",
	"AgentNode.auto_todos":        "todo_review",
	"AgentNode.approve_writes":    "approve",
	"AgentNode.tool_aliases":      "free: names of tools that the agent has",
	"AgentNode.writes":            "tools: follows from them",

	"AgentNode.budget":           "budget.*",
	"AgentBudget.nano_usd":       "budget.*",
	"AgentBudget.tokens":         "budget.*",
	"AgentBudget.calls":          "budget.*",
	"AgentBudget.walltime_ms":    "budget.*",
	"AgentBudget.live_agents":    "budget.*",
	"AgentBudget.depth":          "budget.*",
	"AgentBudget.allow_unpriced": "budget.*",

	"AgentNode.policy":             "policy.*",
	"AgentPolicy.token_hard_limit": "policy.token_hard_limit",
	"AgentPolicy.content_gates":    "policy.content_gates",
	"AgentPolicy.show_secrets":     "policy.redact_secrets",

	"AgentNode.compaction": "compaction: summarize and delegate; the rest is free, as anything a model reads",

	"AgentNode.agents_md": "free: text, whose file is held to its accepted text",

	"AgentNode.include_tool_results_in_context": "free: what the model has seen before",
	"AgentNode.parent_context":                  "free: text that its caller could say to it as well",
}

// Every field of a compiled project is compared by a rule or grants no right: a new field has to be classified.
func TestEveryFieldIsClassified(t *testing.T) {
	known := 0
	for name, message := range map[string]interface{ Descriptor() ([]byte, []int) }{
		"CompiledProject": &harnessv1.CompiledProject{}, "AgentNode": &harnessv1.AgentNode{},
		"AgentBudget": &harnessv1.AgentBudget{}, "AgentPolicy": &harnessv1.AgentPolicy{},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(message).Elem()) {
			tag := f.Tag.Get("protobuf")
			if tag == "" {
				continue
			}
			field := ""
			for part := range strings.SplitSeq(tag, ",") {
				if v, ok := strings.CutPrefix(part, "name="); ok {
					field = v
				}
			}
			if compared[name+"."+field] == "" {
				t.Errorf("%s.%s is not classified: add a rule, or say here why it grants nothing", name, field)
			}
			known++
		}
	}
	if known != len(compared) {
		t.Errorf("%d fields are classified and there are %d", len(compared), known)
	}
}

// The reference page has the present table of the rules.
func TestReferenceHasTheTable(t *testing.T) {
	const page = "../../../../../../docs/reference/approval.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin := strings.Index(string(text), "| key |")
	end := begin + strings.Index(string(text)[begin:], "\n\n") + 1
	if *update {
		if err := os.WriteFile(page, []byte(string(text)[:begin]+approval.Table()+string(text)[end:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text)[begin:end] != approval.Table() {
		t.Error("docs/reference/approval.md has another table than the rules: run this test with -update")
	}
}

// A diff names added and removed files, is valid UTF-8 for any content, and ends with the size of the omitted part if
// it is cut.
func TestDiff(t *testing.T) {
	got := approval.Diff([]approval.Text{
		{Path: "a", Content: "1\n2\n"},
		{Path: "gone", Content: "x\n"},
		{Path: "same", Content: "s"},
		{Path: "never", Absent: true},
	},
		[]approval.Text{
			{Path: "a", Content: "1\n\xff3\n"},
			{Path: "new", Content: "y\n"},
			{Path: "same", Content: "s"},
			{Path: "gone", Absent: true},
		})
	for _, want := range []string{
		"--- a/a\n+++ b/a\n", " 1\n-2\n+\uFFFD3\n", "--- a/gone\n+++ /dev/null\n", "--- /dev/null\n+++ b/new\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the diff lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "same") || strings.Contains(got, "never") {
		t.Errorf("the diff shows what did not change:\n%s", got)
	}
	for name, text := range map[string]string{
		"lines": strings.Repeat("line\n", 1<<18), "one line": strings.Repeat("x", 1<<20),
		"no more than fits": strings.Repeat("line\n", 100),
	} {
		diff := approval.Diff(nil, []approval.Text{{Path: "a", Content: text}})
		if cut := strings.Contains(diff, "bytes more are not shown]\n"); len(diff) > approval.MaxDiff ||
			cut != (len(text) > approval.MaxDiff) {
			t.Errorf("%s: %d bytes, cut %t", name, len(diff), cut)
		}
	}
}

// An agent that needs fewer approvals widens; an agent that needs more does not.
func TestApproveWidened(t *testing.T) {
	asked := agent(func(a *approval.Agent) { a.ApproveWrites = true })
	if got := said(approval.Widened(version(asked), version(agent(nil)))); got != "primary approve: writes → listed" {
		t.Errorf("fewer questions: %q", got)
	}
	if got := said(approval.Widened(version(agent(nil)), version(asked))); got != "" {
		t.Errorf("more questions: %q", got)
	}
}
