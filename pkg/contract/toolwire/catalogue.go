package toolwire

import (
	"encoding/json"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/toolcall"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// FromTools returns the tools that a tool-runner lists, in its order. It fails with internal for a schema that is not
// JSON.
func FromTools(list []*toolrunnerv1.Tool) (catalogue.Tools, error) {
	out := make(catalogue.Tools, 0, len(list))
	for _, t := range list {
		schema, err := schemaOf(t.GetInputSchema())
		if err != nil {
			return nil, err
		}
		tool := catalogue.Tool{
			Name: t.GetName(), Description: t.GetDescription(), Schema: schema, RootOnly: t.GetRootOnly(),
			DefaultRoot: t.GetDefaultRoot(), Parallel: t.GetParallel(),
			Writes: writes(t), ReadWhen: fromWhen(t.GetReadWhen()), WaitWhen: fromWhen(t.GetWaitWhen()),
		}
		for _, a := range t.GetAliases() {
			schema, err := schemaOf(a.GetInputSchema())
			if err != nil {
				return nil, err
			}
			tool.Aliases = append(tool.Aliases, catalogue.Alias{
				Name: a.GetName(), Description: a.GetDescription(), Schema: schema, ReadWhen: fromWhen(a.GetReadWhen()),
				Action: a.GetAction(),
			})
		}
		out = append(out, tool)
	}
	return out, nil
}

// writes reports whether a tool may change files or run programs. One of kaged's own that asks nothing of a cage does
// neither.
func writes(t *toolrunnerv1.Tool) bool {
	return t.GetCategory() != toolrunnerv1.Category_CATEGORY_READ && (t.GetSource() != "builtin" ||
		len(t.GetRequires()) > 0)
}

func fromWhen(list []*toolrunnerv1.ReadWhen) (when toolcall.When) {
	for _, m := range list {
		var c toolcall.Case
		for _, match := range m.GetParameters() {
			c = append(c, toolcall.Match{Parameter: match.GetParameter(), Values: match.GetValues()})
		}
		when = append(when, c)
	}
	return when
}

// schemaOf returns a schema as JSON with sorted keys, always of type object.
func schemaOf(s *structpb.Struct) (json.RawMessage, error) {
	m := s.AsMap()
	if _, typed := m["type"]; !typed {
		m["type"] = "object"
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "A tool's schema cannot be written as JSON.")
	}
	return text, nil
}
