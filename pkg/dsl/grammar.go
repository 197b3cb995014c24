package dsl

import "regexp"

// The limits of a whole project file.
const (
	// Version is the supported version of the format.
	Version = 1
	// MaxDepth is the maximum number of levels of agents, the root included and references resolved.
	MaxDepth = 16
	// MaxAgents is the maximum number of agents of a project, references resolved.
	MaxAgents = 256
	// MaxSteps and MaxOutputTokens are the highest values of max_steps and max_output_tokens.
	MaxSteps        = 100
	MaxOutputTokens = 65536
	// mostTokens is the maximum number of tokens of a request.
	mostTokens = 100_000_000
)

// segment is one element of a path: not ".", "..", or empty, and without slashes, backslashes and control characters.
const segment = `(?:[^./\\\x00-\x1f][^/\\\x00-\x1f]*|\.[^./\\\x00-\x1f][^/\\\x00-\x1f]*|\.\.[^/\\\x00-\x1f]+)`

const port = `(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])`

var (
	slugPattern  = newPattern(`^[a-z0-9][a-z0-9-]{0,62}$`, "a slug: lower-case letters, digits and -, at most 63 of them")
	keyPattern   = newPattern(`^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$`, "a name: letters, digits, _ and -, at most 48 of them")
	aliasPattern = newPattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`,
		"an alias from [models] in local.toml, such as smart; the model behind it is chosen there")
	toolPattern   = newPattern(`^[A-Za-z0-9_*?.-]{1,128}$`, "a tool's name or a glob such as file.*")
	promptPattern = newPattern(`^(?:project:/|\./)`+segment+`(?:/`+segment+`)*$`,
		"a file of the project, written project:/prompts/a.md or ./prompts/a.md, without . or .. inside")
	mountPattern = newPattern(`^(?:(?:project:/|\./|/)(?:`+segment+`(?:/`+segment+`)*/?)?|\.)$`,
		"below the project (project:/p or ./p) or absolute, without . or .. inside")
	referencePattern = newPattern(`^(?:project:/|\./|(?:\.\./)+)(?:`+segment+`(?:/`+segment+`)*/?)?$`,
		"a folder: project:/p or ./p below this project, or ../p")
	netPattern = newPattern(`^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\.?|\[[0-9A-Fa-f:.]{2,45}\]):`+port+`$`,
		`"host:port", such as "api.github.com:443"`)
	capabilityPattern = newPattern(`^[a-z][a-z0-9_.:-]{0,63}$`, "a capability's name, such as shell")
	langPattern       = newPattern(`^[a-z][a-z0-9_+-]{0,31}$`,
		"a language's name, such as go: at most 32 lower-case letters, digits, _, + and -")
	extensionPattern = newPattern(`^\.[A-Za-z0-9_+-]{1,16}$`, "an extension, such as .zig")
	envPattern       = newPattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`, "a variable's name")
	envValuePattern  = newPattern(`^[^\x00]*$`, "text without NUL")
	sizePattern      = newPattern(
		`^[1-9][0-9]{0,5}(?:\.[0-9]{1,3})?(?:KiB|MiB|GiB|TiB|KB|MB|GB|TB)$`,
		"a size, such as 512MiB",
	)
	durationPattern = newPattern(
		`^(?:[1-9][0-9]{0,5}h)?(?:[1-9][0-9]{0,5}m)?(?:[1-9][0-9]{0,5}s)?(?:[1-9][0-9]{0,5}ms)?$`,
		"a duration, such as 90s, 10m or 1h30m",
	)
	// unitless matches a number that is a duration without its unit.
	unitless = regexp.MustCompile(`^[1-9][0-9]{0,5}$`)
)

// The shapes of a project file. agentShape contains itself, so it is completed in init.
var (
	projectShape = &shape{kind: objectShape, doc: "A kaged project: its agents and their rights."}
	agentShape   = &shape{
		kind: objectShape,
		def:  "agent",
		doc:  "An agent: its model, prompt, tools and cage, and the agents below it.",
	}
	subagentShape = &shape{
		kind: oneOfShape, def: "subagent", key: "path", options: []*shape{referenceShape, agentShape},
		doc: "An agent, or a reference to another project, which stands for its root agent.",
	}

	referenceShape = &shape{
		kind: objectShape,
		def:  "reference",
		doc:  "A reference to another project inside this one.",
		fields: []field{
			{name: "path", required: true, shape: text("The other project's folder.", 512, referencePattern)},
			{name: "name", shape: text("A name to show.", 120, nil)},
			{name: "description", shape: text("The agent's description for its parent.", 4096, nil)},
			{name: "overrides", shape: overridesShape},
		},
	}

	overridesShape = &shape{kind: objectShape, doc: "Laid over the other project's file like an overlay.", fields: []field{
		{name: "description", shape: text("Replaces the project's description.", 4096, nil)},
		{name: "primary", shape: &shape{kind: mapShape, values: anything, doc: "Laid over the root agent."}},
	}, forbidden: map[string]forbidden{
		"version": {OverridesForbiddenKey, "overrides cannot change the version of another project's file."},
		"project": {OverridesForbiddenKey, "overrides cannot rename another project."},
	}}

	anything = &shape{kind: anyShape}
	boolean  = &shape{kind: booleanShape}

	toolsShape = &shape{
		kind: mapShape, keys: toolPattern, most: 500,
		doc: "Which tools the agent has: names or globs. A name counts more than a glob, a later glob more than an " +
			"earlier one.",
		values: &shape{kind: objectShape, fields: []field{
			{name: "enabled", required: true, shape: &shape{kind: booleanShape, doc: "On or off."}},
		}},
	}

	pluginsShape = &shape{
		kind: mapShape, keys: keyPattern, most: 64, doc: "The agent's plugins by slot.",
		values: &shape{kind: objectShape, fields: []field{
			{name: "package", required: true, shape: text("The package.", 214, nil)},
			{name: "source", shape: text("Where it comes from.", 1024, nil)},
			{name: "config", shape: &shape{kind: mapShape, values: anything, doc: "The plugin's own configuration."}},
		}},
	}

	compactionShape = &shape{
		kind: objectShape,
		doc:  "How the conversation is kept inside the model's window.",
		fields: []field{
			{
				name:  "strategy",
				shape: oneWord("How room is made when it is full.", "drop", "summarize", "delegate", "checkpoint"),
			},
			{name: "upper_threshold", shape: fraction("Compact when the window is filled to this share.")},
			{name: "lower_threshold", shape: fraction("Compact down to this share.")},
			{name: "summarize", shape: &shape{kind: objectShape, doc: "The summarizer, for the strategies summarize, drop " +
				"and delegate.", fields: []field{
				{name: "model", shape: text("The alias of the model.", 64, aliasPattern)},
				{name: "prompt", shape: text("The prompt file.", 512, promptPattern)},
			}}},
			{name: "delegate", shape: &shape{kind: objectShape, doc: "The compactor of the strategy delegate.", fields: []field{
				{name: "plugin", required: true, shape: text("kaged-summarizer, which summarizes by the model of `summarize` "+
					"in as many requests as the model's window needs; or the slot of a plugin, none of which is loaded yet.", 48,
					keyPattern)},
			}}},
			{name: "checkpoint", shape: &shape{kind: objectShape, doc: "The proposal at the checkpoint.", fields: []field{
				{name: "fallback", shape: oneWord("The strategy of the proposal.", "drop")},
			}}},
			{name: "always_keep", shape: &shape{
				kind: listShape, most: 100, items: text("", 1024, keepPattern),
				doc: "Messages that are never compacted, each role:user, role:assistant, role:tool, tool:GLOB for the turns " +
					"with a call of a tool, or text:LITERAL for the messages that contain a text.",
			}},
			{name: "prune", shape: pruneShape},
		},
	}

	instructionsShape = &shape{kind: objectShape, doc: "Texts of the project besides its prompt.", fields: []field{
		{name: "agents_md", shape: &shape{kind: booleanShape, doc: "Whether AGENTS.md is part of its prompt: that of " +
			"the repository's root, of each folder down to the project, and what they import by lines of @path; where a " +
			"folder has none, CLAUDE.md. A changed text is used once it is approved; false by default."}},
		{name: "skills", shape: &shape{kind: booleanShape, doc: "Whether it has the tool project.skill, which lists and " +
			"reads the project's skills; false by default."}},
	}}

	pruneShape = &shape{kind: objectShape, doc: "How old results of tools are replaced by a notice.", fields: []field{
		{name: "enabled", shape: &shape{kind: booleanShape, doc: "Whether they are; true by default."}},
		{
			name:  "protect_tokens",
			shape: wholeNumber("The newest tokens of results that stay; 40000 by default.", 0, mostTokens),
		},
		{name: "minimum_savings", shape: wholeNumber("The least number of saved tokens; 20000 by default.", 0, mostTokens)},
		{name: "protected_tools", shape: &shape{
			kind: listShape, most: 100, items: text("", 128, nil),
			doc: "The tools with results that stay, by canonical names; file.read and project.skill by default.",
		}},
	}}

	policyShape = &shape{kind: objectShape, doc: "Hard rules for requests to a model.", fields: []field{
		{name: "token_hard_limit", shape: wholeNumber("The most tokens of one request, by estimate.", 1, mostTokens)},
		{name: "on_exceed", shape: oneWord(
			"The action on a larger one; truncate is not in force yet and means abort.", "abort", "truncate",
		)},
		{name: "redact_secrets", shape: &shape{
			kind: booleanShape, doc: "Whether secrets of known forms are replaced by [redacted:RULE]; true by default.",
		}},
		{name: "content_gates", shape: &shape{
			kind: listShape, most: 100, doc: "Text that the model must not see.",
			items: &shape{kind: oneOfShape, options: []*shape{
				text("Text to redact.", 1024, nil),
				{kind: objectShape, fields: []field{
					{name: "pattern", required: true, shape: text("Text to look for.", 1024, nil)},
					{name: "action", shape: oneWord("The action on it.", GateRedact, GateStrip)},
				}},
			}},
		}},
	}}

	workflowShape = &shape{kind: objectShape, doc: "A workflow that can be invoked by name.", fields: []field{
		{name: "name", required: true, shape: text("Its name.", 48, keyPattern)},
		{name: "description", shape: text("Its purpose.", 4096, nil)},
		{name: "inputs", shape: &shape{
			kind: mapShape, keys: keyPattern, most: 64, doc: "Its inputs by name.",
			values: &shape{kind: objectShape, fields: []field{
				{name: "type", required: true, shape: oneWord("Its type.", "string", "integer", "number", "boolean", "file")},
				{name: "required", shape: boolean},
				{name: "default", shape: anything},
				{name: "description", shape: text("", 4096, nil)},
			}},
		}},
		{
			name: "invokable_by",
			shape: &shape{
				kind: listShape, most: 2, items: oneWord("", "operator", "guest"), doc: "The roles that may invoke it.",
			},
		},
		{name: "timeout_seconds", shape: wholeNumber("How long it may take.", 1, 86_400)},
	}}
)

// programShape is a program with its arguments.
var programShape = &shape{
	kind: listShape, most: 64, items: text("", 1024, envValuePattern), doc: "The program and its arguments.",
	sense: func(n *node) string {
		if len(n.items) == 0 {
			return "command names no program."
		}
		return ""
	},
}

// lspShape holds the project's language servers.
var lspShape = &shape{kind: objectShape, doc: "The project's language servers.", fields: []field{
	{name: "servers", shape: &shape{
		kind: listShape, most: 32,
		doc: "Language servers in place of the operator's and of kaged's own, one for each language.",
		items: &shape{kind: objectShape, fields: []field{
			{name: "lang", required: true, shape: text("The language.", 32, langPattern)},
			{name: "command", required: true, shape: programShape},
			{name: "extensions", shape: &shape{
				kind: listShape, most: 32, items: text("", 17, extensionPattern),
				doc: "The extensions of its files, for a language that kaged does not know.",
			}},
		}},
	}},
}}

func text(doc string, maxLen int, p *pattern) *shape {
	return &shape{kind: stringShape, doc: doc, minLen: 1, maxLen: maxLen, pattern: p}
}

func oneWord(doc string, words ...string) *shape {
	return &shape{kind: stringShape, doc: doc, enum: words}
}

func wholeNumber(doc string, lowest, highest float64) *shape {
	return &shape{kind: integerShape, doc: doc, min: lowest, max: highest}
}

func fraction(doc string) *shape {
	return &shape{kind: numberShape, doc: doc, aboveSet: true, above: 0, max: 1}
}

// misplaced are keys that belong elsewhere if they are at the top of a file or in an agent.
var misplaced = map[string]forbidden{
	"can_be_called_by": {
		SchemaViolation,
		"can_be_called_by is not used: an agent is called by the agent it stands below.",
	},
	"interconnect": {SchemaViolation, "interconnect is not used: an agent is called by the agent it stands below."},
	"credentials": {
		SchemaViolation,
		"Credentials do not belong in a project file; put them under [providers.NAME] in local.toml.",
	},
	"api_key": {
		SchemaViolation,
		"Keys do not belong in a project file; put api_key under [providers.NAME] in local.toml.",
	},
}

func init() {
	agentShape.fields = []field{
		{
			name:     "model",
			required: true,
			shape:    text("The alias of its model; local.toml has its targets.", 64, aliasPattern),
		},
		{name: "system_prompt", required: true, shape: text("The file with its instructions.", 512, promptPattern)},
		{name: "description", shape: text("Its description for its parent.", 4096, nil)},
		{name: "tools", shape: toolsShape},
		{name: "tools_profile", shape: oneWord("A ready-made set of tools, before tools.", Flat20)},
		{name: "max_steps", shape: wholeNumber("The most model calls of one run.", 1, MaxSteps)},
		{name: "max_output_tokens", shape: wholeNumber("The most tokens of one answer.", 1, MaxOutputTokens)},
		{name: "cage", strict: true, shape: cageOrNone},
		{name: "budget", shape: budgetShape},
		{
			name: "subagents",
			shape: &shape{
				kind:   mapShape,
				keys:   keyPattern,
				most:   64,
				values: subagentShape,
				doc:    "The agents it can call, by name.",
			},
		},
		{
			name:  "on_crash",
			shape: oneWord("The policy for a run that a crash cut off; only the root agent's counts.", "stop", "resume"),
		},
		{
			name: "include_tool_results_in_context",
			shape: &shape{
				kind: booleanShape,
				doc:  "Whether results of earlier runs' tools are shown to the model again; true unless set.",
			},
		},
		{name: "context", shape: oneWord("The context of each call besides the prompt: with parent, the texts of its caller "+
			"and the operator, without tools and without text about files that it cannot see. "+
			"Of agents below the root alone.", "none", "parent")},
		{name: "approve", shape: oneWord(
			"When an operator is asked: before each call that changes files or runs programs, or only before those that are "+
				"on the operator's lists. Listed unless set. Agents below one that says writes ask like it.", "listed", "writes")},
		{name: "todo_review", shape: oneWord(
			"The fate of todos that it proposes for the issue of a session: written down as they are, or left to "+
				"the root agent. Review unless set; without meaning for the root agent.", "auto", "review")},
		{name: "plugins", shape: pluginsShape},
		{name: "compaction", shape: compactionShape},
		{name: "instructions", shape: instructionsShape},
		{name: "policy", shape: policyShape},
		{name: SourceKey, shape: sourceShape},
	}
	agentShape.forbidden = misplaced

	projectShape.fields = []field{
		{name: "version", required: true, shape: wholeNumber("The version of this format.", Version, Version)},
		{name: "project", required: true, shape: text("The project's slug.", 63, slugPattern)},
		{name: "description", shape: text("What the project is about.", 4096, nil)},
		{name: "primary", required: true, shape: agentShape},
		{name: "workflows", shape: &shape{kind: listShape, most: 100, items: workflowShape, doc: "The project's workflows."}},
		{name: "lsp", shape: lspShape},
		{name: "dap", shape: dapShape},
	}
	projectShape.forbidden = map[string]forbidden{
		"plugins": {LegacyPlugins, "Plugins belong to an agent: move plugins under primary."},
		"tools":   {SchemaViolation, "Tools belong to an agent: move tools under primary."},
		"agents":  {SchemaViolation, "The root agent stands under primary, at the top of the file."},
	}
	for key, f := range misplaced {
		projectShape.forbidden[key] = f
	}
	markDormant(projectShape)
}
