package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Project is the snapshot of a project file: everything is resolved that does not depend on the operator's models.
type Project struct {
	// Slug, Description and Version are the file's.
	Slug, Description string
	Version           int
	// Root is the root agent.
	Root *Agent
	// ToolsOff are the canonical names of the catalogue's tools that it does not have, in catalogue order.
	ToolsOff []string
	// LanguageServers are those that the project declares, by language.
	LanguageServers []dsl.LanguageServer
	// Debugging is how its programs are debugged.
	Debugging dsl.Debugging
}

// Agent is one agent of a snapshot.
type Agent struct {
	// Key is its key in its parent's subagents, "primary" for the root; Path is its tree path.
	Key, Path string
	// Model is the alias of its model.
	Model string
	// PromptPath is its prompt file, relative to the project's root.
	PromptPath string
	// Description is what a parent is told about it.
	Description string
	// MaxSteps and MaxOutputTokens are 0 where they are not set.
	MaxSteps, MaxOutputTokens int
	// Cage is nil for none.
	Cage *dsl.Cage
	// Tools are the canonical names of its tools, in catalogue order.
	Tools []string
	// Aliases are the names to show the model instead of canonical ones, by canonical name.
	Aliases map[string]string
	// AutoTodos says that todos which it proposes are written down without the root agent's review.
	AutoTodos bool
	// Writes says whether one of its tools changes files or runs programs.
	Writes bool
	// Budget bounds each call of it, with all agents below; nil without limits.
	Budget *dsl.Budget
	// Policy are rules for its requests, nil without rules.
	Policy *dsl.Policy
	// Compaction is how its conversation is kept inside the window, nil for the defaults.
	Compaction *dsl.Compaction
	// Children are its direct children by key.
	Children []*Agent
	// ResumeOnCrash counts for the root only.
	ResumeOnCrash bool
	// IncludeToolResults says whether results of earlier runs' tools are shown to the model again.
	IncludeToolResults bool
	// ParentContext says whether its calls are given what its caller and the operator have said.
	ParentContext bool
}

// Encode returns the bytes that a snapshot is stored and sent as, an encoding of kaged.harness.v1.CompiledProject, and their
// SHA-256 in hex. Equal snapshots have equal bytes. It fails with internal for text that is not UTF-8.
func (p *Project) Encode() (encoded []byte, hash string, err error) {
	encoded, err = proto.MarshalOptions{Deterministic: true}.Marshal(p.Proto())
	if err != nil {
		return nil, "", fault.Wrap(err, fault.Internal, "The compiled project cannot be encoded.")
	}
	sum := sha256.Sum256(encoded)
	return encoded, hex.EncodeToString(sum[:]), nil
}

// Decode reads what [Project.Encode] made. It fails with internal for bytes that are no snapshot.
func Decode(encoded []byte) (*Project, error) {
	var p harnessv1.CompiledProject
	if err := proto.Unmarshal(encoded, &p); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "A stored snapshot cannot be read.")
	}
	return ProjectFromProto(&p), nil
}

// Proto returns p on the wire, nil for nil.
func (p *Project) Proto() *harnessv1.CompiledProject {
	if p == nil {
		return nil
	}
	return &harnessv1.CompiledProject{
		Project: p.Slug, Description: p.Description, Version: int32(p.Version), Root: p.Root.Proto(), ToolsOff: p.ToolsOff,
		LanguageServers: dsl.LanguageServersProto(p.LanguageServers), Debugging: p.Debugging.Proto(),
	}
}

// ProjectFromProto is the reverse of [Project.Proto].
func ProjectFromProto(p *harnessv1.CompiledProject) *Project {
	if p == nil {
		return nil
	}
	return &Project{
		Slug: p.GetProject(), Description: p.GetDescription(), Version: int(p.GetVersion()), Root: AgentFromProto(p.GetRoot()),
		ToolsOff: p.GetToolsOff(), LanguageServers: dsl.LanguageServersFromProto(p.GetLanguageServers()),
		Debugging: dsl.DebuggingFromProto(p.GetDebugging()),
	}
}

// Proto returns a on the wire, nil for nil.
func (a *Agent) Proto() *harnessv1.AgentNode {
	if a == nil {
		return nil
	}
	n := &harnessv1.AgentNode{
		Key: a.Key, Path: a.Path, Model: a.Model, PromptPath: a.PromptPath, Description: a.Description,
		MaxSteps: optional(a.MaxSteps), MaxOutputTokens: optional(a.MaxOutputTokens), Cage: a.Cage.Proto(), Tools: a.Tools,
		OnCrash: harnessv1.CrashPolicy_CRASH_POLICY_STOP, IncludeToolResultsInContext: a.IncludeToolResults,
		ToolAliases: a.Aliases, Writes: &a.Writes, Budget: budgetProto(a.Budget), AutoTodos: a.AutoTodos,
		Policy: policyProto(a.Policy), ParentContext: a.ParentContext, Compaction: compactionProto(a.Compaction),
	}
	if a.ResumeOnCrash {
		n.OnCrash = harnessv1.CrashPolicy_CRASH_POLICY_RESUME
	}
	for _, child := range a.Children {
		n.Children = append(n.Children, child.Proto())
	}
	return n
}

// AgentFromProto is the reverse of [Agent.Proto]. An agent of a snapshot that does not say whether it has a tool that writes
// counts as having one.
func AgentFromProto(n *harnessv1.AgentNode) *Agent {
	if n == nil {
		return nil
	}
	a := &Agent{
		Key: n.GetKey(), Path: n.GetPath(), Model: n.GetModel(), PromptPath: n.GetPromptPath(), Description: n.GetDescription(),
		MaxSteps: int(n.GetMaxSteps()), MaxOutputTokens: int(n.GetMaxOutputTokens()), Cage: dsl.CageFromProto(n.GetCage()),
		Tools: n.GetTools(), Aliases: n.GetToolAliases(), IncludeToolResults: n.GetIncludeToolResultsInContext(),
		ResumeOnCrash: n.GetOnCrash() == harnessv1.CrashPolicy_CRASH_POLICY_RESUME, Writes: n.Writes == nil || n.GetWrites(),
		Budget: budgetFromProto(n.GetBudget()), AutoTodos: n.GetAutoTodos(), Policy: policyFromProto(n.GetPolicy()),
		ParentContext: n.GetParentContext(), Compaction: compactionFromProto(n.GetCompaction()),
	}
	for _, child := range n.GetChildren() {
		a.Children = append(a.Children, AgentFromProto(child))
	}
	return a
}

// Agents yields a and the agents below it, parents before children.
func (a *Agent) Agents(yield func(*Agent) bool) { a.visit(yield) }

// AnyCaged reports whether a or an agent below it has a cage.
func (a *Agent) AnyCaged() bool {
	for agent := range a.Agents {
		if agent.Cage != nil {
			return true
		}
	}
	return false
}

func (a *Agent) visit(yield func(*Agent) bool) bool {
	if a == nil {
		return true
	}
	if !yield(a) {
		return false
	}
	for _, child := range a.Children {
		if !child.visit(yield) {
			return false
		}
	}
	return true
}

func optional(n int) *int32 {
	if n == 0 {
		return nil
	}
	v := int32(n)
	return &v
}

func budgetProto(b *dsl.Budget) *harnessv1.AgentBudget {
	if b == nil {
		return nil
	}
	return &harnessv1.AgentBudget{
		NanoUsd: b.NanoUSD, Tokens: b.Tokens, Calls: b.Calls, WalltimeMs: b.Walltime.Milliseconds(),
		LiveAgents: int32(b.LiveAgents), Depth: int32(b.Depth), AllowUnpriced: b.AllowUnpriced,
	}
}

func budgetFromProto(p *harnessv1.AgentBudget) *dsl.Budget {
	if p == nil {
		return nil
	}
	return &dsl.Budget{
		NanoUSD: p.GetNanoUsd(), Tokens: p.GetTokens(), Calls: p.GetCalls(),
		Walltime:   time.Duration(p.GetWalltimeMs()) * time.Millisecond,
		LiveAgents: int(p.GetLiveAgents()), Depth: int(p.GetDepth()), AllowUnpriced: p.GetAllowUnpriced(),
	}
}

func policyProto(p *dsl.Policy) *harnessv1.AgentPolicy {
	if p == nil {
		return nil
	}
	out := &harnessv1.AgentPolicy{TokenHardLimit: p.TokenHardLimit, ShowSecrets: p.ShowSecrets}
	for _, g := range p.ContentGates {
		gate := &harnessv1.ContentGate{Pattern: g.Pattern, Strip: g.Action == dsl.GateStrip}
		out.ContentGates = append(out.ContentGates, gate)
	}
	return out
}

func policyFromProto(p *harnessv1.AgentPolicy) *dsl.Policy {
	if p == nil {
		return nil
	}
	out := &dsl.Policy{TokenHardLimit: p.GetTokenHardLimit(), ShowSecrets: p.GetShowSecrets()}
	for _, g := range p.GetContentGates() {
		action := dsl.GateRedact
		if g.GetStrip() {
			action = dsl.GateStrip
		}
		out.ContentGates = append(out.ContentGates, dsl.ContentGate{Pattern: g.GetPattern(), Action: action})
	}
	return out
}

func compactionProto(c *dsl.Compaction) *harnessv1.AgentCompaction {
	if c == nil {
		return nil
	}
	out := &harnessv1.AgentCompaction{
		Strategy: c.Strategy, UpperThreshold: c.UpperThreshold, LowerThreshold: c.LowerThreshold,
		AlwaysKeep: c.AlwaysKeep, SummarizeModel: c.SummarizeModel, SummarizePrompt: c.SummarizePrompt,
		DelegatePlugin: c.DelegatePlugin,
	}
	if p := c.Prune; p != nil {
		out.Prune = &harnessv1.AgentPruning{
			Disabled: p.Disabled, ProtectTokens: p.ProtectTokens, MinimumSavings: p.MinimumSavings,
			ProtectedTools: p.ProtectedTools,
		}
	}
	return out
}

func compactionFromProto(p *harnessv1.AgentCompaction) *dsl.Compaction {
	if p == nil {
		return nil
	}
	out := &dsl.Compaction{
		Strategy: p.GetStrategy(), UpperThreshold: p.GetUpperThreshold(), LowerThreshold: p.GetLowerThreshold(),
		AlwaysKeep: p.GetAlwaysKeep(), SummarizeModel: p.GetSummarizeModel(), SummarizePrompt: p.GetSummarizePrompt(),
		DelegatePlugin: p.GetDelegatePlugin(),
	}
	if q := p.GetPrune(); q != nil {
		out.Prune = &dsl.Prune{
			Disabled: q.GetDisabled(), ProtectTokens: q.ProtectTokens, MinimumSavings: q.MinimumSavings,
			ProtectedTools: q.GetProtectedTools(),
		}
	}
	return out
}
