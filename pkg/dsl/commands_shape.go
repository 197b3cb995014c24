package dsl

// The shapes of tools.yaml.
var (
	toolNamePattern = newPattern(
		`^[a-z](?:_?[a-z0-9-])*$`,
		"a tool's name: a-z, 0-9, - and single _, beginning with a letter",
	)
	parameterPattern = newPattern(
		`^[A-Za-z_][A-Za-z0-9_]{0,63}$`,
		"a parameter's name: letters, digits and _, beginning with no digit",
	)
	programPattern  = newPattern(`^[^\x00\n]+$`, "a program on one line, without NUL")
	argumentPattern = newPattern(`^[^\x00]*$`, "text without NUL")

	commandsShape = &shape{kind: objectShape, doc: "The commands an operator gives agents as tools.", fields: []field{
		{name: "tools", shape: &shape{kind: listShape, most: 256, items: commandShape, doc: "The tools."}},
	}}

	commandShape = &shape{kind: objectShape, doc: "A tool that runs one program, without a shell.", fields: []field{
		{
			name:     "name",
			required: true,
			shape:    text("Its name; the catalogue has it as cli.NAME and, shorter, as NAME.", 56, toolNamePattern),
		},
		{name: "description", shape: text("What the model is told about it.", 8192, nil)},
		{
			name:     "category",
			required: true,
			shape: oneWord(
				"What it does to the world: it looks, it changes something, or it needs an operator's approval.",
				"read",
				"write",
				"admin",
			),
		},
		{
			name:     "cmd",
			required: true,
			shape:    text("The program: a name that is looked up in PATH, or an absolute path.", 4096, programPattern),
		},
		{name: "args", shape: argumentsShape},
		{name: "optional_args", shape: &shape{
			kind: mapShape, keys: parameterPattern, most: 64, values: argumentsShape,
			doc: "Arguments that are added, in this order, where the parameter is given; of a boolean where it is true.",
		}},
		{name: "parameters", shape: &shape{
			kind: mapShape, keys: parameterPattern, most: 64, values: parameterShape,
			doc: "What a call takes. Without this key every {{name}} in args is a required string.",
		}},
		{name: "env", shape: &shape{
			kind: mapShape, keys: envPattern, most: 64, values: &shape{
				kind: stringShape, maxLen: 32768, pattern: envValuePattern,
			},
			doc: `Variables of its environment; "${NAME}" hands on kaged's own variable NAME.`,
		}},
		{name: "timeout", shape: text("How long a call may take, such as 30s.", 40, durationPattern)},
		{name: "max_output", shape: size("How much of its output is kept: bytes, or 50KiB.")},
	}, forbidden: map[string]forbidden{
		"command": {
			SchemaViolation,
			"There is no key command: a tool is no text for a shell; write the program under cmd and its arguments under args.",
		},
		"shell": {
			SchemaViolation,
			"There is no key shell: no shell is ever used; write the program under cmd and its arguments under args.",
		},
	}}

	argumentsShape = &shape{
		kind:  listShape,
		most:  256,
		doc:   "Its arguments; {{name}} stands for a parameter's value.",
		items: &shape{kind: stringShape, maxLen: 8192, pattern: argumentPattern},
	}

	parameterShape = &shape{kind: objectShape, doc: "A parameter.", fields: []field{
		{name: "type", required: true, shape: oneWord("What it holds.", "string", "integer", "number", "boolean")},
		{name: "description", shape: text("What the model is told about it.", 4096, nil)},
		{name: "enum", shape: &shape{kind: listShape, most: 256, items: anything, doc: "The values there are."}},
		{
			name:  "pattern",
			shape: text("A regular expression (RE2) that a string must match; begin it with ^ and end it with $.", 1024, nil),
		},
		{name: "minLength", shape: wholeNumber("The fewest characters of a string.", 0, 1<<20)},
		{name: "maxLength", shape: wholeNumber("The most characters of a string.", 1, 1<<20)},
		{name: "minimum", shape: &shape{kind: numberShape, min: -1e15, max: 1e15, doc: "The least number."}},
		{name: "maximum", shape: &shape{kind: numberShape, min: -1e15, max: 1e15, doc: "The greatest number."}},
		{name: "default", shape: &shape{kind: anyShape, doc: "The value where none is given."}},
		{name: "optional", shape: &shape{kind: booleanShape, doc: "Whether it may be left out."}},
	}}
)
