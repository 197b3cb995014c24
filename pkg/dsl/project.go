package dsl

import (
	"time"

	"kaged.dev/pkg/catalogue"
)

// The paths of a project's files, relative to its root.
const (
	ProjectFile = ".kaged/project.yaml"
	OverlayFile = ".kaged/project.local.yaml"
)

// Flat20 is the only tools_profile: the twenty flat tool names for agents that were written for them.
const Flat20 = "flat20"

// FlatTool is a tool of the profile [Flat20].
type FlatTool struct {
	// Name is the alias of a tool of the catalogue.
	Name string
	// Group is the tool's subject.
	Group string
	// Subagent is true for the read-only tools that other agents than the root have too.
	Subagent bool
}

// Flat20Tools are the tools of the profile [Flat20]: all of them for the root agent, six for others.
func Flat20Tools() []FlatTool {
	return []FlatTool{
		{"read", "fs", true},
		{"write", "fs", false},
		{"edit", "fs", false},
		{"apply_patch", "fs", false},
		{"grep", "fs", true},
		{"glob", "fs", true},
		{"ls", "fs", true},
		{"exec", "runtime", false},
		{"process", "runtime", false},
		{"cron", "automation", false},
		{"message", "messaging", false},
		{"agents_list", "introspection", false},
		{"sessions_list", "sessions", false},
		{"sessions_history", "sessions", false},
		{"sessions_send", "sessions", false},
		{"sessions_spawn", "sessions", false},
		{"subagents", "sessions", false},
		{"sessions_status", "sessions", false},
		{"memory_search", "memory", true},
		{"memory_get", "memory", true},
	}
}

// Project is a project file with its overlay applied and its references resolved.
type Project struct {
	// Version is the version of the format.
	Version int
	// Slug is the project's name.
	Slug string
	// Description describes the project.
	Description string
	// Primary is the root agent.
	Primary *Agent
	// Workflows are the project's workflows.
	Workflows []Workflow
	// LanguageServers are the project's language servers by language.
	LanguageServers []LanguageServer
	// Debugging are the project's settings for debugging its programs.
	Debugging Debugging
	// Prompts are the used prompt files, by path.
	Prompts []Reference
	// Aliases are the used model aliases, by name. Whether they are bound is unknown here.
	Aliases []Reference

	positions map[string]Position
	// document is the source of the project: merged, validated, with its references resolved.
	document *node
}

// Position returns the position of the value at a tree path, such as primary.subagents.scraper.model, or of the nearest
// value around it.
func (p *Project) Position(path string) Position {
	for ; path != ""; path = parentPath(path) {
		if pos, ok := p.positions[path]; ok {
			return pos
		}
	}
	return Position{File: ProjectFile}
}

// Agents calls yield for every agent, parents before children, children by key, until it returns false.
func (p *Project) Agents(yield func(*Agent) bool) { p.Primary.walk(yield) }

func (a *Agent) walk(yield func(*Agent) bool) bool {
	if !yield(a) {
		return false
	}
	for _, child := range a.Subagents {
		if !child.walk(yield) {
			return false
		}
	}
	return true
}

// Reference is a name used by agents.
type Reference struct {
	// Name is the alias, or the path relative to the project's root.
	Name string
	// UsedBy are the tree paths that use it.
	UsedBy []string
	// Present is true if the file existed.
	Present bool
}

// Agent is one agent of the tree.
type Agent struct {
	// Key is its key in its parent's subagents, "primary" for the root.
	Key string
	// Path is its tree path, such as primary.subagents.scraper.
	Path string
	// Name is the display name in a project reference.
	Name string
	// Model is the alias of the agent's model.
	Model string
	// Prompt is the prompt file, relative to the root project.
	Prompt string
	// Description describes the agent to its parent.
	Description string
	// Tools are the agent's tools entries in written order.
	Tools []ToolSwitch
	// ToolsProfile is "" or [Flat20].
	ToolsProfile string
	// MaxSteps and MaxOutputTokens are 0 if unset.
	MaxSteps, MaxOutputTokens int
	// Cage is its cage, nil without one. Without a cage key an agent has its parent's cage.
	Cage *Cage
	// Budget limits each call of the agent together with its descendants; nil without limits.
	Budget *Budget
	// Subagents are its direct children by key.
	Subagents []*Agent
	// ResumeOnCrash means that a run interrupted by a crash continues in a new run; it has an effect for the root only.
	ResumeOnCrash bool
	// IncludeToolResults means that the model sees the tool results of earlier runs again.
	IncludeToolResults bool
	// ParentContext adds the conversation of the caller and the operator to the agent's calls.
	ParentContext bool
	// AgentsMD means that the project's instructions are part of the prompt, Skills that the agent has the tool for
	// skills.
	AgentsMD, Skills bool
	// AutoTodos means that todos proposed by this agent are stored without the root agent's review.
	AutoTodos bool
	// ApproveWrites means that an operator is asked before each call that changes files or runs programs.
	ApproveWrites bool
	// Plugins are its plugins by slot.
	Plugins []Plugin
	// Compaction are the settings that keep the conversation inside the window; nil if neither the agent nor an ancestor
	// sets them.
	Compaction *Compaction
	// Policy are the rules for its requests, nil without rules.
	Policy *Policy
	// ProjectRef is the folder of the referenced project that the agent comes from, relative to the root project; "" for
	// an agent of the root project.
	ProjectRef string
}

// ToolSwitch turns the tools that a pattern matches on or off.
type ToolSwitch struct {
	catalogue.Switch
	// Pos is its position.
	Pos Position
}

// Plugin is a plugin in a slot.
type Plugin struct {
	Slot, Package, Source string
	// Config is its configuration in the types of encoding/json.
	Config map[string]any
}

// Compaction are the settings of a compaction. A zero value is not set.
type Compaction struct {
	Strategy                       string
	UpperThreshold, LowerThreshold float64
	SummarizeModel                 string
	// SummarizePrompt is relative to the root project.
	SummarizePrompt    string
	DelegatePlugin     string
	CheckpointFallback string
	// AlwaysKeep selects the messages that are never compacted, each entry role:ROLE, tool:GLOB or text:LITERAL.
	AlwaysKeep []string
	// Prune is the pruning of tool results, nil for the defaults.
	Prune *Prune
}

// The default thresholds of a compaction, as fractions of the window.
const (
	DefaultUpperThreshold = 0.85
	DefaultLowerThreshold = 0.60
)

// Prune are the settings for replacing old tool results by a notice.
type Prune struct {
	// Disabled keeps all results.
	Disabled bool
	// ProtectTokens is the size of the newest results that stay, MinimumSavings the minimum saving, both in tokens; nil
	// means the default.
	ProtectTokens, MinimumSavings *int64
	// ProtectedTools are the canonical names of the tools whose results stay; nil means the default.
	ProtectedTools []string
}

// Policy are hard rules for requests to a model. A zero value is not set.
type Policy struct {
	// ShowSecrets sends secrets of known forms unmasked (redact_secrets: false).
	ShowSecrets    bool
	TokenHardLimit int64
	OnExceed       string
	ContentGates   []ContentGate
}

// ContentGate withholds text from a model.
type ContentGate struct {
	Pattern string
	// Action is [GateRedact] or [GateStrip].
	Action string
}

// The actions of a content gate on a text: replace it by a marker, or remove it.
const (
	GateRedact = "redact"
	GateStrip  = "strip"
)

// Workflow is a workflow that can be invoked by name.
type Workflow struct {
	Name, Description string
	// Inputs are its inputs by name.
	Inputs []WorkflowInput
	// InvokableBy are the roles that may invoke it: "operator", "guest".
	InvokableBy []string
	// Timeout is 0 if unset.
	Timeout time.Duration
}

// LanguageServer is a language server that a project declares.
type LanguageServer struct {
	Lang string
	// Command is the program and its arguments.
	Command []string
	// Extensions are the file extensions in lower case, such as ".zig"; none for the languages that kaged knows.
	Extensions []string
}

//convert:both .Proto LanguageServerFromProto LanguageServer *commonv1.LanguageServer
//convert:both LanguageServersProto LanguageServersFromProto []LanguageServer []*commonv1.LanguageServer

// WorkflowInput is one input of a workflow.
type WorkflowInput struct {
	Name, Type, Description string
	Required                bool
	// Default is a JSON value, nil without one.
	Default any
}
