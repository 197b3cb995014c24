package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/fault"
)

// MaxOperatorConfig is the maximum size of the configuration of one operator, in bytes.
const MaxOperatorConfig = 64 << 10

// operatorKeys are the keys that the configuration of one operator may have.
var operatorKeys = []string{"models", "operator_name", "ui"}

// toolKey is the key that only an administrator may set for an operator, because a rule that turns a tool off is a
// limit.
const toolKey = "default_tools"

// ParseOperator parses the configuration of one operator of a shared deployment, which is laid over the deployment's
// configuration: models, operator_name and ui, and with tools also default_tools. It fails as [Parse] does, and for
// other keys, references to the environment, and a configuration above [MaxOperatorConfig].
func ParseOperator(path string, data []byte, tools bool) (*File, error) {
	switch {
	case len(data) > MaxOperatorConfig:
		return nil, fault.New(fault.BadRequest, "%s is larger than %d bytes.", path, MaxOperatorConfig)
	case !utf8.Valid(data):
		return nil, fault.New(fault.BadRequest, "%s is not UTF-8.", path)
	}
	f, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	for _, e := range entries(data) {
		key := e.path[0]
		switch {
		case slices.Contains(operatorKeys, key) || key == toolKey && tools:
		case key == toolKey:
			return nil, at(path, e.line, e.column, "default_tools: only an administrator sets it for an operator")
		case key == "limits", key == "budget":
			return nil, at(path, e.line, e.column,
				key+": an administrator sets limits and budgets, by PUT /api/v1/admin/operators/ID/limits")
		default:
			return nil, at(path, e.line, e.column, key+": the key belongs to the deployment; one operator has models, "+
				"operator_name, ui and default_tools")
		}
	}
	if f.UI.URL != "" {
		return nil, f.wrong(data, []string{"ui", "url"}, "the address belongs to the deployment")
	}
	return f, f.withoutReferences(data)
}

// withoutReferences fails for a value that refers to a variable: it would show the deployment's environment.
func (f *File) withoutReferences(data []byte) error {
	for _, alias := range slices.Sorted(maps.Keys(f.Models)) {
		for _, target := range f.Models[alias] {
			if strings.Contains(target, "${") {
				return f.wrong(data, []string{"models", alias}, referring(target))
			}
		}
	}
	for _, v := range []struct {
		key   []string
		value string
	}{
		{[]string{"operator_name"}, f.OperatorName},
		{[]string{"ui", "theme"}, f.UI.Theme},
		{[]string{"ui", "timezone"}, f.UI.Timezone},
		{[]string{"ui", "locale"}, f.UI.Locale},
	} {
		if strings.Contains(v.value, "${") {
			return f.wrong(data, v.key, referring(v.value))
		}
	}
	return nil
}

func referring(value string) string {
	return fmt.Sprintf("%q refers to a variable of the deployment", value)
}
