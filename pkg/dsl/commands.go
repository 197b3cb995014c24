package dsl

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command is a tool that runs one program, as declared in tools.yaml.
type Command struct {
	Name, Description string
	// Category is "read", "write" or "admin".
	Category string
	// Program is a name, looked up in PATH, or an absolute path. It is never text for a shell.
	Program string
	// Args are its arguments. Optional are additional ones, in order, each for an optional parameter.
	Args     []Template
	Optional []OptionalArgs
	// Parameters are the parameters of a call.
	Parameters []CommandParameter
	// Env are its environment variables; "${NAME}" in a value is replaced by kaged's own variable NAME.
	Env map[string]string
	// Timeout and MaxOutput limit a call, in whole milliseconds and in bytes; 0 if unset.
	Timeout   time.Duration
	MaxOutput int64
	// Pos is its position.
	Pos Position
}

// OptionalArgs are arguments that are added if a parameter is given, or, for a boolean, if it is true.
type OptionalArgs struct {
	Parameter string
	Args      []Template
}

// CommandParameter is a parameter of a [Command].
type CommandParameter struct {
	Name, Description string
	// Type is "string", "integer", "number" or "boolean".
	Type string
	// Enum are the permitted values, nil for any: strings, int64 or float64.
	Enum []any
	// Pattern is a regular expression that a string must match, or "".
	Pattern string
	// MinLength and MaxLength limit a string in characters, Minimum and Maximum a number; nil means no limit.
	MinLength, MaxLength *int64
	Minimum, Maximum     *float64
	// Default is the value of an absent parameter, or nil.
	Default any
	// Optional means that it may be left out.
	Optional bool
}

// Fixed reports whether the operator has listed all values of the parameter.
func (p *CommandParameter) Fixed() bool { return len(p.Enum) > 0 || p.Type == "boolean" }

// Template is one argument: text, and parameters with values inside it.
type Template []TemplatePart

// TemplatePart is text, or a parameter's name.
type TemplatePart struct{ Text, Parameter string }

// String returns the template as written.
func (t Template) String() string {
	var b strings.Builder
	for _, part := range t {
		b.WriteString(part.Text)
		if part.Parameter != "" {
			b.WriteString("{{" + part.Parameter + "}}")
		}
	}
	return b.String()
}

// placeholder is a parameter in an argument. Other double braces are text, such as {{.Names}} for a program with its
// own templates.
var placeholder = regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

// broken is the beginning of an unclosed placeholder.
var broken = regexp.MustCompile(`\{\{\s*[A-Za-z_]`)

// ParseTemplate parses an argument. ok is false if it holds an unclosed placeholder.
func ParseTemplate(text string) (t Template, ok bool) {
	rest := 0
	for _, at := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		if text[rest:at[0]] != "" {
			t = append(t, TemplatePart{Text: text[rest:at[0]]})
		}
		t = append(t, TemplatePart{Parameter: text[at[2]:at[3]]})
		rest = at[1]
	}
	if text[rest:] != "" || len(t) == 0 {
		t = append(t, TemplatePart{Text: text[rest:]})
	}
	for _, part := range t {
		if broken.MatchString(part.Text) {
			return t, false
		}
	}
	return t, true
}

// ParseCommands parses tools.yaml. For an invalid file it returns errors and no commands; commands may come with
// warnings.
func ParseCommands(file string, data []byte) ([]Command, []Diagnostic) {
	var diags diagnostics
	doc := parseYAML(file, data, &diags, &node{kind: mapNode})
	if doc != nil {
		(&checker{&diags}).check(doc, commandsShape, "", doc.pos)
	}
	if diags.failed() {
		return nil, diags.sorted()
	}
	var commands []Command
	for i, item := range doc.list("tools") {
		b := commandBuilder{diags: &diags, at: "tools[" + strconv.Itoa(i) + "]", item: item}
		c := b.command()
		if slices.ContainsFunc(commands, func(o Command) bool { return o.Name == c.Name }) {
			diags.errorf(InvalidValue, item.get("name").pos, b.at+".name", "There are two tools called %q.", c.Name)
		}
		commands = append(commands, c)
	}
	if diags.failed() {
		return nil, diags.sorted()
	}
	return commands, diags.sorted()
}
