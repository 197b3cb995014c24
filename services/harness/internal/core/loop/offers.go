package loop

import (
	"context"
	"fmt"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/toolcall"
)

// offer is a tool as the model sees it. A call of it is a call of child unless child is nil.
type offer struct {
	canonical string
	parallel  bool
	readWhen  toolcall.When
	waitWhen  toolcall.When
	action    string // fixed by the tool's alias; may be empty
	child     *compile.Agent
}

// waits reports whether a call with this input waits for outside events.
func (o offer) waits(input []byte) bool {
	if o.action != "" {
		input = fmt.Appendf(nil, `{%q:%q}`, catalogue.ActionParameter, o.action)
	}
	return o.waitWhen.Holds(input)
}

// offerTools builds the descriptions of the agent's tools for the model. It leaves out tools that the operator has
// turned off since the snapshot.
func (v *invocation) offerTools(ctx context.Context) error {
	v.offers = map[string]offer{}
	defer v.offerChildren()
	if len(v.agent.Tools) == 0 {
		return nil
	}
	tools, err := v.deps.Tools.Catalogue(ctx)
	if err != nil {
		return err
	}
	for i := range tools {
		t := &tools[i]
		units := catalogue.Allowed(v.start.OperatorTools, t, t.Given(v.agent.Tools))
		if len(units) == 0 {
			continue
		}
		shown := llm.Tool{Name: t.Name, Description: t.Description, Schema: t.SchemaOf(units)}
		o := offer{canonical: t.Name, parallel: t.Parallel, readWhen: t.ReadWhen, waitWhen: t.WaitWhen}
		if alias := t.Alias(v.agent.Aliases[t.Name]); alias != nil {
			shown = llm.Tool{Name: alias.Name, Description: alias.Description, Schema: alias.Schema}
			o.readWhen, o.action = alias.ReadWhen, alias.Action
		}
		v.tools = append(v.tools, shown)
		v.offers[shown.Name] = o
		v.toolContext.Tools = append(v.toolContext.Tools, t.NamesOf(units)...)
	}
	return nil
}

func (v *invocation) canonicalName(name string) string {
	if o, ok := v.offers[name]; ok {
		return o.canonical
	}
	return name
}
