package config

import (
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"

	"kaged.dev/pkg/catalogue"
)

// entry is a key of the document: its full path and the position of its last part.
type entry struct {
	path         []string
	line, column int
}

// entries lists the keys of tables and values in the order of the file. data must parse.
func entries(data []byte) []entry {
	var list []entry
	var table []string
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		key, line, column := keyOf(&p, e)
		if len(key) == 0 {
			continue
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = key
			list = append(list, entry{key, line, column})
		case unstable.KeyValue:
			list = append(list, entry{slices.Concat(table, key), line, column})
			if v := e.Value(); v != nil && v.Kind == unstable.InlineTable {
				list = append(list, inline(&p, v, slices.Concat(table, key))...)
			}
		}
	}
	return list
}

func inline(p *unstable.Parser, table *unstable.Node, prefix []string) []entry {
	var list []entry
	for it := table.Children(); it.Next(); {
		kv := it.Node()
		if kv.Kind != unstable.KeyValue {
			continue
		}
		key, line, column := keyOf(p, kv)
		list = append(list, entry{slices.Concat(prefix, key), line, column})
	}
	return list
}

func keyOf(p *unstable.Parser, e *unstable.Node) (path []string, line, column int) {
	if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable && e.Kind != unstable.KeyValue {
		return nil, 0, 0
	}
	for it := e.Key(); it.Next(); {
		n := it.Node()
		path = append(path, string(n.Data))
		start := p.Shape(n.Raw).Start
		line, column = start.Line, start.Column
	}
	return path, line, column
}

// position returns the position of key, or the beginning of the file if it is not found.
func position(data []byte, key []string) (line, column int) {
	for _, e := range entries(data) {
		if slices.Equal(e.path, key) {
			return e.line, e.column
		}
	}
	return 1, 1
}

// nthPosition returns the position of a key of the nth table of an array, from 0, or of the table without the key.
func nthPosition(data []byte, array string, n int, key string) (line, column int) {
	line, column = 1, 1
	seen := -1
	for _, e := range entries(data) {
		switch {
		case len(e.path) == 1 && e.path[0] == array:
			if seen++; seen == n {
				line, column = e.line, e.column
			}
		case seen == n && slices.Equal(e.path, []string{array, key}):
			return e.line, e.column
		}
	}
	return line, column
}

// orderedTools returns the rules of [default_tools] in the order of the file.
func orderedTools(data []byte, rules map[string]toolRule) []catalogue.Switch {
	if len(rules) == 0 {
		return nil
	}
	var list []catalogue.Switch
	seen := map[string]bool{}
	for _, e := range entries(data) {
		if len(e.path) < 2 || e.path[0] != "default_tools" || seen[e.path[1]] {
			continue
		}
		pattern := e.path[1]
		if rule, ok := rules[pattern]; ok {
			seen[pattern] = true
			list = append(list, catalogue.Switch{Pattern: pattern, Enabled: rule.Enabled})
		}
	}
	return list
}
