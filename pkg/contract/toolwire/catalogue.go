package toolwire

import (
	"encoding/json"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/toolcall"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

//convert:use schemaOf fromCase
//convert:one fromTools []*toolrunnerv1.Tool catalogue.Tools >list
//convert:one fromTool *toolrunnerv1.Tool catalogue.Tool InputSchema=Schema >Writes=writes(in)
//convert:one fromAlias *toolrunnerv1.ToolAlias catalogue.Alias InputSchema=Schema
//convert:one fromMatch *toolrunnerv1.ParameterMatch toolcall.Match

// FromTools decodes the tools listed by a tool-runner, in its order. It fails with internal for a schema that is not
// JSON.
func FromTools(list []*toolrunnerv1.Tool) (catalogue.Tools, error) {
	tools := fromTools(list)
	for _, t := range tools {
		readable := t.Schema != nil
		for _, a := range t.Aliases {
			readable = readable && a.Schema != nil
		}
		if !readable {
			return nil, fault.New(fault.Internal, "The schema of the tool %s cannot be written as JSON.", t.Name)
		}
	}
	return tools, nil
}

// writes reports whether a tool may change files or run programs. A kaged tool that needs no capability of a cage does
// neither.
func writes(t *toolrunnerv1.Tool) bool {
	return t.GetCategory() != toolrunnerv1.Category_CATEGORY_READ && (t.GetSource() != "builtin" ||
		len(t.GetRequires()) > 0)
}

func fromCase(p *toolrunnerv1.ReadWhen) (c toolcall.Case) {
	for _, match := range p.GetParameters() {
		c = append(c, fromMatch(match))
	}
	return c
}

// schemaOf returns a schema as JSON with sorted keys, always of type object; nil for a schema that is not JSON.
func schemaOf(s *structpb.Struct) json.RawMessage {
	m := s.AsMap()
	if _, typed := m["type"]; !typed {
		m["type"] = "object"
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return text
}
