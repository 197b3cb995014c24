package compile

import (
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Project is the snapshot of a project file, with all references resolved that do not depend on the operator's models.
type Project struct {
	// Slug, Description and Version are taken from the file.
	Slug, Description string
	Version           int
	// Root is the root agent.
	Root *Agent
	// ToolsOff are the canonical names of the catalogue's tools that the root agent lacks, in catalogue order.
	ToolsOff []string
	// LanguageServers are those that the project declares, by language.
	LanguageServers []dsl.LanguageServer
	// Debugging are the project's settings for debugging its programs.
	Debugging dsl.Debugging
}

// Agent is one agent of a snapshot.
type Agent struct {
	// Key is its key in its parent's subagents, "primary" for the root; Path is its tree path.
	Key, Path string
	// Model is the alias of the agent's model.
	Model string
	// PromptPath is the agent's prompt file, relative to the project's root.
	PromptPath string
	// Description describes the agent to its parent.
	Description string
	// MaxSteps and MaxOutputTokens are 0 if unset.
	MaxSteps, MaxOutputTokens int
	// Cage may be nil.
	Cage *dsl.Cage
	// Tools are the canonical names of the agent's tools, in catalogue order.
	Tools []string
	// Aliases are the names to show the model instead of canonical ones, by canonical name.
	Aliases map[string]string
	// AutoTodos means that todos proposed by this agent are stored without the root agent's review.
	AutoTodos bool
	// ApproveWrites means that an operator is asked before each call that changes files or runs programs.
	ApproveWrites bool
	// Writes is true if one of the agent's tools changes files or runs programs.
	Writes bool
	// Budget limits each call of the agent together with all its descendants; nil means no limits.
	Budget *dsl.Budget
	// Policy are rules for its requests, nil without rules.
	Policy *dsl.Policy
	// AgentsMD means that the project's instructions are part of the prompt.
	AgentsMD bool
	// Compaction are the settings that keep the conversation inside the model's window, nil for the defaults.
	Compaction *dsl.Compaction
	// Children are the agent's direct children by key.
	Children []*Agent
	// ResumeOnCrash has an effect for the root only.
	ResumeOnCrash bool
	// IncludeToolResults means that the model sees the tool results of earlier runs again.
	IncludeToolResults bool
	// ParentContext adds the conversation of the caller and the operator to the agent's calls.
	ParentContext bool
}

// Encode returns a snapshot as bytes for storage and transfer, an encoding of kaged.harness.v1.CompiledProject, and
// their SHA-256 in hex. Equal snapshots have equal bytes. It fails with internal for text that is not UTF-8.
func (p *Project) Encode() (encoded []byte, hash string, err error) {
	encoded, err = proto.MarshalOptions{Deterministic: true}.Marshal(p.Proto())
	if err != nil {
		return nil, "", fault.Wrap(err, fault.Internal, "The compiled project cannot be encoded.")
	}
	sum := sha256.Sum256(encoded)
	return encoded, hex.EncodeToString(sum[:]), nil
}

// Decode decodes the bytes of [Project.Encode]. It fails with internal for invalid bytes.
func Decode(encoded []byte) (*Project, error) {
	var p harnessv1.CompiledProject
	if err := proto.Unmarshal(encoded, &p); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "A stored snapshot cannot be read.")
	}
	return ProjectFromProto(&p), nil
}

//convert:both .Proto ProjectFromProto *Project *harnessv1.CompiledProject Slug=Project
//convert:both .Proto AgentFromProto *Agent *harnessv1.AgentNode Aliases=ToolAliases
//convert:with IncludeToolResults=IncludeToolResultsInContext >OnCrash=policies[in.ResumeOnCrash] >Writes=&in.Writes
//convert:with <ResumeOnCrash=in.OnCrash==harnessv1.CrashPolicy_CRASH_POLICY_RESUME <Writes=in.Writes==nil||*in.Writes
//convert:both budgetProto budgetFromProto *dsl.Budget *harnessv1.AgentBudget
//convert:both policyProto policyFromProto *dsl.Policy *harnessv1.AgentPolicy <OnExceed=-
//convert:both gateProto gateFromProto dsl.ContentGate *harnessv1.ContentGate >Strip=in.Action==dsl.GateStrip
//convert:with <Action=actions[in.Strip]
//convert:both compactionProto compactionFromProto *dsl.Compaction *harnessv1.AgentCompaction
//convert:with <CheckpointFallback=-
//convert:both pruneProto pruneFromProto dsl.Prune *harnessv1.AgentPruning

// A snapshot from before the field Writes counts each of its agents as having a tool that writes.
var (
	policies = map[bool]harnessv1.CrashPolicy{
		false: harnessv1.CrashPolicy_CRASH_POLICY_STOP, true: harnessv1.CrashPolicy_CRASH_POLICY_RESUME,
	}
	actions = map[bool]string{false: dsl.GateRedact, true: dsl.GateStrip}
)

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
