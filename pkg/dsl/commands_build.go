package dsl

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commandBuilder turns one validated entry into a Command and reports errors that need the whole entry.
type commandBuilder struct {
	diags *diagnostics
	at    string
	item  *node
	c     Command
	// used are the parameters used by arguments.
	used map[string]bool
}

func (b *commandBuilder) errorf(pos Position, path, format string, args ...any) {
	b.diags.errorf(InvalidValue, pos, b.at+path, format, args...)
}

func (b *commandBuilder) command() Command {
	n := b.item
	b.used = map[string]bool{}
	b.c = Command{
		Name: n.str("name"), Description: n.str("description"), Category: n.str("category"), Program: n.str("cmd"),
		MaxOutput: bytesOf(n.get("max_output")), Pos: n.pos,
	}
	if strings.Contains(b.c.Program, "/") && !strings.HasPrefix(b.c.Program, "/") {
		b.errorf(
			n.get("cmd").pos,
			".cmd",
			"cmd is the name of a program or its absolute path; %q would be looked for in the project, where agents can write.",
			shown(b.c.Program),
		)
	}
	if d, err := time.ParseDuration(n.str("timeout")); err == nil {
		b.c.Timeout = d
	}
	if env := n.get("env"); env != nil {
		b.c.Env = make(map[string]string, len(env.entries))
		for _, e := range env.entries {
			b.c.Env[e.key] = e.value.text
		}
	}
	b.parameters()
	b.arguments()
	if b.c.Description == "" {
		b.c.Description = "Runs " + b.c.line() + "."
	}
	return b.c
}

// line is the command as people write it.
func (c *Command) line() string {
	words := []string{c.Program}
	for _, a := range c.Args {
		words = append(words, a.String())
	}
	return strings.Join(words, " ")
}

func (b *commandBuilder) parameters() {
	params := b.item.get("parameters")
	if params == nil || params.kind != mapNode {
		return
	}
	for _, e := range params.entries {
		b.c.Parameters = append(b.c.Parameters, b.parameter(e))
	}
}

func (b *commandBuilder) parameter(e entry) CommandParameter {
	n := e.value
	path := ".parameters." + e.key
	p := CommandParameter{
		Name: e.key, Type: n.str("type"), Description: n.str("description"), Pattern: n.str("pattern"),
		MinLength: wholeOf(n.get("minLength")), MaxLength: wholeOf(n.get("maxLength")),
		Minimum: numberOf(n.get("minimum")), Maximum: numberOf(n.get("maximum")),
	}
	if v := n.get("optional"); v != nil && v.kind == boolNode {
		p.Optional = v.flag
	}
	for i, item := range n.list("enum") {
		p.Enum = append(p.Enum, b.valueOf(item, p.Type, path+".enum["+strconv.Itoa(i)+"]"))
	}
	if v := n.get("default"); v != nil && v.kind != nullNode {
		p.Default, p.Optional = b.valueOf(v, p.Type, path+".default"), true
		if len(p.Enum) > 0 && !slices.Contains(p.Enum, p.Default) {
			b.errorf(v.pos, path+".default", "The default %s is none of the values in enum.", v.describe())
		}
	}
	b.bounds(n, p, path)
	return p
}

// bounds reports limits that do not fit the type, or each other.
func (b *commandBuilder) bounds(n *node, p CommandParameter, path string) {
	for _, key := range []string{"pattern", "minLength", "maxLength"} {
		if v := n.entry(key); v != nil && p.Type != "string" {
			b.errorf(v.keyPos, path+"."+key, "%s is for strings; this is of type %s.", key, p.Type)
		}
	}
	for _, key := range []string{"minimum", "maximum"} {
		if v := n.entry(key); v != nil && p.Type != "integer" && p.Type != "number" {
			b.errorf(v.keyPos, path+"."+key, "%s is for numbers; this is of type %s.", key, p.Type)
		}
	}
	if p.Type == "boolean" && len(p.Enum) > 0 {
		b.errorf(n.entry("enum").keyPos, path+".enum", "A boolean needs no enum.")
	}
	if p.MinLength != nil && p.MaxLength != nil && *p.MinLength > *p.MaxLength ||
		p.Minimum != nil && p.Maximum != nil && *p.Minimum > *p.Maximum {
		b.errorf(n.pos, path, "The lower bound is greater than the upper one.")
	}
	if p.Pattern == "" || p.Type != "string" {
		return
	}
	pos := n.get("pattern").pos
	if _, err := regexp.Compile(p.Pattern); err != nil {
		b.errorf(
			pos,
			path+".pattern",
			"The pattern is no regular expression (RE2): %s.",
			strings.TrimPrefix(err.Error(), "error parsing regexp: "),
		)
		return
	}
	if !strings.HasPrefix(p.Pattern, "^") || !strings.HasSuffix(p.Pattern, "$") {
		b.diags.warnf(
			InvalidValue,
			pos,
			b.at+path+".pattern",
			"The pattern does not begin with ^ and end with $, so other text may stand around what it matches.",
		)
	}
}

// valueOf returns a value, which must have a parameter's type.
func (b *commandBuilder) valueOf(n *node, typ, path string) any {
	switch {
	case typ == "string" && n.kind == stringNode:
		return n.text
	case typ == "boolean" && n.kind == boolNode:
		return n.flag
	case (typ == "integer" || typ == "number") && n.kind == intNode:
		return n.int
	case typ == "number" && n.kind == floatNode:
		return n.float
	}
	b.errorf(n.pos, path, "The value %s is not of type %s%s.", n.describe(), typ, quoteHint(n))
	return nil
}

func wholeOf(n *node) *int64 {
	if n == nil || n.kind != intNode {
		return nil
	}
	return &n.int
}

func numberOf(n *node) *float64 {
	v, ok := n.numberOrZero()
	if !ok {
		return nil
	}
	return &v
}

// arguments reads the arguments and checks them and the parameters against each other.
func (b *commandBuilder) arguments() {
	implicit := b.item.entry("parameters") == nil
	for i, arg := range b.item.list("args") {
		path := ".args[" + strconv.Itoa(i) + "]"
		b.c.Args = append(b.c.Args, b.argument(arg, path, implicit, ""))
	}
	if optional := b.item.get("optional_args"); optional != nil {
		for _, e := range optional.entries {
			path := ".optional_args." + e.key
			p := b.find(e.key)
			switch {
			case p == nil:
				b.unknown(e.key, e.keyPos, path)
			case !p.Optional && p.Type != "boolean":
				b.errorf(e.keyPos, path, "%s is always given; say optional: true, or put its arguments under args.", e.key)
			}
			b.used[e.key] = true
			o := OptionalArgs{Parameter: e.key}
			for i, arg := range e.value.items {
				o.Args = append(o.Args, b.argument(arg, path+"["+strconv.Itoa(i)+"]", false, e.key))
			}
			b.c.Optional = append(b.c.Optional, o)
		}
	}
	for _, p := range b.c.Parameters {
		if !b.used[p.Name] {
			e := b.item.get("parameters").entry(p.Name)
			b.errorf(
				e.keyPos,
				".parameters."+p.Name,
				"No argument uses %s; write {{%s}} where its value belongs.",
				p.Name,
				p.Name,
			)
		}
	}
}

// argument reads one argument. If implicit is set, a placeholder for an undeclared parameter declares it. given is the
// parameter on which the argument depends, or "".
func (b *commandBuilder) argument(n *node, path string, implicit bool, given string) Template {
	t, ok := ParseTemplate(n.text)
	if !ok {
		b.errorf(n.pos, path, "The argument %s holds a {{ that no }} ends.", n.describe())
	}
	for i, part := range t {
		name := part.Parameter
		if name == "" {
			continue
		}
		b.used[name] = true
		p := b.find(name)
		switch {
		case p == nil && implicit:
			b.c.Parameters = append(b.c.Parameters, CommandParameter{Name: name, Type: "string"})
			p = &b.c.Parameters[len(b.c.Parameters)-1]
		case p == nil:
			b.unknown(name, n.pos, path)
			continue
		case p.Optional && p.Default == nil && name != given:
			b.errorf(
				n.pos,
				path,
				"%s may be left out, and this argument needs it; put the argument under optional_args.%s.",
				name,
				name,
			)
		}
		if lead := leading(t[:i]); strings.HasPrefix(lead, "-") && !strings.Contains(lead, "=") && p.Type == "string" &&
			!p.Fixed() {
			b.errorf(
				n.pos,
				path,
				"In %s the caller could choose which option this is; write the value as an argument of its own, or after =.",
				n.describe(),
			)
		}
	}
	return t
}

// leading is the text of the parts before a placeholder; earlier placeholders count as empty.
func leading(parts Template) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(part.Text)
	}
	return b.String()
}

func (b *commandBuilder) find(name string) *CommandParameter {
	i := slices.IndexFunc(b.c.Parameters, func(p CommandParameter) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &b.c.Parameters[i]
}

func (b *commandBuilder) unknown(name string, pos Position, path string) {
	var known []field
	for _, p := range b.c.Parameters {
		known = append(known, field{name: p.Name})
	}
	if near := nearest(name, known); near != "" {
		b.errorf(pos, path, "Unknown parameter %q; did you mean %q?", shown(name), near)
		return
	}
	b.errorf(pos, path, "There is no parameter %q; declare it under parameters.", shown(name))
}
