package dsl

import (
	"encoding/json"
	"strings"

	"kaged.dev/pkg/fault"
)

// Schema returns the JSON Schema (draft 2020-12) of a version of the project file, after overlay and before references
// are resolved. It accepts the files that [Parse] accepts, except for rules about several values together. It fails
// with not_found for an unknown version.
func Schema(version int) (json.RawMessage, error) {
	if version != Version {
		return nil, fault.New(
			fault.NotFound,
			"There is no version %d of the project file; version %d is read.",
			version,
			Version,
		)
	}
	p := printer{defs: map[string]any{}}
	root := p.print(projectShape)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://kaged.dev/schema/project.v1.json"
	root["title"] = "kaged project file"
	root["$defs"] = p.defs
	return json.MarshalIndent(root, "", "  ")
}

// printer writes shapes as JSON Schema; named shapes go to defs.
type printer struct{ defs map[string]any }

func (p *printer) print(s *shape) map[string]any {
	if s.def == "" {
		return p.inline(s)
	}
	if _, done := p.defs[s.def]; !done {
		p.defs[s.def] = nil // A shape may contain itself.
		p.defs[s.def] = p.inline(s)
	}
	return map[string]any{"$ref": "#/$defs/" + s.def}
}

func (p *printer) inline(s *shape) map[string]any {
	out := map[string]any{}
	if s.doc != "" {
		out["description"] = s.doc
	}
	switch s.kind {
	case objectShape:
		p.object(s, out)
	case mapShape:
		out["type"] = "object"
		out["additionalProperties"] = p.print(s.values)
		if s.keys != nil {
			out["propertyNames"] = map[string]any{"pattern": s.keys.re.String()}
		}
		setAbove(out, "maxProperties", s.most)
	case listShape:
		out["type"] = "array"
		out["items"] = p.print(s.items)
		setAbove(out, "maxItems", s.most)
	case stringShape:
		stringSchema(s, out)
	case integerShape, numberShape:
		numberSchema(s, out)
	case booleanShape:
		out["type"] = "boolean"
	case oneOfShape:
		p.oneOf(s, out)
	}
	return out
}

func (p *printer) object(s *shape, out map[string]any) {
	properties := map[string]any{}
	required := []string{}
	for _, f := range s.fields {
		schema := p.print(f.shape)
		if f.required {
			required = append(required, f.name)
		} else if !f.strict && f.shape.kind != anyShape {
			schema = nullable(schema)
		}
		if f.dormant != "" {
			schema["description"] = strings.TrimSpace(
				f.shape.doc + " " + strings.ToUpper(f.dormant[:1]) + f.dormant[1:] + ": not in force yet.",
			)
		}
		properties[f.name] = schema
	}
	out["type"] = "object"
	out["properties"] = properties
	out["additionalProperties"] = false
	if len(required) > 0 {
		out["required"] = required
	}
}

// nullable returns schema with null allowed too.
func nullable(schema map[string]any) map[string]any {
	out := map[string]any{"anyOf": []any{schema, map[string]any{"type": "null"}}}
	if d, ok := schema["description"]; ok {
		out["description"] = d
		delete(schema, "description")
	}
	return out
}

func stringSchema(s *shape, out map[string]any) {
	out["type"] = "string"
	if len(s.enum) > 0 {
		out["enum"] = s.enum
	}
	if s.pattern != nil {
		out["pattern"] = s.pattern.re.String()
	}
	setAbove(out, "minLength", s.minLen)
	setAbove(out, "maxLength", s.maxLen)
}

func numberSchema(s *shape, out map[string]any) {
	out["type"] = "number"
	if s.kind == integerShape {
		out["type"] = "integer"
	}
	if s.aboveSet {
		out["exclusiveMinimum"] = s.above
	} else {
		out["minimum"] = s.min
	}
	out["maximum"] = s.max
}

func (p *printer) oneOf(s *shape, out map[string]any) {
	if s.key != "" {
		out["if"] = map[string]any{"required": []string{s.key}}
		out["then"] = p.print(s.options[0])
		out["else"] = p.print(s.options[1])
		return
	}
	options := make([]any, len(s.options))
	for i, o := range s.options {
		options[i] = p.print(o)
	}
	out["anyOf"] = options
}

func setAbove(out map[string]any, key string, n int) {
	if n > 0 {
		out[key] = n
	}
}
