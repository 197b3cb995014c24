package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reference returns the description as a page of Markdown, for docs/reference.
func Reference() (string, error) {
	text, err := Document("", false)
	if err != nil {
		return "", err
	}
	var d struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("# HTTP API\n\nGenerated from the contract; do not edit. " +
		"`GET /api/v1/openapi.json` has it as OpenAPI 3.1, " +
		"`/docs/api` as a page.\nEvery refusal is `{\"error\": {\"code\", \"message\", \"details\", \"request_id\"}}`, " +
		"with the codes of [errors.md](errors.md).\n" +
		"The frames of the socket are in [frames.md](frames.md). Tokens: [a guide](../howto/use-an-api-token.md).\n")
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			d.Paths[path][method].write(&out, strings.ToUpper(method), path)
		}
	}
	out.WriteString("\n# Messages\n")
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		d.Components.Schemas[name].write(&out, name)
	}
	return out.String(), nil
}

type operation struct {
	Description string
	Scope       string `json:"x-kaged-token-scope"`
	Parameters  []struct {
		Name, In, Description string
		Schema                schema
	}
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema schema }
	}
}

func (o operation) write(out *strings.Builder, method, path string) {
	fmt.Fprintf(out, "\n## `%s %s`\n\n%s\n\n", method, path, o.Description)
	if o.Scope != "" {
		fmt.Fprintf(out, "Token: `%s`.\n\n", o.Scope)
	}
	for _, p := range o.Parameters {
		fmt.Fprintf(out, "- %s `%s` (%s): %s\n", p.In, p.Name, p.Schema.kind(), p.Description)
	}
	body := o.RequestBody.Content["application/json"].Schema
	for _, name := range slices.Sorted(maps.Keys(body.Properties)) {
		fmt.Fprintf(out, "- body `%s` (%s): %s\n", name, body.Properties[name].kind(),
			body.Properties[name].Description)
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		if status == "default" {
			continue
		}
		var kinds []string
		for _, media := range slices.Sorted(maps.Keys(o.Responses[status].Content)) {
			kinds = append(kinds, o.Responses[status].Content[media].Schema.kind()+" as "+media)
		}
		fmt.Fprintf(out, "- %s: %s\n", status, strings.Join(append(kinds, []string{"no body"}[min(len(kinds),
			1):]...), ", or "))
	}
}

type schema struct {
	Ref         string `json:"$ref"`
	Type        any
	Enum        []string
	Items       *schema
	AnyOf       []schema
	Description string
	Properties  map[string]schema
}

// kind returns a short description of a schema's values.
func (s schema) kind() string {
	switch {
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case len(s.AnyOf) > 0:
		var kinds []string
		for _, one := range s.AnyOf {
			kinds = append(kinds, one.kind())
		}
		return strings.Join(kinds, " or ")
	case len(s.Enum) > 0:
		return "one of " + strings.Join(s.Enum, ", ")
	case s.Items != nil:
		return "list of " + s.Items.kind()
	}
	switch kind := s.Type.(type) {
	case string:
		return kind
	case []any:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(kind...), "[]"), "null", " or null")
	}
	return "any"
}

func (s schema) write(out *strings.Builder, name string) {
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n", name, s.Description)
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		fmt.Fprintf(out, "- `%s` (%s): %s\n", key, s.Properties[key].kind(), s.Properties[key].Description)
	}
}
