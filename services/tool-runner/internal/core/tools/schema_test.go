package tools_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"kaged.dev/services/tool-runner/internal/core/schema"
)

// One definition serves the model and the tool: every parameter of every tool that the schema
// accepts arrives unchanged, and an unknown parameter is refused by both (T-TOOLS-02).
func TestSchemasAndParametersAgree(t *testing.T) {
	t.Parallel()
	for _, e := range newBench(t).catalogue {
		input := samples(e.Parameters().Document())
		raw, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}
		params, err := e.Decode(e.Name(), schema.Parse(raw))
		if err != nil {
			t.Errorf("%s %s: %v", e.Name(), raw, err)
			continue
		}
		if d := cmp.Diff(plain(t, input), plain(t, params)); d != "" {
			t.Errorf("%s: %s", e.Name(), d)
		}
		for _, a := range e.Aliases {
			input := samples(a.Input.Document())
			raw, err := json.Marshal(input)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Decode(a.Name, schema.Parse(raw)); err != nil {
				t.Errorf("%s %s: %v", a.Name, raw, err)
			}
			input["no_such_parameter"] = 1
			if raw, err = json.Marshal(input); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Decode(a.Name, schema.Parse(raw)); err == nil {
				t.Errorf("%s takes %s", a.Name, raw)
			}
		}
	}
}

// samples returns an object with every property of a schema, each different from its default.
func samples(document map[string]any) map[string]any {
	properties, _ := document["properties"].(map[string]any)
	input := map[string]any{}
	for name, property := range properties {
		input[name] = sample(property.(map[string]any))
	}
	return input
}

func sample(property map[string]any) any {
	if enum, ok := property["enum"].([]any); ok {
		return enum[len(enum)-1]
	}
	switch property["type"] {
	case "integer", "number":
		if most, ok := property["maximum"].(float64); ok {
			return most
		}
		least, _ := property["minimum"].(int64)
		return least + 3
	case "boolean":
		return property["default"] != true
	case "array":
		return []any{sample(property["items"].(map[string]any))}
	case "object":
		if _, ok := property["properties"]; ok {
			return samples(property)
		}
		return map[string]any{"key": "value"}
	}
	return "text"
}

// plain returns value as JSON would read it, ordered pairs as the object they came from and without
// false values, which are not written again.
func plain(t *testing.T, value any) map[string]any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for name, v := range fields {
		if v == false {
			delete(fields, name)
		}
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			continue
		}
		first, ok := list[0].(map[string]any)
		if key, isPair := first["Key"].(string); ok && isPair && len(first) == 2 {
			fields[name] = map[string]any{key: first["Value"]}
		}
	}
	return fields
}
