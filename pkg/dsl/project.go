package dsl

import (
	"time"

	"kaged.dev/pkg/catalogue"
)

// The places of a project's files, relative to its root.
const (
	ProjectFile = ".kaged/project.yaml"
	OverlayFile = ".kaged/project.local.yaml"
)

// Flat20 is the one tools_profile: the twenty flat tool names that agents written for them expect.
const Flat20 = "flat20"

// FlatTool is a tool of the profile [Flat20].
type FlatTool struct {
	// Name is the alias of a tool of the catalogue.
	Name string
	// Group is the tool's subject.
	Group string
	// Subagent says that agents other than the root have it, too: they only look.
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
	// Debugging is how its programs are debugged.
	Debugging Debugging
	// Prompts are the prompt files in use, by path.
	Prompts []Reference
	// Aliases are the model aliases in use, by name; whether they are bound is not known here.
	Aliases []Reference

	positions map[string]Position
	// document is the source of the project: merged, checked, with its references replaced.
	document *node
}

// Position returns where the value at a tree path is written, such as primary.subagents.scraper.model, or else the
// nearest value around it.
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

// Reference is a name that agents use.
type Reference struct {
	// Name is the alias, or the path relative to the project's root.
	Name string
	// UsedBy are the tree paths that use it.
	UsedBy []string
	// Present says whether the file was there.
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
	// Model is the alias of its model.
	Model string
	// Prompt is the prompt file, relative to the root project.
	Prompt string
	// Description describes the agent to its parent.
	Description string
	// Tools are its tools entries in the order they were written.
	Tools []ToolSwitch
	// ToolsProfile is "" or [Flat20].
	ToolsProfile string
	// MaxSteps and MaxOutputTokens are 0 where they are not set.
	MaxSteps, MaxOutputTokens int
	// Cage is its cage, nil for none. Without a cage key an agent has its parent's.
	Cage *Cage
	// Budget bounds each call of it, with all agents below; nil for none.
	Budget *Budget
	// Subagents are its direct children by key.
	Subagents []*Agent
	// ResumeOnCrash says whether a run that a crash cut off goes on in a new one; only the root's counts.
	ResumeOnCrash bool
	// IncludeToolResults says whether results of earlier runs' tools are shown to the model again.
	IncludeToolResults bool
	// ParentContext includes in its calls the conversation of its caller and the operator.
	ParentContext bool
	// AgentsMD says that the project's instructions are part of its prompt, Skills that it has the tool for skills.
	AgentsMD, Skills bool
	// AutoTodos says that todos which it proposes are written down without the root agent's review.
	AutoTodos bool
	// ApproveWrites says that an operator is asked before each of its calls that changes files or runs programs.
	ApproveWrites bool
	// Plugins are its plugins by slot.
	Plugins []Plugin
	// Compaction is how its conversation is kept inside the window; nil where it is not set here or above.
	Compaction *Compaction
	// Policy are the rules for its requests, nil for none.
	Policy *Policy
	// ProjectRef is the folder of the referenced project it comes from, relative to the root project; "" for
	// the root's own.
	ProjectRef string
}

// ToolSwitch turns the tools that a pattern matches on or off.
type ToolSwitch struct {
	catalogue.Switch
	// Pos is where it is written.
	Pos Position
}

// Plugin is a plugin in a slot.
type Plugin struct {
	Slot, Package, Source string
	// Config is its configuration as JSON would hold it.
	Config map[string]any
}

// Compaction is how a conversation is compacted. Zero values are not set.
type Compaction struct {
	Strategy                       string
	UpperThreshold, LowerThreshold float64
	SummarizeModel                 string
	// SummarizePrompt is relative to the root project.
	SummarizePrompt    string
	DelegatePlugin     string
	CheckpointFallback string
	// AlwaysKeep names the messages that stay, each role:ROLE, tool:GLOB or text:LITERAL.
	AlwaysKeep []string
	// Prune is the pruning of tool results, nil for the defaults.
	Prune *Prune
}

// The default thresholds of a compaction, as fractions of the window.
const (
	DefaultUpperThreshold = 0.85
	DefaultLowerThreshold = 0.60
)

// Prune is how old results of tools are replaced by a notice.
type Prune struct {
	// Disabled leaves them all.
	Disabled bool
	// ProtectTokens are the newest tokens of results that stay, MinimumSavings the least number of saved
	// tokens; nil for the default.
	ProtectTokens, MinimumSavings *int64
	// ProtectedTools are the canonical names of tools with results that stay; nil for the default.
	ProtectedTools []string
}

// Policy are hard rules for what may be sent to a model. Zero values are not set.
type Policy struct {
	// ShowSecrets says that secrets that tell themselves by their form are sent (redact_secrets: false).
	ShowSecrets    bool
	TokenHardLimit int64
	OnExceed       string
	ContentGates   []ContentGate
}

// ContentGate keeps text from a model.
type ContentGate struct {
	Pattern string
	// Action is [GateRedact] or [GateStrip].
	Action string
}

// What a content gate does with a text: a marker stands for it, or it is left out.
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
	// Timeout is 0 where it is not set.
	Timeout time.Duration
}

// LanguageServer is a language server that a project declares.
type LanguageServer struct {
	Lang string
	// Command is the program and its arguments.
	Command []string
	// Extensions are those of its files in lower case, such as ".zig"; none for those that kaged knows.
	Extensions []string
}

//convert:both .Proto LanguageServerFromProto LanguageServer *commonv1.LanguageServer
//convert:both LanguageServersProto LanguageServersFromProto []LanguageServer []*commonv1.LanguageServer

// WorkflowInput is one input of a workflow.
type WorkflowInput struct {
	Name, Type, Description string
	Required                bool
	// Default is a JSON value, nil for none.
	Default any
}
