package config

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"kaged.dev/pkg/fault"
)

// Set returns data with the key at path set to value, a TOML value as text. All other bytes stay, with comments, order
// and spacing. The value of an existing key is replaced, a missing key is added at the end of its table, a missing
// table at the end of the file. Set parses the result and refuses a value that breaks the file with bad_request.
func Set(data []byte, path []string, value string) ([]byte, error) {
	if len(path) < 1 {
		return nil, fault.New(fault.BadRequest, "A key is needed.")
	}
	out, done := replaceValue(data, path, value)
	if !done {
		out = insertKey(data, path, value)
	}
	if _, err := Parse("local.toml", out); err != nil {
		return nil, err
	}
	return out, nil
}

// Get returns the value at path as TOML decodes it: a table as a map, a list as a slice. It reports false if data has
// no such value, and fails with bad_request for invalid TOML; name is the file's name for the message.
func Get(name string, data []byte, path []string) (value any, there bool, err error) {
	var table map[string]any
	if err := toml.Unmarshal(data, &table); err != nil {
		return nil, false, syntaxFault(name, err)
	}
	value = table
	for _, key := range path {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil, false, nil
		}
		if value, ok = inner[key]; !ok {
			return nil, false, nil
		}
	}
	return value, true, nil
}

// Key parses a key as written in the file: parts separated by dots, in quotes if they hold dots themselves, such as
// default_tools."shell.bash".enabled. It fails with bad_request.
func Key(text string) ([]string, error) {
	var p unstable.Parser
	p.Reset([]byte(text + " = 0"))
	if p.NextExpression() && p.Expression().Kind == unstable.KeyValue {
		path, _, _ := keyOf(&p, p.Expression())
		if !p.NextExpression() && p.Error() == nil {
			return path, nil
		}
	}
	return nil, fault.New(
		fault.BadRequest,
		"%q is no key: its parts stand in quotes where they hold more than letters, digits, - and _.",
		text,
	)
}

// IsValue reports whether text is a valid TOML value.
func IsValue(text string) bool {
	var doc map[string]any
	return toml.Unmarshal([]byte("v = "+text), &doc) == nil && len(doc) == 1
}

// Quote returns s as a TOML string.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\u` + strings.Repeat("0", 4-len(strconv.FormatInt(int64(r), 16))) + strconv.FormatInt(int64(r), 16))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func replaceValue(data []byte, path []string, value string) ([]byte, bool) {
	var table []string
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		key, _, _ := keyOf(&p, e)
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = key
		case unstable.KeyValue:
			if !slices.Equal(slices.Concat(table, key), path) {
				continue
			}
			start, end := valueSpan(data, &p, e)
			return slices.Concat(data[:start], []byte(value), data[end:]), true
		}
	}
	return nil, false
}

// valueSpan returns the range of a key's value: from after the equals sign that follows the key to the end of the
// expression.
func valueSpan(data []byte, p *unstable.Parser, e *unstable.Node) (start, end int) {
	var last *unstable.Node
	for it := e.Key(); it.Next(); {
		last = it.Node()
	}
	start = int(last.Raw.Offset + last.Raw.Length)
	start += bytes.IndexByte(data[start:], '=') + 1
	for start < len(data) && (data[start] == ' ' || data[start] == '\t') {
		start++
	}
	return start, valueEnd(data, start)
}

// valueEnd returns the end of a valid value: a string of any of the four kinds, nested arrays and inline tables, and
// comments inside arrays.
func valueEnd(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch c := data[i]; {
		case c == '"' || c == '\'':
			i = stringEnd(data, i)
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
			if depth == 0 {
				return i + 1
			}
		case c == '#' && depth > 0:
			for i < len(data) && data[i] != '\n' {
				i++
			}
			continue
		case depth == 0 && (c == '\n' || c == '\r' || c == '#'):
			return len(bytes.TrimRight(data[:i], " \t"))
		}
		i++
	}
	return len(bytes.TrimRight(data, " \t\r\n"))
}

func stringEnd(data []byte, i int) int {
	quote := data[i]
	if triple := bytes.Repeat([]byte{quote}, 3); bytes.HasPrefix(data[i:], triple) {
		for i += 3; i < len(data); i++ {
			if data[i] == '\\' && quote == '"' {
				i++
				continue
			}
			if bytes.HasPrefix(data[i:], triple) {
				for i += 3; i < len(data) && data[i] == quote; i++ {
					continue // up to two quotes may belong to the text
				}
				return i
			}
		}
		return i
	}
	for i++; i < len(data); i++ {
		if data[i] == '\\' && quote == '"' {
			i++
			continue
		}
		if data[i] == quote {
			return i + 1
		}
	}
	return i
}

func insertKey(data []byte, path []string, value string) []byte {
	table, key := path[:len(path)-1], path[len(path)-1]
	line := bareKey(key) + " = " + value + "\n"
	if at, found := tableEnd(data, table); found {
		if at > 0 && data[at-1] != '\n' {
			line = "\n" + line
		}
		return slices.Concat(data[:at], []byte(line), data[at:])
	}
	var b bytes.Buffer
	b.Write(data)
	if len(data) > 0 {
		if data[len(data)-1] != '\n' {
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	parts := make([]string, len(table))
	for i, t := range table {
		parts[i] = bareKey(t)
	}
	b.WriteString("[" + strings.Join(parts, ".") + "]\n" + line)
	return b.Bytes()
}

// tableEnd returns the offset after the last line of a table's own keys. The unnamed table begins the file.
func tableEnd(data []byte, table []string) (offset int, found bool) {
	var current []string
	found = len(table) == 0
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		key, _, _ := keyOf(&p, e)
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			current = key
			if slices.Equal(current, table) {
				found = true
				var last *unstable.Node
				for it := e.Key(); it.Next(); {
					last = it.Node()
				}
				offset = lineEnd(data, int(last.Raw.Offset))
			}
		case unstable.KeyValue:
			if slices.Equal(current, table) {
				_, end := valueSpan(data, &p, e)
				offset = lineEnd(data, end)
			}
		}
	}
	return offset, found
}

func lineEnd(data []byte, i int) int {
	if n := bytes.IndexByte(data[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(data)
}

func bareKey(key string) string {
	if key == "" {
		return `""`
	}
	for _, c := range key {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return Quote(key)
		}
	}
	return key
}
