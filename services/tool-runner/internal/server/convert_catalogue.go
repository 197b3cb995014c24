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

//convert:use categories units caseToProto
//convert:one toolToProto *tool.Entry *toolrunnerv1.Tool >Name=in.Name() >Description=in.Description()
//convert:with >Namespace=in.Namespace() >InputSchema=-
//convert:with >OutputSchema=- >Availability=-
//convert:one aliasToProto tool.Alias *toolrunnerv1.ToolAlias >InputSchema=-
//convert:one requirementToProto tool.Requirement *toolrunnerv1.ToolRequirement
//convert:one limitToProto tool.Limit *toolrunnerv1.ToolLimit
//convert:one matchToProto toolcall.Match *toolrunnerv1.ParameterMatch

func entryToProto(e *tool.Entry) (*toolrunnerv1.Tool, error) {
	t := toolToProto(e)
	schemas := map[**structpb.Struct]*schema.Schema{&t.InputSchema: e.Parameters(), &t.OutputSchema: e.Output}
	for i, a := range e.Aliases {
		schemas[&t.Aliases[i].InputSchema] = a.Input
	}
	for to, s := range schemas {
		p, err := schemaToProto(s)
		if err != nil {
			return nil, err
		}
		*to = p
	}
	return t, nil
}

func caseToProto(c toolcall.Case) *toolrunnerv1.ReadWhen {
	m := &toolrunnerv1.ReadWhen{}
	for _, match := range c {
		m.Parameters = append(m.Parameters, matchToProto(match))
	}
	return m
}

func schemaToProto(s *schema.Schema) (*structpb.Struct, error) {
	return structpb.NewStruct(s.Document())
}

// availabilityToProto returns that a tool can be used, or the reason why not.
func availabilityToProto(reason *fault.Error) *toolrunnerv1.Availability {
	return &toolrunnerv1.Availability{Available: reason == nil, Reason: reason.Proto()}
}
