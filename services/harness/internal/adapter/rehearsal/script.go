package rehearsal

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

const (
	// maxScript is the largest size of a script in bytes.
	maxScript = 1 << 20
	// maxDepth is the deepest nesting of a script.
	maxDepth = 64
)

// Script is a parsed script: the common part, and the parts of single agents by their tree paths.
type Script struct {
	part
	agents map[string]part
}

// part holds the steps of an agent.
type part struct {
	steps []step
	// rest answers all requests after the steps. It may be nil.
	rest *step
	loop bool
}

// step is one turn of the model. Its fields are described in docs/reference/rehearsal.md.
type step struct {
	Expect  patterns `yaml:"expect"`
	Think   string   `yaml:"think"`
	Say     string   `yaml:"say"`
	Tool    calls    `yaml:"tool"`
	Usage   usage    `yaml:"usage"`
	Delay   duration `yaml:"delay"`
	Stop    string   `yaml:"stop"`
	Fail    *failure `yaml:"fail"`
	Default bool     `yaml:"default"`
}

type failure struct {
	Status     int      `yaml:"status"`
	Message    string   `yaml:"message"`
	RetryAfter duration `yaml:"retry_after"`
}

type usage struct {
	Input      int64 `yaml:"input"`
	Output     int64 `yaml:"output"`
	Reasoning  int64 `yaml:"reasoning"`
	CacheRead  int64 `yaml:"cache_read"`
	CacheWrite int64 `yaml:"cache_write"`
}

type call struct {
	Name  string `yaml:"name"`
	Input input  `yaml:"input"`
}

// Parse parses a script. It fails with provider_not_configured if the script is invalid, with details.line and
// details.column if they are known.
func Parse(data []byte) (*Script, error) {
	s, err := parse(data)
	if err == nil {
		return s, nil
	}
	f := fault.Wrap(err, fault.ProviderNotConfigured, "The rehearsal script cannot be used: %s.", err)
	var at *positioned
	var syntax yaml.Error
	switch {
	case errors.As(err, &at):
		f = f.With("line", at.line).With("column", at.column)
	case errors.As(err, &syntax) && syntax.GetToken() != nil:
		pos := syntax.GetToken().Position
		f = fault.Wrap(err, fault.ProviderNotConfigured, "The rehearsal script cannot be used: line %d: %s.", pos.Line,
			plain(syntax.GetMessage())).
			With("line", pos.Line).With("column", pos.Column)
	}
	return nil, f
}

// positioned is an error with its position in the script.
type positioned struct {
	line, column int
	msg          string
}

func (e *positioned) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.msg) }

func at(n ast.Node, format string, args ...any) error {
	e := &positioned{line: 1, column: 1, msg: fmt.Sprintf(format, args...)}
	if t := n.GetToken(); t != nil && t.Position != nil {
		e.line, e.column = t.Position.Line, t.Position.Column
	}
	return e
}

var wrongType = regexp.MustCompile(`^cannot unmarshal (.+) into Go .* of type (.+)$`)

// plain replaces Go's type names by YAML's in the library's message about a value of the wrong type.
func plain(msg string) string {
	m := wrongType.FindStringSubmatch(msg)
	if m == nil {
		return msg
	}
	return fmt.Sprintf("a %s stands where a %s is needed", yamlType(m[1]), yamlType(m[2]))
}

func yamlType(goType string) string {
	switch {
	case strings.HasPrefix(goType, "map["), strings.Contains(goType, "rehearsal."):
		return "mapping"
	case strings.HasPrefix(goType, "[]"):
		return "list"
	case goType == "string", goType == "bool":
		return map[string]string{"string": "text", "bool": "boolean"}[goType]
	case strings.Contains(goType, "int"), strings.HasPrefix(goType, "float"):
		return "number"
	}
	return "value"
}

func parse(data []byte) (*Script, error) {
	if len(data) > maxScript {
		return nil, fmt.Errorf("it has more than %d bytes", maxScript)
	}
	tokens := lexer.Tokenize(string(data))
	if err := tame(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, err
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, errors.New("it must be one document with steps")
	}
	var doc struct {
		Steps  stepList `yaml:"steps"`
		Loop   bool     `yaml:"loop"`
		Agents map[string]struct {
			Steps stepList `yaml:"steps"`
			Loop  bool     `yaml:"loop"`
		} `yaml:"agents"`
	}
	if err := yaml.NodeToValue(file.Docs[0].Body, &doc, yaml.Strict()); err != nil {
		return nil, err
	}
	s := &Script{agents: make(map[string]part, len(doc.Agents))}
	if len(doc.Steps) > 0 || len(doc.Agents) == 0 {
		if s.part, err = newPart(doc.Steps, doc.Loop); err != nil {
			return nil, fmt.Errorf("it %w", err)
		}
	}
	for path, a := range doc.Agents {
		if s.agents[path], err = newPart(a.Steps, a.Loop); err != nil {
			return nil, fmt.Errorf("the part of %.200q %w", path, err)
		}
	}
	return s, nil
}

// newPart returns the steps of an agent. Its error is the end of a sentence.
func newPart(steps []step, loop bool) (part, error) {
	if len(steps) == 0 {
		return part{}, errors.New("has no steps")
	}
	p := part{steps: steps, loop: loop}
	if last := len(steps) - 1; steps[last].Default {
		p.rest, p.steps = &steps[last], steps[:last]
	}
	if loop && p.rest != nil {
		return part{}, errors.New("has a loop and a default step, which exclude each other")
	}
	return p, nil
}

// tame refuses two traps of small YAML files: aliases, which can expand without bound, and deep nesting, which
// exhausts the stack.
func tame(tokens token.Tokens) error {
	depth, entries, line := 0, 0, 0
	for _, t := range tokens {
		refuse := func(why string) error { return &positioned{line: t.Position.Line, column: t.Position.Column, msg: why} }
		if t.Position.Line != line {
			line, entries = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType:
			return refuse("anchors, aliases and tags are not allowed")
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			entries++
		}
		if depth > maxDepth || depth == 0 && entries > maxDepth || t.Position.IndentNum > 4*maxDepth {
			return refuse("it nests too deeply")
		}
	}
	return nil
}

// stepList is a list of steps. Each step is checked at its position.
type stepList []step

// UnmarshalYAML reads the steps.
func (l *stepList) UnmarshalYAML(n ast.Node) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return at(n, "steps must be a list")
	}
	for i, v := range seq.Values {
		var s step
		if err := yaml.NodeToValue(v, &s, yaml.Strict()); err != nil {
			return err
		}
		if s.Default && i != len(seq.Values)-1 {
			return at(v, "only the last step may be the default")
		}
		if err := s.check(v); err != nil {
			return err
		}
		*l = append(*l, s)
	}
	return nil
}

func (s *step) check(n ast.Node) error {
	switch {
	case s.Stop != "" && s.Stop != string(llm.StopEnd) && s.Stop != string(llm.StopLength):
		return at(n, "stop must be stop or length, not %q", s.Stop)
	case s.Fail != nil && (s.Fail.Status < 400 || s.Fail.Status > 599):
		return at(n, "fail needs a status from 400 to 599")
	case s.Think == "" && s.Say == "" && len(s.Tool) == 0 && s.Fail == nil:
		return at(n, "the step does nothing: it needs say, think, tool or fail")
	}
	for _, v := range []int64{s.Usage.Input, s.Usage.Output, s.Usage.Reasoning, s.Usage.CacheRead, s.Usage.CacheWrite} {
		if v < 0 {
			return at(n, "usage must not be negative")
		}
	}
	for _, c := range s.Tool {
		if c.Name == "" {
			return at(n, "a tool needs a name")
		}
	}
	return nil
}

// patterns are texts, or /regular expressions/, that must all occur.
type patterns []pattern

type pattern struct {
	text string
	re   *regexp.Regexp
}

// UnmarshalYAML reads one pattern or a list.
func (p *patterns) UnmarshalYAML(n ast.Node) error {
	var texts []string
	if _, ok := n.(*ast.SequenceNode); ok {
		if err := yaml.NodeToValue(n, &texts); err != nil {
			return err
		}
	} else {
		texts = make([]string, 1)
		if err := yaml.NodeToValue(n, &texts[0]); err != nil {
			return err
		}
	}
	for _, text := range texts {
		pat := pattern{text: text}
		if len(text) > 2 && strings.HasPrefix(text, "/") && strings.HasSuffix(text, "/") {
			re, err := regexp.Compile(text[1 : len(text)-1])
			if err != nil {
				return at(n, "%s is no regular expression", text)
			}
			pat.re = re
		}
		*p = append(*p, pat)
	}
	return nil
}

func (p pattern) in(s string) bool {
	if p.re != nil {
		return p.re.MatchString(s)
	}
	return strings.Contains(s, p.text)
}

// calls is one call or a list.
type calls []call

// UnmarshalYAML reads either form.
func (c *calls) UnmarshalYAML(n ast.Node) error {
	if _, ok := n.(*ast.SequenceNode); ok {
		return yaml.NodeToValue(n, (*[]call)(c), yaml.Strict())
	}
	*c = make(calls, 1)
	return yaml.NodeToValue(n, &(*c)[0], yaml.Strict())
}

// input is a call's input as JSON. A text is used unchanged, so that a script can also contain invalid input.
type input string

// UnmarshalYAML reads a mapping or a text.
func (in *input) UnmarshalYAML(n ast.Node) error {
	var v any
	if err := yaml.NodeToValue(n, &v, yaml.UseOrderedMap()); err != nil {
		return err
	}
	if text, ok := v.(string); ok {
		*in = input(text)
		return nil
	}
	b, err := appendJSON(nil, v)
	if err != nil {
		return at(n, "the input is no JSON: %s", err)
	}
	*in = input(b)
	return nil
}

// appendJSON appends a YAML value as JSON, with keys in the order of the script.
func appendJSON(b []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case yaml.MapSlice:
		b = append(b, '{')
		for i, kv := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, fmt.Sprint(kv.Key)); err != nil {
				return nil, err
			}
			b = append(b, ':')
			if b, err = appendJSON(b, kv.Value); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("JSON has no NaN and no infinity")
		}
	}
	j, err := json.Marshal(v)
	return append(b, j...), err
}

// duration is a time such as 20ms.
type duration time.Duration

// UnmarshalYAML reads a duration from 0 to 1 h.
func (d *duration) UnmarshalYAML(n ast.Node) error {
	var text string
	if err := yaml.NodeToValue(n, &text); err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 || v > time.Hour {
		return at(n, "%q is no duration such as 20ms", text)
	}
	*d = duration(v)
	return nil
}
