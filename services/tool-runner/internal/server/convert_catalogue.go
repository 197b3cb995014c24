package server

import (
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/toolcall"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

var categories = map[tool.Category]toolrunnerv1.Category{
	tool.Read:  toolrunnerv1.Category_CATEGORY_READ,
	tool.Write: toolrunnerv1.Category_CATEGORY_WRITE,
	tool.Admin: toolrunnerv1.Category_CATEGORY_ADMIN,
}

var units = map[tool.Unit]toolrunnerv1.LimitUnit{
	tool.Bytes:        toolrunnerv1.LimitUnit_LIMIT_UNIT_BYTES,
	tool.Milliseconds: toolrunnerv1.LimitUnit_LIMIT_UNIT_MILLISECONDS,
	tool.Count:        toolrunnerv1.LimitUnit_LIMIT_UNIT_COUNT,
}

func catalogueToProto(catalogue []*tool.Entry) ([]*toolrunnerv1.Tool, error) {
	list := make([]*toolrunnerv1.Tool, len(catalogue))
	for i, e := range catalogue {
		t, err := entryToProto(e)
		if err != nil {
			return nil, err
		}
		list[i] = t
	}
	return list, nil
}

func entryToProto(e *tool.Entry) (*toolrunnerv1.Tool, error) {
	input, err := schemaToProto(e.Parameters())
	if err != nil {
		return nil, err
	}
	output, err := schemaToProto(e.Output)
	if err != nil {
		return nil, err
	}
	t := &toolrunnerv1.Tool{
		Name: e.Name(), Namespace: e.Namespace(), Description: e.Description(), InputSchema: input, OutputSchema: output,
		Category: categories[e.Category], RootOnly: e.RootOnly, DefaultRoot: e.DefaultRoot, Parallel: e.Parallel,
		Source: string(e.Source), Plugin: e.Plugin, ReadWhen: whenToProto(e.ReadWhen),
		WaitWhen: whenToProto(e.WaitWhen),
	}
	for _, a := range e.Aliases {
		input, err := schemaToProto(a.Input)
		if err != nil {
			return nil, err
		}
		t.Aliases = append(t.Aliases, &toolrunnerv1.ToolAlias{
			Name: a.Name, Description: a.Description, InputSchema: input, ReadWhen: whenToProto(a.ReadWhen),
			Action: a.Action,
		})
	}
	for _, r := range e.Requires {
		t.Requires = append(t.Requires, &toolrunnerv1.ToolRequirement{
			Kind: string(r.Kind), Mode: string(r.Mode), Path: r.Path, Name: r.Name,
		})
	}
	for _, l := range e.Limits {
		t.Limits = append(t.Limits, &toolrunnerv1.ToolLimit{Key: l.Key, Value: l.Value, Unit: units[l.Unit], Doc: l.Doc})
	}
	return t, nil
}

func whenToProto(when toolcall.When) (list []*toolrunnerv1.ReadWhen) {
	for _, c := range when {
		m := &toolrunnerv1.ReadWhen{}
		for _, match := range c {
			m.Parameters = append(m.Parameters, &toolrunnerv1.ParameterMatch{Parameter: match.Parameter, Values: match.Values})
		}
		list = append(list, m)
	}
	return list
}

func schemaToProto(s *schema.Schema) (*structpb.Struct, error) {
	return structpb.NewStruct(s.Document())
}

// availabilityToProto says that a tool can be used, or why not.
func availabilityToProto(reason *fault.Error) *toolrunnerv1.Availability {
	return &toolrunnerv1.Availability{Available: reason == nil, Reason: reason.Proto()}
}
