// Package harnesscompile has projects compiled by the harness, and reads the snapshots it makes.
package harnesscompile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/core/approval"
	"kaged.dev/services/session-manager/internal/core/localconfig"
	"kaged.dev/services/session-manager/internal/core/projects"
)

// Compiler implements projects.Compiler. It keeps nothing between calls and may be used concurrently.
type Compiler struct {
	harness harnessv1.HarnessServiceClient
}

// New returns a Compiler that calls the harness over conn.
func New(conn grpc.ClientConnInterface) *Compiler {
	return &Compiler{harnessv1.NewHarnessServiceClient(conn)}
}

// Compile implements projects.Compiler. The snapshot's hash is of the bytes that are stored, whatever the harness that made
// it encoded it to.
func (c *Compiler) Compile(ctx context.Context, in projects.CompileInput) (projects.CompileOutput, error) {
	resp, err := c.harness.Compile(ctx, request(in))
	if err != nil {
		return projects.CompileOutput{}, err
	}
	out := projects.CompileOutput{
		Wanted:      resp.GetWanted(),
		Diagnostics: diagnostics(resp.GetDiagnostics()),
		Aliases:     references(resp.GetAliases()),
		Prompts:     references(resp.GetPrompts()),
	}
	compiled := resp.GetCompiled()
	if compiled == nil {
		return out, nil
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(compiled)
	if err != nil {
		return projects.CompileOutput{}, fault.Wrap(err, fault.Internal, "The compiled project cannot be encoded.")
	}
	sum := sha256.Sum256(encoded)
	out.ID, out.Description, out.Version = compiled.GetProject(), compiled.GetDescription(), int(compiled.GetVersion())
	out.Snapshot = &projects.Snapshot{Hash: hex.EncodeToString(sum[:]), Compiled: encoded, Outline: outline(compiled)}
	return out, nil
}

// Outline implements projects.Compiler. It fails with internal for what is no snapshot.
func (c *Compiler) Outline(encoded []byte) (projects.Outline, error) {
	var compiled harnessv1.CompiledProject
	if err := proto.Unmarshal(encoded, &compiled); err != nil {
		return projects.Outline{}, fault.Wrap(err, fault.Internal, "A stored snapshot cannot be read.")
	}
	return outline(&compiled), nil
}

func request(in projects.CompileInput) *harnessv1.CompileRequest {
	req := &harnessv1.CompileRequest{Workspace: in.Workspace, DefaultTools: ToolSwitches(in.Rules)}
	for _, s := range in.Sources {
		req.Files = append(req.Files, &harnessv1.SourceFile{Path: s.Path, Present: s.Present, Content: s.Content, Reason: s.Reason})
	}
	return req
}

// ToolSwitches are an operator's rules for tools as the harness takes them, at compilation and with each run.
func ToolSwitches(rules []localconfig.ToolRule) []*harnessv1.ToolSwitch {
	switches := make([]*harnessv1.ToolSwitch, len(rules))
	for i, r := range rules {
		switches[i] = &harnessv1.ToolSwitch{Pattern: r.Pattern, Enabled: r.Enabled}
	}
	return switches
}

func diagnostics(list []*harnessv1.Diagnostic) []projects.Diagnostic {
	out := make([]projects.Diagnostic, len(list))
	for i, d := range list {
		out[i] = projects.Diagnostic{
			Kind: d.GetKind(), Message: d.GetMessage(), Path: d.GetPath(), File: d.GetFile(),
			Line: int(d.GetLine()), Column: int(d.GetColumn()), Warning: d.GetSeverity() == harnessv1.Severity_SEVERITY_WARNING,
		}
	}
	return out
}

func references(list []*harnessv1.Reference) []projects.Reference {
	out := make([]projects.Reference, len(list))
	for i, r := range list {
		out[i] = projects.Reference{Name: r.GetName(), UsedBy: r.GetUsedBy()}
	}
	return out
}

// outline reads what the registry needs to know from a snapshot's agents.
func outline(compiled *harnessv1.CompiledProject) projects.Outline {
	root := compiled.GetRoot()
	out := projects.Outline{
		RootModel:     root.GetModel(),
		ResumeOnCrash: root.GetOnCrash() == harnessv1.CrashPolicy_CRASH_POLICY_RESUME,
		Caged:         root.GetCage() != nil,
		Capabilities:  projects.Capabilities{Net: root.GetCage().GetNetAllow(), Tools: root.GetTools(), ToolsOff: compiled.GetToolsOff()},
	}
	for _, m := range root.GetCage().GetFs() {
		out.Capabilities.Mounts = append(out.Capabilities.Mounts, m.GetPath())
	}
	aliases, prompts := users{}, users{}
	walk(root, func(n *harnessv1.AgentNode) {
		out.Capabilities.Agents = append(out.Capabilities.Agents, projects.AgentCage{
			Path: n.GetPath(), Caged: n.GetCage() != nil, Summary: dsl.CageFromProto(n.GetCage()).Summary(),
		})
		aliases.add(n.GetModel(), n.GetPath())
		prompts.add(n.GetPromptPath(), n.GetPath()+".system_prompt")
		out.Agents = append(out.Agents, agent(n))
	})
	out.Aliases, out.Prompts = aliases.references(), prompts.references()
	return out
}

// agent reads what an agent may do. One of a snapshot that does not say whether it has a tool that writes counts as having one.
func agent(n *harnessv1.AgentNode) approval.Agent {
	return approval.Agent{
		Path: n.GetPath(), Model: n.GetModel(), Prompt: n.GetPromptPath(), Tools: n.GetTools(), Writes: n.Writes == nil || n.GetWrites(),
		MaxSteps: int(n.GetMaxSteps()), MaxOutputTokens: int(n.GetMaxOutputTokens()), Cage: dsl.CageFromProto(n.GetCage()),
		ResumeOnCrash: n.GetOnCrash() == harnessv1.CrashPolicy_CRASH_POLICY_RESUME,
	}
}

func walk(n *harnessv1.AgentNode, visit func(*harnessv1.AgentNode)) {
	if n == nil {
		return
	}
	visit(n)
	for _, child := range n.GetChildren() {
		walk(child, visit)
	}
}

// users are the tree paths that use a name.
type users map[string][]string

func (u users) add(name, by string) {
	if name != "" {
		u[name] = append(u[name], by)
	}
}

func (u users) references() []projects.Reference {
	out := make([]projects.Reference, 0, len(u))
	for name, by := range u {
		out = append(out, projects.Reference{Name: name, UsedBy: by})
	}
	slices.SortFunc(out, func(a, b projects.Reference) int { return strings.Compare(a.Name, b.Name) })
	return out
}
